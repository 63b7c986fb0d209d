//! A module is applied on a machine in memory that loses the process at each operation in turn,
//! and then again within undo: whatever happens, the machine is left as it was found.

use super::Module;
use crate::ground::Volume;
use crate::ground::fake::{Death, Fake};
use crate::ledger::{Ledger, Undone};

/// The longest set-up that is tried, in operations.
const OPERATIONS_MAX: usize = 200;

/// Applies a module on the volumes of these paths, all of which may lose their data, and kills it
/// everywhere; `same` tells whether the machine is as a new one.
pub(super) fn everywhere(
    machine: &dyn Fn() -> Fake,
    module: &dyn Module,
    paths: &[&str],
    same: &dyn Fn(&Fake, &Fake) -> bool,
) {
    let on = |fake: &Fake| -> Vec<Volume> {
        let volume = |path: &&str| fake.state().volumes[*path].clone();
        paths.iter().map(volume).map(|it| Volume { may_lose: true, ..it }).collect()
    };
    let apply = |fake: &Fake| {
        let mut ledger = Ledger::open(fake, fake.book(), "1f0c93aa", "test")?;
        module.apply(&mut ledger, &on(fake)).map(|_| ())
    };
    let undo = |fake: &Fake, within: Option<Death>| -> Option<Undone> {
        fake.revive();
        fake.book_text()?;
        fake.dies_at(within);
        let mut ledger = Ledger::left(fake, fake.book()).ok()?;
        let came = ledger.undo(0).ok()?;
        if ledger.is_clear() {
            ledger.close().ok()?;
        }
        Some(came)
    };
    for kind in [Death::Before, Death::After, Death::Within] {
        for at in 0.. {
            assert!(at < OPERATIONS_MAX, "it does not end");
            let mut survived = false;
            for within in [None, Some(0), Some(1), Some(2), Some(3), Some(5), Some(8), Some(13)] {
                let fake = machine();
                fake.dies_at(Some(kind(at)));
                let came = apply(&fake);
                survived = !fake.is_dead();
                assert!(!survived || came.is_ok(), "{came:?}");
                undo(&fake, within.map(kind));
                let came = undo(&fake, None).unwrap_or_default();
                assert_eq!(came.left, [], "{:?}, then {within:?}", kind(at));
                assert!(same(&fake, &machine()), "{:?}, then {within:?}", kind(at));
                assert_eq!(fake.book_text(), None);
            }
            if survived {
                break;
            }
        }
    }
}
