//! The engine: asks the scheduler what to do, does it, and sleeps in between.
//!
//! Timing errors add up if each wait begins where the last one ended, so every deadline is
//! absolute. A thread that sleeps wakes tens of microseconds late, and one that spins takes the
//! processor that the storage stack needs: so the engine sleeps until shortly before the next
//! deadline and spins the rest of the way.
//!
//! The engine notices each of its own delays, and records which requests it made late and why:
//! without that, a slow generator looks like a slow device.

mod across;
mod audit;
mod cut;
mod failing;
mod hand_over;
mod refill;
pub mod telemetry;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use ioecho_trace::{Bytes, Flags, LateCause, Nanos, Op};

use crate::across::Across;
use crate::clock::Clock;
use crate::device::{Completion, Device, Io, PAYLOAD_BLOCK, Payload};
pub use crate::pacing::{Pacing, PacingMode};
use crate::pattern::Pattern;
use crate::plan::Planned;
use crate::schedule::{Counts, LATENESS_TOLERATED, Record, Scheduler, Wake};
use crate::verify::Following;
use audit::Audit;
pub use cut::CutOff;
pub use failing::Hopeless;
use telemetry::{Doing, Gauges, Levels, Telemetry};

/// How long the engine sleeps at most, so that it notices a stop.
const NAP_MAX: Nanos = Nanos::from_millis(20);

/// How long to wait for input that is not ready before looking again.
const INPUT_NAP: Nanos = Nanos::from_micros(200);

/// How long to sleep at most while requests wait for others on other targets, whose completions
/// wake nobody.
const ACROSS_NAP: Nanos = Nanos::from_micros(20);

/// How many requests are taken from the input at a time: a long look-ahead is refilled by and by,
/// so that no step takes long.
const REFILL: usize = 256;

/// The most payload that is prepared for one system call: some 20 µs of work.
const PAYLOAD_BUNDLE_BYTES: u64 = 128 << 10;

/// The most payload that is drafted at a time, of large requests a part: in between the engine
/// checks for completions, whose measured end would otherwise be late.
const DRAFT_BUNDLE_BYTES: u64 = 16 << 10;

/// No draft is begun within this time before a deadline.
const DRAFT_MARGIN: Nanos = Nanos::from_micros(10);

/// The shortest time between two queries for preemptions, because each is a system call.
const PREEMPTIONS_EVERY: Nanos = Nanos::from_millis(1);

/// The shortest time between two queries for the wait for a processor, because each takes several
/// system calls.
const WAITED_EVERY: Nanos = Nanos::from_secs(1);

/// How many times its undisturbed duration the preparation of payload may take before the host is
/// blamed: caches are cold after a pause.
const WORK_MARGIN: f64 = 4.0;

/// Where the part of a payload ends that is made in one go and begins with byte `made`.
fn part_of_payload(planned: &Planned, made: u64) -> u64 {
    let place = planned.offset.0 + made + DRAFT_BUNDLE_BYTES;
    (place / PAYLOAD_BLOCK * PAYLOAD_BLOCK - planned.offset.0).min(planned.length.0)
}

/// What preparing a byte of payload takes, in nanoseconds: the best of some tries, so that what the
/// host takes meanwhile does not count.
fn payload_cost(clock: &impl Clock, pattern: &mut Pattern) -> f64 {
    const BYTES: usize = 64 << 10;
    let mut buffer = vec![0; BYTES];
    let io = Io {
        tag: 0,
        request: 0,
        scheduled: Nanos::ZERO,
        op: Op::Write,
        flags: Flags::empty(),
        offset: Bytes::ZERO,
        length: Bytes(BYTES as u64),
    };
    let tries = (0..8).map(|_| {
        let before = clock.now();
        pattern.fill(&io, &mut buffer);
        (clock.now() - before).0
    });
    tries.min().unwrap_or_default() as f64 / BYTES as f64
}

