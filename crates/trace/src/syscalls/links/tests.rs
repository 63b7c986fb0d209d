//! Which call waits for which: told call by call, and for random programs against the rule itself.

use rustc_hash::FxHashSet;

use super::*;
use crate::syscalls::overlap_tests::Dice;

const THING: Thing = Thing::Content(7);

/// Links a call of a task that lasts from `begun` to `ended`; answers whom it waits for and
/// when it counts as begun.
fn linked(
    links: &mut Links,
    task: u32,
    (begun, ended): (i64, i64),
    access: Access,
) -> (Vec<u64>, i64) {
    let caller = Caller { task, begun: Nanos(begun), ended: Nanos(ended) };
    let linked = links.link(caller, &[(THING, access)]);
    (linked.parents.to_vec(), linked.issued.0)
}

#[test]
fn calls_that_overlapped_wait_for_each_other_where_the_order_tells() {
    use Access::{Change, Grow, Touch, Use, Write};
    let mut links = Links::default();
    assert_eq!(linked(&mut links, 1, (0, 10), Change), (vec![], 0));
    // It returned later, so it came after; and not before the other began.
    assert_eq!(linked(&mut links, 2, (-5, 15), Change), (vec![0], 0));
    assert_eq!(linked(&mut links, 3, (7, 17), Use), (vec![1], 7));
    assert_eq!(linked(&mut links, 4, (8, 18), Touch), (vec![1], 8));
    assert_eq!(linked(&mut links, 5, (9, 19), Write), (vec![1], 9));
    assert_eq!(linked(&mut links, 6, (10, 20), Grow), (vec![1, 2], 10));
    assert_eq!(linked(&mut links, 7, (11, 21), Write), (vec![1], 11));
    // What had returned is waited for, whatever it did.
    assert_eq!(linked(&mut links, 8, (30, 40), Write), (vec![1, 2, 3, 4, 5, 6], 30));
    assert_eq!(linked(&mut links, 9, (50, 60), Change), (vec![1, 2, 3, 4, 5, 6, 7], 50));
    assert_eq!(linked(&mut links, 1, (70, 80), Use), (vec![0, 8], 70));
    assert_eq!(links.begun_later, 1);
}

#[test]
fn names_are_made_beside_each_other_and_all_of_them_before_who_finds_a_directory_full() {
    let mut links = Links::default();
    linked(&mut links, 1, (0, 5), Access::Entry);
    assert!(linked(&mut links, 2, (10, 15), Access::Entry).0.is_empty());
    assert_eq!(linked(&mut links, 3, (12, 20), Access::Use).0, [0, 1]);
    assert_eq!(linked(&mut links, 4, (19, 30), Access::Entry).0, [2]);
}

#[test]
fn what_is_too_far_back_is_stood_in_for_by_the_latest_call_that_had_returned() {
    let mut links = Links::default();
    linked(&mut links, 1, (0, 1), Access::Change);
    let mut now = 1;
    for _ in 0..BACK_MAX {
        let caller = Caller { task: 2, begun: Nanos(now), ended: Nanos(now + 1) };
        links.link(caller, &[]);
        now += 1;
    }
    // The very last one overlaps it.
    let (parents, _) = linked(&mut links, 1, (now - 1, now + 9), Access::Change);
    assert_eq!(parents, [BACK_MAX - 1]);
    assert_eq!((links.too_far, links.next), (1, BACK_MAX + 2));
}

/// A call of a load that is made up.
struct Made {
    /// Which task made it, however often its number was given before.
    whose: usize,
    begun: i64,
    ended: i64,
    things: Vec<(Thing, Access)>,
    /// The numbers of all that it comes after by its links.
    after: FxHashSet<u64>,
}

/// How an earlier call stands to a later one by what both are about.
fn order(earlier: &Made, later: &Made) -> Order {
    let pairs =
        earlier.things.iter().flat_map(|one| later.things.iter().map(move |two| (one, two)));
    let orders = pairs.filter(|(one, two)| one.0 == two.0).map(|(one, two)| one.1.before(two.1));
    orders.fold(Order::Any, |all, one| match (all, one) {
        (Order::This, _) | (_, Order::This) => Order::This,
        (Order::Any, one) => one,
        (all, _) => all,
    })
}

/// What has a number of a task just now.
#[derive(Clone, Debug, Default)]
struct Now {
    /// Which task it is.
    whose: usize,
    /// Its last call, or that of what made it.
    last: Option<u64>,
    /// Its call that has not returned: when it was made, and what it is about.
    call: Option<(i64, Vec<(Thing, Access)>)>,
}

/// A few tasks, whose calls begin and end, on a few things.
struct Load {
    dice: Dice,
    links: Links,
    made: Vec<Made>,
    tasks: Vec<Now>,
    tasks_so_far: usize,
}

impl Load {
    fn new(seed: u64) -> Self {
        let tasks = (0..4).map(|whose| Now { whose, ..Now::default() }).collect();
        Self { dice: Dice(seed), links: Links::default(), made: Vec::new(), tasks, tasks_so_far: 4 }
    }

    /// A task begins a call or ends it, or another one gets its number.
    fn goes_on(&mut self, now: i64) {
        let at = self.dice.roll(4) as usize;
        if let Some((begun, things)) = self.tasks[at].call.take() {
            self.returns(at, (begun, now), things);
        } else if self.dice.roll(12) == 0 {
            self.another(at);
        } else {
            let thing = |dice: &mut Dice| {
                let access = Access::ALL[dice.roll(6) as usize];
                (Thing::Content(dice.roll(3) as usize), access)
            };
            let things = (0..=self.dice.roll(2)).map(|_| thing(&mut self.dice)).collect();
            self.tasks[at].call = Some((now, things));
        }
    }

