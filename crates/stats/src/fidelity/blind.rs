//! Where a recorder cannot have seen the requests.
//!
//! A recorder is killed, its disk fills up, its buffers overflow, its file is damaged later.
//! Requests after the end of such a recording, or in a gap of it, were not recorded: calling them
//! missing would blame the replay for the recorder. They are *not witnessed*.

use ioecho_trace::Header;
use ioecho_trace::recording::Interface;

use super::matching::difference;

/// A recorder empties the buffers of all processors at least once in this time
/// (`SLEEP_MAX` of the recorder, and a busy host), so one that was killed knows of some processors
/// until the end, and of others until so long before.
pub(super) const END_SLACK_NS: i64 = 1_000_000_000;

/// Where a recording is blind. Instants in nanoseconds, in the time of [`Event::at`] of what was
/// seen.
///
/// [`Event::at`]: super::Event::at
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blind {
    /// Whether it may break off before the end of what was to be seen.
    pub ends_early: bool,
    /// Since when and until when it recorded, as far as that is known. Requests outside cannot have
    /// been seen.
    pub(super) recorded: (Option<i64>, Option<i64>),
    /// Stretches in which events were lost, in order and apart from each other.
    pub(super) gaps: Vec<(i64, i64)>,
    /// So many requests at most are unseen in these stretches, for a lost event hides one; `None`
    /// where not all of them were counted.
    pub(super) most: Option<u64>,
    /// How many requests may be unseen at unknown instants.
    pub anywhere: u64,
}

impl Blind {
    /// As a recording's header has it at its end; its zero lies `shift_ns` behind that of the other
    /// side.
    pub fn of(header: &Header, shift_ns: i64) -> Self {
        let is_damaged = header.damage.is_some();
        let Some(recording) = &header.recording else {
            return Self { ends_early: is_damaged, ..Self::default() };
        };
        let shifted = |at: Option<i64>| at.map(|at| at.saturating_add(shift_ns));
        let is_ours = recording.interface != Interface::File;
        let lost = recording.lost.values().fold(0, |all: u64, lost| all.saturating_add(*lost));
        let placed = recording.gaps.iter().fold(0, |all: u64, gap| all.saturating_add(gap.events));
        // Relay files do not tell where in them something is broken.
        let is_torn = is_damaged && recording.interface == Interface::Blktrace;
        let is_counted = !is_damaged && recording.gaps.iter().all(|gap| gap.events > 0);
        let gaps = recording
            .gaps
            .iter()
            .map(|gap| (gap.from_ns.saturating_add(shift_ns), gap.to_ns.saturating_add(shift_ns)));
        let gaps: Vec<_> = gaps.collect();
        let is_placed = !gaps.is_empty() && placed == 0;
        let blind = Self {
            ends_early: is_damaged || is_ours && !recording.was_asked_to_end(),
            anywhere: if is_torn {
                u64::MAX
            } else if is_placed {
                0
            } else {
                lost.saturating_sub(placed)
            },
            most: is_counted.then_some(placed),
            recorded: (shifted(recording.from_ns), shifted(recording.until_ns)),
            ..Self::default()
        };
        blind.with_gaps(gaps)
    }

    /// The same with these stretches, in any order.
    #[must_use]
    pub fn with_gaps(mut self, mut gaps: Vec<(i64, i64)>) -> Self {
        gaps.retain(|gap| gap.0 <= gap.1);
        gaps.sort_unstable();
        self.gaps.clear();
        for gap in gaps {
            match self.gaps.last_mut() {
                Some(last) if gap.0 <= last.1 => last.1 = last.1.max(gap.1),
                _ => self.gaps.push(gap),
            }
        }
        self
    }

    /// Whether a request that ought to have been seen at this instant, or up to `slack_ns` later,
    /// may have come before the recording began or behind its end.
    pub(super) fn is_outside(&self, at: i64, slack_ns: i64) -> bool {
        let (from, until) = self.recorded;
        from.is_some_and(|from| at < from)
            || until.is_some_and(|until| at > difference(until, slack_ns))
    }