/// The answer of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The next request.
    Request(Planned),
    /// The next request of a client that waited until another gave back what it needed: it is due
    /// now.
    Found(Planned),
    /// There will be more, but not yet.
    NotYet,
    /// There is no more.
    Ended,
}

/// Where planned requests come from. Must not block.
pub trait Input {
    /// The next request, if there is one already.
    fn poll(&mut self) -> Feed;

    /// The next request of a flow, counted from 0 in the lane, if there is one already. It is asked
    /// where the scheduler has flows, `now`: at the engine's last step.
    fn poll_flow(&mut self, flow: usize, now: Nanos) -> Feed {
        let _ = (flow, now);
        self.poll()
    }

    /// Nothing of it is issued any more: what is asked for from here on is only counted.
    fn cut_off(&mut self) {}

    /// Told of the result of every request of a flow, as it is recorded. Answers whether there may
    /// be a request now that was not there before: then each flow is asked at once.
    fn completed(&mut self, record: &Record) -> bool {
        let _ = record;
        false
    }

    /// The numbers of the requests that the request last given waits for, each once; all smaller
    /// than its own.
    fn parents(&self) -> &[u64] {
        &[]
    }

    /// The link to the replays on other targets, where requests wait for requests there.
    fn across(&mut self) -> Option<&mut Across> {
        None
    }

    /// A number that no request to come is below.
    fn next_seq(&mut self) -> u64 {
        0
    }

    /// The cause if there are no more requests yet.
    fn late_cause(&self) -> LateCause {
        LateCause::Input
    }

    /// How many requests wait to be taken, where that is known.
    fn level(&self) -> Option<u64> {
        None
    }
}

/// Where results go. Must not block.
pub trait ResultSink {
    /// Takes one result, if it can; answers whether it did. It counts those that it cannot take,
    /// and never delays the engine.
    fn record(&mut self, record: &Record) -> bool;

    /// Takes what the engine did in an interval, where [`Pacing::telemetry_every`] asks for it.
    fn telemetry(&mut self, interval: &Telemetry) {
        let _ = interval;
    }

    /// How many results wait to be taken from it, if known.
    fn level(&self) -> Option<u64> {
        None
    }
}

impl ResultSink for Vec<Record> {
    fn record(&mut self, record: &Record) -> bool {
        self.push(*record);
        true
    }
}

impl<I: Iterator<Item = Planned>> Input for I {
    fn poll(&mut self) -> Feed {
        self.next().map_or(Feed::Ended, Feed::Request)
    }
}

/// The part of the engine's state that other threads read and set while it runs. The engine writes
/// it with every step, so it has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Control {
    /// Set to end the run: nothing more is issued, and requests in flight are waited for.
    pub stop: Arc<AtomicBool>,
    /// Requests issued so far.
    pub issued: AtomicU64,
    /// Requests in flight.
    pub in_flight: AtomicU32,
    /// The replay's own time, ns; negative before it starts. While [`Control::replaying`] it never
    /// stands still for long, unless the engine's thread is stuck in a system call.
    pub now_ns: AtomicI64,
    /// Whether the engine runs.
    pub replaying: AtomicBool,
}

/// Counts of a finished run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The scheduler's counters.
    pub counts: Counts,
    /// Requests recorded, issued or not.
    pub recorded: u64,
    /// Whether it was stopped before the input ended.
    pub stopped: bool,
    /// Whether it was ended because the device did not answer any more.
    pub silent: bool,
    /// Whether it was ended because more requests failed, or more places were found damaged, than
    /// may.
    pub too_many_errors: bool,
    /// Whether it was ended because nothing that its clients asked for succeeded any more.
    pub hopeless: Option<Hopeless>,
    /// What was left when it came to the end that was asked for ([`Pacing::end_after`]); `None` if
    /// it ended with its input or earlier.
    pub cut_off: Option<CutOff>,
    /// Requests that the device answered with an error or a short transfer.
    pub errors: u64,
    /// Requests given up at the end because the device did not answer.
    pub abandoned: u64,
    /// How often the look-ahead ran empty because the input was not ready, when something was due.
    pub input_stalls: u64,
    /// How often the issuing thread was stopped for longer than tolerated, without having slept.
    pub host_stalls: u64,
    /// The longest such absence.
    pub host_stall_max: Nanos,
    /// How often handing over requests took longer than tolerated.
    pub slow_submissions: u64,
    /// The longest hand-over.
    pub submission_max: Nanos,
    /// From the replay's time zero to the end of the last completion seen.
    pub duration: Nanos,
}