    fn another(&mut self, at: usize) {
        self.links.exit(at as u32);
        self.tasks[at] = Now { whose: self.tasks_so_far, ..Now::default() };
        self.tasks_so_far += 1;
        let parent = self.dice.roll(4) as usize;
        if parent != at && self.dice.roll(2) == 0 {
            self.links.spawn(parent as u32, at as u32);
            self.tasks[at].last = self.tasks[parent].last;
        }
    }

    /// A call returns, and its links are held against the rule.
    fn returns(&mut self, at: usize, (begun, ended): (i64, i64), things: Vec<(Thing, Access)>) {
        let Now { whose, last, .. } = self.tasks[at];
        let caller = Caller { task: at as u32, begun: Nanos(begun), ended: Nanos(ended) };
        let Linked { number, parents, .. } = self.links.link(caller, &things);
        let made = &mut self.made;
        assert_eq!(number, made.len() as u64);
        let all = |parent: &u64| made[*parent as usize].after.iter().copied().chain([*parent]);
        let after = parents.iter().flat_map(all).collect();
        let this = Made { whose, begun, ended, things, after };
        for parent in parents {
            let parent = &made[*parent as usize];
            assert!(parent.ended <= begun || order(parent, &this) == Order::This, "{number}");
        }
        for (earlier, one) in (0..).zip(&*made) {
            let must = match order(one, &this) {
                _ if one.whose == whose || last == Some(earlier) => true,
                Order::Any => false,
                Order::IfApart => one.ended <= begun,
                Order::This => true,
            };
            assert!(!must || this.after.contains(&earlier), "{number} after {earlier}");
        }
        made.push(this);
        self.tasks[at].last = Some(number);
    }

    /// How many pairs that overlapped are left in no order.
    fn free(&self) -> usize {
        let free_before = |(later, one): (usize, &Made)| {
            let earlier = (0..).zip(&self.made[..later]);
            earlier
                .filter(|(number, it)| it.ended > one.begun && !one.after.contains(number))
                .count()
        };
        self.made.iter().enumerate().map(free_before).sum()
    }
}

#[test]
fn calls_of_random_loads_come_after_all_that_the_rule_names_and_after_nothing_else() {
    let mut free = 0;
    for seed in 0..2000 {
        let mut load = Load::new(seed);
        (0..160).for_each(|now| load.goes_on(now));
        free += load.free();
    }
    assert!(free > 20_000, "{free}");
}

#[test]
fn a_writer_whose_last_write_is_in_flight_has_others_that_had_returned() {
    use Access::{Touch, Use, Write};
    for later in [Touch, Use] {
        let mut links = Links::default();
        linked(&mut links, 1, (0, 10), Write);
        linked(&mut links, 1, (20, 30), Write);
        assert_eq!(linked(&mut links, 2, (25, 40), later), (vec![0], 25));
        // What it has not done yet by then is no matter of this one.
        assert_eq!(linked(&mut links, 1, (32, 45), Write).0, [1]);
        assert_eq!(linked(&mut links, 3, (5, 50), later), (vec![], 5));
        assert_eq!(linked(&mut links, 4, (46, 60), Access::Change).0, [2, 3, 4]);
    }
}

#[test]
fn a_change_comes_after_what_returned_before_it_and_before_what_returned_later() {
    use Access::{Change, Touch, Write};
    let mut links = Links::default();
    linked(&mut links, 1, (0, 10), Write);
    // It overlaps what it comes after, and what comes after it.
    linked(&mut links, 2, (11, 25), Touch);
    assert_eq!(linked(&mut links, 3, (20, 30), Change).0, [0, 1]);
    assert_eq!(linked(&mut links, 2, (28, 40), Touch).0, [1, 2]);
}

#[test]
fn a_number_that_is_given_again_is_another_task() {
    use Access::{Change, Use};
    let mut links = Links::default();
    linked(&mut links, 500, (0, 10), Change);
    links.exit(500);
    assert_eq!(linked(&mut links, 500, (20, 30), Use).0, [0]);
    links.exit(500);
    linked(&mut links, 7, (40, 50), Change);
    links.spawn(7, 500);
    assert_eq!(linked(&mut links, 500, (60, 70), Use).0, [2]);
}

#[test]
fn what_many_tasks_did_that_have_ended_is_not_kept_for_each_thing() {
    const FILES: usize = 500;
    let mut links = Links::default();
    let mut now = 0;
    let mut call = |links: &mut Links, task: u32, file: usize, access: Access| {
        now += 2;
        let caller = Caller { task, begun: Nanos(now), ended: Nanos(now + 1) };
        links.link(caller, &[(Thing::Content(file), access)]).parents.len()
    };
    for file in 0..FILES {
        call(&mut links, 1, file, Access::Change);
    }
    let calls = 3 * BACK_MAX as usize;
    for task in (2..).take(calls / FILES) {
        links.spawn(1, task);
        for file in 0..FILES {
            call(&mut links, task, file, Access::Use);
        }
        links.exit(task);
    }
    assert_eq!((links.tasks.len(), links.seen.len()), (1, 1));
    let spans: usize = links.things.values().map(Vec::len).sum();
    let calls: usize = links.histories.values().map(|history| history.calls.len()).sum();
    let at_most = 2 * BACK_MAX as usize;
    assert!(spans <= at_most + 2 * FILES && calls <= at_most, "{spans} {calls}");
    // Who changes all of them waits for each of the late tasks as it ends, and not once more.
    let parents: Vec<usize> =
        (0..FILES).map(|file| call(&mut links, 1, file, Access::Change)).collect();
    let late = BACK_MAX as usize / FILES;
    assert!((late..late + 4).contains(&parents[0]), "{}", parents[0]);
    assert!(parents[1..].iter().all(|parents| *parents <= 2), "{parents:?}");
}
