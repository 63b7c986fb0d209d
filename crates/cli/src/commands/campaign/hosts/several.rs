//! The same work for many hosts, for some of them at the same time.
//!
//! A transfer spends most of its time waiting: for a connection, for the other side's disk. One
//! host after the other, a thousand of them would take an hour.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::bulk::Asked;

/// How many transfers go on at the same time. Each is a process here, and one on its host.
const AT_ONCE: usize = 16;

/// Does `work` for each of `jobs`, and returns what came of it in their order. `work` is handed the
/// question whether it is to end: somebody `asked` for it, or another job has failed.
///
/// # Errors
///
/// The first of all, after which no further job begins.
pub(super) fn several<J: Sync, T: Send, E: Send>(
    jobs: &[J],
    asked: &(dyn Fn() -> bool + Sync),
    work: impl Fn(&J, Asked<'_>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done = Mutex::new((Vec::with_capacity(jobs.len()), None));
    let ends = || has_failed.load(Relaxed) || asked();
    let works = || {
        while !has_failed.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(number) else { return };
            let came = work(job, &ends);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match came {
                Ok(it) => done.0.push((number, it)),
                Err(why) => {
                    has_failed.store(true, Relaxed);
                    done.1.get_or_insert(why);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..AT_ONCE.min(jobs.len()) {
            // This thread does what no other one can be had for.
            let _ = thread::Builder::new().name("host".to_owned()).spawn_scoped(scope, works);
        }
        works();
    });
    let (mut all, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = failed {
        return Err(why);
    }
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, it)| it).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn some_go_on_at_the_same_time_and_all_come_back_in_their_order() {
        // None would get past it if they followed each other.
        let all_at_once = Barrier::new(AT_ONCE);
        let jobs: Vec<usize> = (0..4 * AT_ONCE).collect();
        let going = AtomicUsize::new(0);
        let came = several(&jobs, &|| false, |job, _| {
            assert!(going.fetch_add(1, Relaxed) < AT_ONCE);
            all_at_once.wait();
            going.fetch_sub(1, Relaxed);
            Ok::<_, ()>(job * 2)
        });
        assert_eq!(came, Ok(jobs.iter().map(|job| job * 2).collect()));
    }

    #[test]
    fn the_first_that_fails_ends_the_others() {
        let begun = AtomicUsize::new(0);
        let jobs: Vec<usize> = (0..1000).collect();
        let came: Result<Vec<()>, _> = several(&jobs, &|| false, |job, ends| {
            begun.fetch_add(1, Relaxed);
            if *job == 1 {
                return Err("the first");
            }
            while !ends() {
                thread::yield_now();
            }
            Err("ended")
        });
        assert_eq!(came, Err("the first"));
        assert!(begun.into_inner() <= AT_ONCE);
    }
}