/// Everything that a replay needs, borrowed for its duration.
pub struct Replay<'a, C> {
    /// Takes the requests.
    pub device: &'a mut dyn Device,
    /// The clock of the device's instants.
    pub clock: &'a C,
    /// Decides.
    pub scheduler: Scheduler,
    /// Where requests come from.
    pub input: &'a mut dyn Input,
    /// Where results go.
    pub recorder: &'a mut dyn ResultSink,
    /// Makes the payload of writes.
    pub pattern: &'a mut Pattern,
    /// How time is spent.
    pub pacing: Pacing,
    /// Shared with other threads.
    pub control: &'a Control,
    /// Verifies that the target holds the written data.
    pub verify: Option<Verification<'a>>,
}

/// How a replay is verified while it runs.
pub struct Verification<'a> {
    /// Tracks every request, and judges the data of reads.
    pub verifier: Following<'a>,
    /// Whether every write is read again as soon as it has completed, before anything that
    /// overlaps it may be issued.
    pub reread_writes: bool,
    /// Whether data of known content is read before a request changes it, because otherwise its
    /// damage would be overwritten unseen. The request is issued when the read has completed.
    pub preread: bool,
}

impl<C: Clock> Replay<'_, C> {
    /// Runs until the input has ended or the run is stopped, and everything in flight has
    /// completed. An error is one of the whole device; results until then are recorded.
    pub fn run(self) -> (Totals, io::Result<()>) {
        let Self { device, clock, mut scheduler, input, recorder, pattern, .. } = self;
        let Self { pacing, control, verify, .. } = self;
        scheduler.set_concurrency(device.concurrency());
        let payload_cost = payload_cost(clock, pattern);
        let timing = scheduler.config().timing;
        let has_flows = scheduler.flows() > 0;
        let has_clients = scheduler.has_clients();
        let mut audit = verify.map(|verify| Audit::new(verify, scheduler.config()));
        scheduler.look_ahead_numbered(audit.as_mut().map_or(0, Audit::notes_ahead));
        device.keep_data(audit.is_some());
        let is_inline = device.is_inline();
        let serves = is_inline && audit.is_none();
        let mut engine = Engine {
            device,
            is_inline,
            serves,
            clock,
            start: pacing.start_at.unwrap_or_else(|| clock.now() + pacing.start_grace),
            scheduler,
            recorder,
            pattern,
            pacing,
            control,
            completions: Vec::with_capacity(1024),
            submissions: Vec::with_capacity(1024),
            records: Vec::with_capacity(1024),
            unsubmitted: 0,
            is_alone: false,
            drafted: None,
            drafting: (0, 0),
            // The requests of flows have no number before they are issued.
            drafts_ahead: !has_flows && (timing.has_schedule() || timing.has_parents()),
            heard_at: Nanos::ZERO,
            preemptions: clock.preemptions(),
            preemptions_at: Nanos(i64::MIN),
            waited: clock.waited(),
            waited_at: Nanos(i64::MIN),
            payload_cost,
            audit,
            gauges: pacing.telemetry_every.map(|every| Box::new(Gauges::new(every))),
            has_told: false,
            was_woken: false,
            flow_counted: 0,
            flow_asked: 0,
            has_clients,
            in_a_row: failing::InARow::default(),
            totals: Totals::default(),
        };
        control.replaying.store(true, Relaxed);
        let result = engine.run(input);
        control.replaying.store(false, Relaxed);
        if result.is_err() || engine.scheduler.in_flight() > 0 {
            engine.abandon();
        }
        if let Some(audit) = &mut engine.audit {
            audit.end();
        }
        engine.finish_gauges();
        engine.totals.counts = engine.scheduler.counts();
        (engine.totals, result)
    }
}

