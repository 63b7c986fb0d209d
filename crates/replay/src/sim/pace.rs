//! Simulated clocks that keep in step.
//!
//! Each simulated target has its own clock, which jumps to the next instant at which something
//! happens there. Where requests wait for requests on other targets that would be wrong: a clock
//! must not pass the instant at which another target's completion lets a request go. So a device
//! that waits first says until when, and goes on once no other device's next instant is earlier;
//! one that tells a completion rings for those that mean to wait for longer.
//!
//! One device runs at a time, so a run of several is repeated exactly by its seed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ioecho_trace::Nanos;

/// A device's place among those whose clocks keep in step.
#[derive(Clone, Debug)]
pub struct Pace {
    number: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    places: Mutex<Vec<Place>>,
    moved: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It runs, or has not begun yet.
    Runs,
    /// It waits until this instant.
    Until(Nanos),
    /// It is over.
    Left,
}

impl Pace {
    /// Places for so many devices. None goes on before all have waited once.
    pub fn of(devices: usize) -> Vec<Self> {
        let shared = Arc::new(Shared {
            places: Mutex::new(vec![Place::Runs; devices]),
            moved: Condvar::new(),
        });
        (0..devices).map(|number| Self { number, shared: Arc::clone(&shared) }).collect()
    }

    /// Waits until this device is the next to do anything; returns the instant, `until` or an
    /// earlier one at which another has told something.
    pub(super) fn wait(&self, until: Nanos) -> Nanos {
        let mut places = self.places();
        places[self.number] = Place::Until(until);
        loop {
            match next(&places) {
                Some((at, number)) if number == self.number => {
                    places[number] = Place::Runs;
                    return at;
                }
                Some(_) => self.shared.moved.notify_all(),
                None => {}
            }
            places = self.shared.moved.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Something was told at this instant: nobody waits beyond it.
    pub(crate) fn ring(&self, now: Nanos) {
        for place in self.places().iter_mut() {
            if let Place::Until(until) = place {
                *until = now.min(*until);
            }
        }
    }

    /// This device takes no further part.
    pub fn leave(&self) {
        self.places()[self.number] = Place::Left;
        self.shared.moved.notify_all();
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.shared.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The device that goes on next, and when; `None` while one runs.
fn next(places: &[Place]) -> Option<(Nanos, usize)> {
    if places.contains(&Place::Runs) {
        return None;
    }
    let waiting = places.iter().enumerate().filter_map(|(number, place)| match place {
        Place::Until(at) => Some((*at, number)),
        Place::Runs | Place::Left => None,
    });
    waiting.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_goes_on_and_the_first_of_equals() {
        let at = |ns| Place::Until(Nanos(ns));
        assert_eq!(next(&[at(30), at(10), at(10)]), Some((Nanos(10), 1)));
        assert_eq!(next(&[at(30), Place::Runs]), None);
        assert_eq!(next(&[at(30), Place::Left]), Some((Nanos(30), 0)));
        assert_eq!(next(&[Place::Left]), None);
    }

    #[test]
    fn nobody_waits_beyond_what_another_tells() {
        let paces = Pace::of(2);
        let (one, other) = (paces[0].clone(), paces[1].clone());
        let slept = std::thread::spawn(move || {
            let first = other.wait(Nanos(1_000));
            let second = other.wait(Nanos(2_000));
            other.leave();
            (first, second)
        });
        // Both begin at zero, so the first device comes first.
        assert_eq!(one.wait(Nanos(50)), Nanos(50));
        one.ring(Nanos(60));
        assert_eq!(one.wait(Nanos(500)), Nanos(500));
        one.leave();
        assert_eq!(slept.join().unwrap(), (Nanos(60), Nanos(2_000)));
    }
}