    /// Whether a request that ought to have been seen at this instant, or up to `slack_ns` later,
    /// may have been there unseen.
    pub(super) fn hides(&self, at: i64, slack_ns: i64) -> bool {
        let next = self.gaps.partition_point(|gap| gap.1 < at);
        self.gaps.get(next).is_some_and(|gap| difference(gap.0, slack_ns) <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::recording::{Gap, Recording};

    #[test]
    fn gaps_of_all_processors_hide_what_lies_in_them_and_a_little_before() {
        let blind = Blind::default().with_gaps(vec![(500, 600), (100, 200), (150, 300), (9, 1)]);
        assert_eq!(blind.gaps, [(100, 300), (500, 600)]);
        let hidden = [89, 90, 100, 300, 301, 490, 600, 601].map(|at| blind.hides(at, 10));
        assert_eq!(hidden, [false, true, true, true, false, true, true, false]);
        let ends = Blind::default().with_gaps(vec![(i64::MIN, i64::MIN), (i64::MAX, i64::MAX)]);
        assert!(ends.hides(i64::MAX, i64::MAX) && ends.hides(i64::MIN, 0));
    }

    #[test]
    fn a_recording_that_was_not_asked_to_end_may_end_early() {
        let told = |stopped: Option<&str>, asked, interface, damage: Option<&str>| {
            let stopped = stopped.map(str::to_owned);
            let recording = Recording { interface, stopped, asked, ..Recording::default() };
            let damage = damage.map(str::to_owned);
            let header = Header { recording: Some(recording), damage, ..Header::default() };
            Blind::of(&header, 0)
        };
        let words = "in whatever words";
        assert!(!told(Some(words), Some(true), Interface::Tracefs, None).ends_early);
        assert!(told(Some("asked to"), Some(false), Interface::Tracefs, None).ends_early);
        // As earlier versions wrote it.
        let of = |stopped, interface, damage| told(stopped, None, interface, damage);
        assert!(!of(Some("asked to"), Interface::Tracefs, None).ends_early);
        assert!(!of(Some("asked to: SIGTERM"), Interface::Tracefs, None).ends_early);
        assert!(of(None, Interface::Tracefs, None).ends_early);
        assert!(of(Some("the disk is full"), Interface::Blktrace, None).ends_early);
        assert!(!of(None, Interface::File, None).ends_early);
        assert!(of(Some("asked to"), Interface::Tracefs, Some("torn")).ends_early);
        assert_eq!(of(Some("asked to"), Interface::Blktrace, Some("torn")).anywhere, u64::MAX);
        assert_eq!(Blind::of(&Header::default(), 5), Blind::default());
    }

    #[test]
    fn what_lies_before_the_beginning_and_behind_the_end_is_outside() {
        let recording =
            Recording { from_ns: Some(-50), until_ns: Some(900), ..Recording::default() };
        let blind = Blind::of(&Header { recording: Some(recording), ..Header::default() }, 100);
        let outside = [i64::MIN, 49, 50, 990, 991, i64::MAX].map(|at| blind.is_outside(at, 10));
        assert_eq!(outside, [true, true, false, false, true, true]);
        assert!(!Blind::default().is_outside(i64::MIN, i64::MAX));
    }

    #[test]
    fn losses_that_have_no_place_may_be_anywhere() {
        let gap = |events| Gap { from_ns: 10, to_ns: 20, events };
        let of = |gaps: Vec<Gap>| {
            let lost = [(0, 7)].into_iter().collect();
            let recording = Recording { lost, gaps, ..Recording::default() };
            Blind::of(&Header { recording: Some(recording), ..Header::default() }, 5)
        };
        assert_eq!(of(vec![]).anywhere, 7);
        assert_eq!(of(vec![gap(4)]).anywhere, 3);
        assert_eq!(of(vec![gap(0)]).anywhere, 0);
        assert!(of(vec![gap(7)]).hides(25, 0) && !of(vec![gap(7)]).hides(14, 0));
        assert_eq!(of(vec![gap(4), gap(2)]).most, Some(6));
        assert_eq!(of(vec![gap(4), gap(0)]).most, None);
    }

    #[test]
    fn a_damaged_recording_may_have_lost_more_than_it_counted() {
        let gaps = vec![Gap { from_ns: 10, to_ns: 20, events: 1 }];
        let recording = Some(Recording { gaps, ..Recording::default() });
        let damage = Some("torn".to_owned());
        let most = Blind::of(&Header { recording, damage, ..Header::default() }, 0).most;
        assert_eq!(most, None);
    }
}