/// How filling the look-ahead ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeding {
    /// It is full, or was given as much as one step may take.
    More,
    /// The input was not ready with more.
    NotYet,
    /// There is no more.
    Ended,
}

/// How the time of a hand-over was spent.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    since: Nanos,
    preparing: Nanos,
    submitting: Nanos,
    put_aside: Nanos,
}

impl Spent {
    fn total(&self) -> Nanos {
        self.preparing + self.submitting + self.put_aside
    }

    /// The cause of most of it; the host if it was short.
    fn cause(&self) -> LateCause {
        let Self { preparing, submitting, put_aside, .. } = *self;
        if self.total() <= LATENESS_TOLERATED || put_aside >= submitting.max(preparing) {
            LateCause::Host
        } else if submitting >= preparing {
            LateCause::Submission
        } else {
            LateCause::Generator
        }
    }
}

struct Engine<'a, C> {
    device: &'a mut dyn Device,
    /// Whether the device serves requests as they are handed over.
    is_inline: bool,
    /// Whether these have their results then: nothing is read beside them.
    serves: bool,
    clock: &'a C,
    /// The replay's time zero on the clock.
    start: Nanos,
    scheduler: Scheduler,
    recorder: &'a mut dyn ResultSink,
    pattern: &'a mut Pattern,
    pacing: Pacing,
    control: &'a Control,
    completions: Vec<Completion>,
    submissions: Vec<Io>,
    records: Vec<Record>,
    /// Requests prepared that the device has not taken yet.
    unsubmitted: usize,
    /// Whether nothing falls due before the one request that is handed over has completed.
    is_alone: bool,
    /// The number of the last request whose payload was made ahead, or that needs none.
    drafted: Option<u64>,
    /// The request whose payload was last made ahead, and how many bytes of it.
    drafting: (u64, u64),
    /// Whether a payload can be made before its request is due.
    drafts_ahead: bool,
    /// When the device last took or answered a request.
    heard_at: Nanos,
    preemptions: u64,
    /// When that was looked at.
    preemptions_at: Nanos,
    /// How long this thread had waited for a processor when that was looked at.
    waited: Option<Nanos>,
    /// When that was.
    waited_at: Nanos,
    /// What preparing a byte of payload takes on this host when it is left alone, ns.
    payload_cost: f64,
    audit: Option<Audit<'a>>,
    /// What is told of the engine itself, where that is asked for.
    gauges: Option<Box<Gauges>>,
    /// Whether results may have brought requests since the input was asked.
    has_told: bool,
    /// Whether the engine has just slept until a completion could wake it.
    was_woken: bool,
    /// How many flows were counted to the end that was asked for.
    flow_counted: usize,
    /// The flow that is asked first next.
    flow_asked: usize,
    /// Whether clients ask again as soon as they are answered.
    has_clients: bool,
    /// The failures since the last success.
    in_a_row: failing::InARow,
    totals: Totals,
}

impl<C: Clock> Engine<'_, C> {
    fn now(&self) -> Nanos {
        self.clock.now() - self.start
    }

    fn run(&mut self, input: &mut dyn Input) -> io::Result<()> {
        let mut input_ended = false;
        // Until when the engine meant to sleep; any further absence is the host's fault.
        let mut expected_back = Nanos::MAX;
        let mut gap_cause = LateCause::Host;
        // Why there was nothing to do.
        let mut starved = None;
        let mut has_more = false;
        let mut doing = Doing::default();
        loop {
            let served = if self.serves { self.settle(input)? } else { None };
            if !input_ended {
                let feed = match self.totals.cut_off {
                    None => self.refill(input, starved.is_some()),
                    Some(_) => self.count_rest(input),
                };
                (input_ended, has_more) = (feed == Feeding::Ended, feed == Feeding::More);
            }
            // Before the step, because requests that the step decides to issue must be handed over.
            if self.control.stop.load(Relaxed) {
                self.totals.stopped |= !input_ended || self.scheduler.has_planned();
                self.scheduler.end_input(true);
                input_ended = true;
            }
            let now = served.unwrap_or_else(|| self.now());
            if self.is_to_be_cut_off(now, input_ended) {
                self.cut_off(now, starved.unwrap_or(gap_cause));
            }
            self.notice_stall(now, expected_back, gap_cause);
            if self.gauges.is_some() {
                self.gauge(now, doing, input);
            }
            let wake = self.step(input, now, starved.unwrap_or(gap_cause))?;
            starved = (wake == Wake::Input && !has_more).then(|| input.late_cause());
            if wake == Wake::Finished && self.unsubmitted == 0 {
                return Ok(());
            }
            let is_asked = self.unsubmitted > 0 || self.scheduler.in_flight() > 0;
            if is_asked
                && matches!(wake, Wake::Completion | Wake::Finished | Wake::Input)
                && now - self.heard_at > self.pacing.silence_max
            {
                self.totals.silent = true;
                self.totals.stopped |=
                    !input_ended || self.scheduler.has_planned() || self.scheduler.waiting() > 0;
                return Ok(());
            }
            if self.submissions.is_empty() && self.unsubmitted == 0 {
                doing = match wake {
                    Wake::At(_) => Doing::Awaiting,
                    Wake::Completion | Wake::Finished => Doing::Blocked,
                    Wake::Input => Doing::Starved,
                };
                // If the input has more, or was told what it waited for, the engine does not wait:
                // what it has may be due before all that is held.
                let takes_more = wake == Wake::Input || self.scheduler.is_hungry();
                let is_fed = has_more && takes_more || self.has_told;
                let wake = if is_fed { Wake::At(now) } else { wake };
                expected_back = self.rest(now, wake)?;
                gap_cause = LateCause::Host;
            } else {
                doing = Doing::Issuing;
                let waits = wake == Wake::Completion && self.scheduler.in_flight() == 1;
                self.is_alone = waits && self.submissions.len() == 1;
                gap_cause = self.hand_over(now)?;
                // Behind a call that was served there is nothing to be away from.
                expected_back = if self.is_inline { Nanos::MAX } else { self.now() };
                // What of flows fell due meanwhile waited for the thread that made the call.
                let is_served = self.serves && self.scheduler.flows() > 0;
                starved = is_served.then_some(LateCause::InFlightCap);
            }
        }
    }

    /// Takes completions, lets the scheduler decide, records results.
    fn step(
        &mut self,
        input: &mut dyn Input,
        now: Nanos,
        gap_cause: LateCause,
    ) -> io::Result<Wake> {
        let woken = self.completions.len();
        // What a device has served was taken already.
        if !self.serves {
            self.device.reap(&mut self.completions)?;
        }
        self.take_completions(now, woken);
        self.submissions.clear();
        self.hear_across(input);
        let wake = self.scheduler.step(
            now,
            gap_cause,
            &self.completions,
            &mut self.submissions,
            &mut self.records,
        );
        self.pass_on(input);
        self.control.in_flight.store(self.scheduler.in_flight(), Relaxed);
        self.control.now_ns.store(now.0, Relaxed);
        Ok(wake)
    }

    /// Takes what has completed; the first `woken` were waited for.
    fn take_completions(&mut self, now: Nanos, woken: usize) {
        if !self.completions.is_empty() {
            self.heard_at = now;
        }
        if self.gauges.is_some() {
            self.gauge_completions(now, woken);
        }
        for completion in &mut self.completions {
            completion.submitted -= self.start;
            completion.completed -= self.start;
            self.totals.duration = self.totals.duration.max(completion.completed);
        }
        if let Some(audit) = &mut self.audit {
            self.unsubmitted += audit.take(self.device, self.pattern, &mut self.completions);
            for tag in audit.held_up.drain(..) {
                self.scheduler.explain(tag, LateCause::Verification);
            }
        }
        // The reads of verification were already taken out here.
        self.count_failures();
    }

    /// Tells of the results, and records them.
    fn pass_on(&mut self, input: &mut dyn Input) {
        self.completions.clear();
        self.tell_across(input);
        if self.scheduler.flows() > 0 {
            let told = self.records.iter().map(|record| input.completed(record));
            self.has_told = told.fold(false, |any, brings| any | brings);
        }
        self.flush_records();
    }

    fn flush_records(&mut self) {
        for record in &self.records {
            if record.planned.op == Op::Write && record.measured.submitted.is_none() {
                self.device.forget(record.planned.seq);
            }
            if !self.recorder.record(record)
                && let Some(audit) = &mut self.audit
            {
                audit.result_lost(&record.planned);
            }
            self.totals.recorded += 1;
        }
        self.records.clear();
    }

    /// Hands due requests to the device; returns why the engine was away meanwhile.
    ///
    /// Requests that are due together go down in one system call, but none waits for the payload
    /// of many others: after so many bytes of payload those prepared so far go first.
    fn hand_over(&mut self, decided: Nanos) -> io::Result<LateCause> {
        let since = if self.is_inline { decided + self.start } else { self.clock.now() };
        let mut spent = Spent { since, ..Spent::default() };
        let submissions = std::mem::take(&mut self.submissions);
        let mut prepared = 0;
        let mut payload_bytes = 0;
        for (index, io) in submissions.iter().enumerate() {
            if io.op == Op::Write {
                payload_bytes += io.length.0;
            }
            let first = match &mut self.audit {
                Some(audit) => audit.begin(io, spent.since - self.start, self.device),
                None => *io,
            };
            self.device.prepare(&first, self.pattern);
            self.unsubmitted += 1;
            if payload_bytes >= PAYLOAD_BUNDLE_BYTES {
                self.submit(&submissions[prepared..=index], decided, &mut spent)?;
                if self.is_inline {
                    spent.since = self.clock.now();
                }
                prepared = index + 1;
                payload_bytes = 0;
            }
        }
        if self.unsubmitted > 0 {
            self.submit(&submissions[prepared..], decided, &mut spent)?;
        }
        self.submissions = submissions;
        self.submissions.clear();
        Ok(spent.cause())
    }

    /// Waits until there is something to do; returns when the engine meant to be back.
    fn rest(&mut self, now: Nanos, wake: Wake) -> io::Result<Nanos> {
        let never_sleeps = self.pacing.spin == Nanos::MAX;
        let until = match wake {
            _ if never_sleeps => now,
            Wake::At(due) if self.clock.jumps() => due.saturating_sub(self.pacing.spin),
            Wake::At(due) => due.min(now + NAP_MAX + self.pacing.spin) - self.pacing.spin,
            Wake::Completion | Wake::Finished => now + NAP_MAX,
            Wake::Input => now + INPUT_NAP,
        };
        let hungry = self.scheduler.is_hungry();
        let until = if hungry { until.min(now + INPUT_NAP) } else { until };
        let is_woken = self.clock.jumps() || !self.scheduler.waits_elsewhere();
        let until = if is_woken { until } else { until.min(now + ACROSS_NAP) };
        let until = self.not_beyond_the_end(until, now);
        let drafts_until = match wake {
            // Without a schedule the instant in a request's payload is not known yet.
            _ if !self.drafts_ahead => now,
            Wake::At(due) => due,
            Wake::Completion | Wake::Input => Nanos::MAX,
            Wake::Finished => now,
        };
        if drafts_until > now + DRAFT_MARGIN && self.draft(drafts_until) {
            // Completions may have come meanwhile: look before sleeping.
            return Ok(self.now());
        }
        if until > now {
            if now > self.preemptions_at + PREEMPTIONS_EVERY {
                self.preemptions_at = now;
                self.was_preempted();
            }
            if now > self.waited_at + WAITED_EVERY {
                self.waited_at = now;
                self.waited = self.clock.waited();
            }
            if let Some(audit) = &mut self.audit {
                audit.rest();
            }
            self.device.wait(until + self.start, &mut self.completions)?;
            self.was_woken = true;
        } else if !self.is_inline || wake != Wake::At(now) {
            std::hint::spin_loop();
        }
        Ok(until.max(now))
    }

    /// Makes payloads of writes that are not due yet, while there is time until `due`, and not many
    /// in one go; answers whether it made any.
    fn draft(&mut self, due: Nanos) -> bool {
        let mut bytes = 0;
        while let Some(&planned) = self.scheduler.planned_after(self.drafted)
            && bytes < DRAFT_BUNDLE_BYTES
        {
            // The next search begins here.
            self.drafted = planned.seq.checked_sub(1);
            if planned.op == Op::Write && planned.refusal.is_none() {
                let made = if self.drafting.0 == planned.seq { self.drafting.1 } else { 0 };
                let until = part_of_payload(&planned, made);
                // For the first part memory may have to be found for all of it.
                let bytes_at_once = if made == 0 { planned.length.0 } else { until - made };
                let work = bytes_at_once as f64 * self.payload_cost * WORK_MARGIN;
                if self.now() + Nanos(work as i64) + DRAFT_MARGIN > due {
                    break;
                }
                if !self.device.draft(&planned.io(0), Bytes(until), self.pattern) {
                    break;
                }
                bytes += until - made;
                self.drafting = (planned.seq, until);
                if until < planned.length.0 {
                    continue;
                }
            }
            self.drafted = Some(planned.seq);
        }
        bytes > 0
    }

    /// Counts an involuntary absence.
    fn notice_stall(&mut self, now: Nanos, expected_back: Nanos, cause: LateCause) {
        if cause == LateCause::Host && now.saturating_sub(expected_back) > LATENESS_TOLERATED {
            self.totals.host_stalls += 1;
            self.totals.host_stall_max = self.totals.host_stall_max.max(now - expected_back);
        }
    }

    /// Looks at the levels where it is time to, and hands over what is told of an interval that has
    /// ended.
    fn gauge(&mut self, now: Nanos, doing: Doing, input: &dyn Input) {
        let Some(gauges) = &mut self.gauges else { return };
        gauges.pass(now, doing, &mut |interval| self.recorder.telemetry(interval));
        if gauges.is_due(now) {
            let ahead = self.scheduler.planned_last().map(|last| last.scheduled - now);
            let levels = Levels {
                look_ahead: (self.scheduler.config().look_ahead - self.scheduler.room()) as u64,
                input: input.level(),
                results: self.recorder.level(),
                waiting: u64::from(self.scheduler.waiting()),
                in_flight: u64::from(self.scheduler.in_flight()),
                ahead,
            };
            gauges.look(now, &levels);
        }
    }

    /// Counts how long completions lay unseen; the first `woken` were waited for.
    fn gauge_completions(&mut self, now: Nanos, woken: usize) {
        let was_woken = std::mem::take(&mut self.was_woken);
        let Some(gauges) = &mut self.gauges else { return };
        // After a sleep the engine does not know when it last checked.
        let woken = if was_woken { self.completions.len() } else { woken };
        gauges.open.woken += woken as u64;
        for completion in &self.completions[woken..] {
            gauges.found(completion.completed - self.start, now);
        }
        gauges.stepped(now);
    }

    fn finish_gauges(&mut self) {
        if self.gauges.is_some() {
            let now = self.now();
            let Some(gauges) = &mut self.gauges else { return };
            gauges.finish(now, &mut |interval| self.recorder.telemetry(interval));
        }
    }

    fn abandon(&mut self) {
        let before = self.totals.recorded;
        self.scheduler.abandon(&mut self.records);
        if let Some(audit) = &mut self.audit {
            self.records.iter().for_each(|record| audit.abandoned(&record.planned));
        }
        self.flush_records();
        self.totals.abandoned = self.totals.recorded - before;
    }
}
