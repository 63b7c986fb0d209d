//! Checks of the load in relation to the target, and of the run's length in relation to the
//! device's memory.

use ioecho_trace::units::{counted, three_digits};
use ioecho_trace::{Bytes, LateCause, Nanos, TimingMode};

use super::host::are_processors_taken;
use super::{ABSURD, WRAPAROUND, check, no_schedule};
use crate::facts::{ContentFacts, EngineFacts};
use crate::judge::headline::stood_still;
use crate::load_figures::{Course, Unsettled};
use crate::picture::Span;
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Finding, Grade};

/// The share of empty places up to which a target counts as filled.
const EMPTY_SHARE: f64 = 0.05;

/// The factor by which a device's service times may change over a run. SNIA's PTS calls a device
/// steady if its figure varies by a fifth under a constant load. A natural load is not constant, so
/// this counts only changes beyond doubt.
const DRIFT: f64 = 1.5;

/// The share of the run by which a device must have settled for its steady state to be what was
/// measured.
const SETTLED_BY: f64 = 0.5;

/// The least length of a run, as a multiple of the time to steady state (blkreplay's manual,
/// section 3.1.2.1).
const RUN_TO_SETTLING: f64 = 10.0;

/// A shorter run that ended as it began does not show the time to steady state, because caches may
/// take longer to fill.
const RUN_LENGTH_MIN: Nanos = Nanos::from_secs(30);

/// The share of time without completions that a run without a schedule may have. Above it,
/// percentiles by time show the pauses and percentiles by requests do not.
const STANDSTILL_SHARE: f64 = 0.01;

/// The factor by which the mean number in flight may differ from the recorded one. The manual has
/// no figure for this, so it is the factor that it allows for sizes.
const IN_FLIGHT_LIKE: f64 = 2.0;

/// From this factor on, what piles up in a slower device is no longer the recorded load. A faster
/// device is the finding, by whatever factor.
const IN_FLIGHT_PILED_UP: f64 = 10.0;

/// The share of time steps with equal demand, and the correlation, from which on two volumes have
/// the same load. Random loads with ten requests per step agree in one step of ten; copies agree in
/// all.
const SAME_STEPS: f64 = 0.9;
const SAME_CORRELATION: f64 = 0.95;

/// Incompressible data may still compress by this much, because of the headers of sectors.
const INCOMPRESSIBLE_PERCENT: u8 = 95;

/// The share of a recording's events that may be missing. It is small, because recorders lose
/// events in bursts, during the most important peaks.
const LOST_SHARE: f64 = 0.001;

/// The share of requests that may be unreadable or guessed.
const GUESSED_SHARE: f64 = 0.01;

/// Every check of this file except [`content`], in the order in which the verdict names them.
pub(in crate::judge) fn all(
    figures: &RunFigures,
    engine: &EngineFacts,
    blame: Option<Finding>,
) -> Vec<Check> {
    vec![
        target_size(engine),
        lower_cache(figures, engine),
        steady_state(figures, engine),
        run_length(figures),
        in_flight(figures, engine, blame),
        same_load(figures),
        compression(figures, engine),
        recording(engine),
    ]
}

fn not_applicable(name: &str, why: &str) -> Check {
    check(name, Grade::NotApplicable, why.to_owned(), "", "")
}

/// A share in percent: 0 only for none, and 100 only for all.
fn percent(share: f64) -> String {
    let whole = (share * 100.0).round();
    if (whole < 1.0 && share > 0.0) || (whole > 99.0 && share < 1.0) {
        format!("{:.2} %", share * 100.0)
    } else {
        format!("{whole:.0} %")
    }
}

/// Whether there were data at the places of the load. Storage answers reads of places that were
/// never written without reading anything; thin and compressing storage does not store zeroes.
pub(in crate::judge) fn content(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let under_load = engine.load.targets.iter().enumerate().filter_map(|(number, target)| {
        let content = target.content.as_ref().filter(|content| content.samples > 0)?;
        let (never, zeroes) = emptiness(figures, number, content);
        Some((never, zeroes, target.name.as_str()))
    });
    let worst = under_load.max_by(|a, b| a.0.max(a.1).total_cmp(&b.0.max(b.1)));
    let threshold = "at most 5 %";
    let Some((never, zeroes, name)) = worst else {
        // The run was made before places under the load were checked.
        let Some(empty) = engine.empty_share else {
            return not_applicable("content", "not looked at");
        };
        return check(
            "content",
            if empty <= EMPTY_SHARE { Grade::Pass } else { Grade::Suspect },
            format!("{} of the target never written or zeroes", percent(empty)),
            threshold,
            NEVER_WRITTEN,
        );
    };
    let of = if engine.targets > 1 { format!(" on {name}") } else { String::new() };
    // The second run on a device is not the first once more, if the first wrote.
    let contents = engine.load.targets.iter().filter_map(|target| target.content.as_ref());
    let replayed = contents.map(|content| content.replayed).fold(0.0, f64::max);
    let by_others = if replayed > 0.0 {
        format!("; earlier replays wrote {} of the target", percent(replayed))
    } else {
        String::new()
    };
    check(
        "content",
        if never.max(zeroes) <= EMPTY_SHARE { Grade::Pass } else { Grade::Suspect },
        format!(
            "under the load{of} {} was never written, {} holds zeroes only{by_others}",
            percent(never),
            percent(zeroes)
        ),
        threshold,
        if never >= zeroes { NEVER_WRITTEN } else { ZEROES },
    )
}

const NEVER_WRITTEN: &str = "Holes and places never written are read from nowhere and written \
                             where it suits the storage, faster than real data. Fill the target \
                             first: ioecho prepare TARGET.";
const ZEROES: &str = "Thin, compressing and deduplicating storage keeps zeroes as nothing: a \
                      target wiped with zeroes is as good as empty. Fill it with data that do not \
                      compress: ioecho prepare TARGET.";

/// The shares of the load on places never written, and on zeroes.
fn emptiness(figures: &RunFigures, target: usize, content: &ContentFacts) -> (f64, f64) {
    let weighed = |of: fn(&(f64, f64)) -> f64| {
        let shares: Vec<_> = content.parts.iter().map(|part| part.as_ref().map(of)).collect();
        figures.load().weighed(target, content.part, &shares)
    };
    let never = if content.places > 0 {
        content.places_never_written as f64 / content.places as f64
    } else if content.prepared {
        // The target was filled, perhaps only under the load, so a sample of all of it does not
        // count.
        0.0
    } else {
        let sampled = content.never_written.unwrap_or(0.0);
        weighed(|(never, _)| *never).unwrap_or(sampled)
    };
    let zeroes = if content.places_read > 0 {
        content.places_zeroes as f64 / content.places_read as f64
    } else if content.prepared {
        // A run whose places were not read: there was nothing to doubt, or it was made before.
        0.0
    } else {
        weighed(|(_, zeroes)| *zeroes).unwrap_or(content.zeroes)
    };
    (never, zeroes)
}

/// The time without completions, for runs without a schedule.
pub(in crate::judge) fn standstill(figures: &RunFigures, engine: &EngineFacts) -> Check {
    const NAME: &str = "standstill";
    match engine.timing {
        TimingMode::Timed => {
            return not_applicable(NAME, "a schedule: what stands still is late, or answered late");
        }
        TimingMode::Dependency => {
            let why =
                "think times: while every chain waits nothing is asked, and nothing completes";
            return not_applicable(NAME, why);
        }
        TimingMode::Flows => {
            let why = "flows: one that pauses by its rule or its share is no pause of the device";
            return not_applicable(NAME, why);
        }
        TimingMode::Afap | TimingMode::Load => {}
    }
    if engine.results_lost > 0 {
        return not_applicable(NAME, "results are missing, so nobody knows what completed");
    }
    let Some(pauses) = figures.load().pauses() else {
        return not_applicable(NAME, "nothing was completed");
    };
    let service = figures.picture().spans_of_all(Span::Service);
    let by_time = |share| service.time_weighted(share).unwrap_or_default();
    let by_requests = |share| service.quantile(share).unwrap_or_default();
    let told = match pauses.pauses {
        0 => "it never stood still".to_owned(),
        _ => stood_still(&pauses),
    };
    let measured = format!(
        "{told}; by time p50 {}, p99 {} (by requests {}, {})",
        by_time(0.5),
        by_time(0.99),
        by_requests(0.5),
        by_requests(0.99)
    );
    let still = pauses.share() > STANDSTILL_SHARE;
    check(
        NAME,
        if still { Grade::Suspect } else { Grade::Pass },
        measured,
        "at most 1 % of the time without a completion",
        "While the device stood still nobody asked it for anything, so its pauses are a few \
         requests among many and no percentile by requests shows them. Read the percentiles by \
         time and the longest pause, or replay by a schedule.",
    )
}

/// Whether the target is as large as the recorded device.
fn target_size(engine: &EngineFacts) -> Check {
    const NAME: &str = "target-size";
    let threshold = "0.5 to 2 times the recorded device; larger where no disk turns (invalid below \
                     a tenth)";
    let smaller = "The recorded device was larger: seeks are shorter and caches cover more than \
                   there. Use a target of its size.";
    let larger = "The recorded device was smaller: more spindles or chips and more spare room work \
                  for the same load. Use a target of its size (a partition), or scale the load's \
                  places.";
    let Some(size) = engine.load.size else {
        if engine.load.generated == Some(true) {
            return not_applicable(NAME, "a generated load: there was no recorded device");
        }
        let Some(factor) = engine.wraparound_factor.filter(|factor| *factor > 0.0) else {
            return not_applicable(NAME, "the size of the recorded device is not known");
        };
        // Only the furthest request is known; the device was at least that large.
        if factor >= 1.0 / WRAPAROUND.end() {
            let grade = if factor > ABSURD {
                Grade::Invalid
            } else if factor > *WRAPAROUND.end() {
                Grade::Suspect
            } else {
                Grade::Pass
            };
            let measured = format!(
                "at most {:.3} times the recorded device, judged by its furthest request",
                1.0 / factor
            );
            return check(NAME, grade, measured, threshold, smaller);
        }
        return not_applicable(
            NAME,
            "the recording does not tell how large its device was, only that the load ends early",
        );
    };
    let ratio = size.ratio();
    let is_like = WRAPAROUND.contains(&ratio);
    let unknown = match size.unknown {
        0 => String::new(),
        others => format!("; the size of {others} others is not known"),
    };
    let measured = format!(
        "{ratio:.3} times: {} for the {} of the recorded device{unknown}",
        Bytes(size.target_bytes),
        Bytes(size.recorded_bytes)
    );
    // More room on flash has no advantage; on a disk it makes seeks shorter.
    let is_roomy = ratio > 1.0 && engine.load.rotational == Some(false);
    let grade = if ratio < 1.0 / ABSURD {
        Grade::Invalid
    } else if is_like || is_roomy {
        Grade::Pass
    } else {
        Grade::Suspect
    };
    let note = if is_roomy && !is_like { "; larger, and no disk turns" } else { "" };
    let measured = format!("{measured}{note}");
    check(NAME, grade, measured, threshold, if ratio < 1.0 { smaller } else { larger })
}

/// Whether the touched area fits into a cache below the target.
fn lower_cache(figures: &RunFigures, engine: &EngineFacts) -> Check {
    const NAME: &str = "lower-cache";
    let caches = engine.load.targets.iter().enumerate().flat_map(|(number, target)| {
        let touched = figures.load().touched(number);
        target.caches.iter().map(move |cache| (target, cache, touched))
    });
    let tightest = caches.max_by(|a, b| {
        let ratio = |cache: u64, bytes: u64| cache as f64 / bytes.max(1) as f64;
        ratio(a.1.bytes, a.2.bytes).total_cmp(&ratio(b.1.bytes, b.2.bytes))
    });
    let Some((target, cache, touched)) = tightest else {
        let unknown = engine.load.targets.iter().find_map(|target| target.unknown_cache.as_ref());
        let why = unknown.map_or("no cache below the target is known", String::as_str);
        return not_applicable(NAME, &format!("{why}; a run can be told how large one is"));
    };
    if touched.bytes == 0 {
        return not_applicable(NAME, "nothing was read or written");
    }
    let fits = touched.bytes <= cache.bytes;
    check(
        NAME,
        if fits { Grade::Suspect } else { Grade::Pass },
        format!(
            "the load touches {} of {}, {} holds {}; {} of what was read had been touched before",
            Bytes(touched.bytes),
            target.name,
            cache.name,
            Bytes(cache.bytes),
            percent(touched.again)
        ),
        "more than the cache holds",
        "The working set fits into a cache that direct I/O does not bypass: this measured the \
         cache. Use a longer or larger part of the load; set up loop devices with direct I/O; or \
         say that the cache is what you meant to measure.",
    )
}

/// Whether the device's service times became steady, compared among like requests.
fn steady_state(figures: &RunFigures, engine: &EngineFacts) -> Check {
    const NAME: &str = "steady-state";
    let unsettled = match figures.load().course() {
        Course::Unknown(why) => return not_applicable(NAME, why),
        Course::Settled => {
            return check(NAME, Grade::Pass, ENDED_AS_BEGUN.to_owned(), SETTLED, "");
        }
        Course::Unsettled(unsettled) => unsettled,
    };
    let drifted = is_drift(&unsettled) && unsettled.share() > SETTLED_BY;
    check(
        NAME,
        if drifted { Grade::Suspect } else { Grade::Pass },
        course(&unsettled),
        SETTLED,
        if are_processors_taken(engine) { HOST_UNSETTLED } else { UNSETTLED },
    )
}

const HOST_UNSETTLED: &str = "Other programs had the processors in a part of the run (check cpu), \
                              and what they delay looks like a device that changes: stop them and \
                              replay again before anything is said of the device.";
const UNSETTLED: &str = "The device had not come to rest: a cold cache warmed up, flash filled up, \
                         or storage slowed down. The figures mix both states. Fill and warm the \
                         target as it will be in service (ioecho prepare, a first run), replay \
                         longer, or leave out the time before.";

const SETTLED: &str = "service times of like requests at rest (within 1.5) by half of the run";
const ENDED_AS_BEGUN: &str = "service times of like requests ended where they began";

fn is_drift(unsettled: &Unsettled) -> bool {
    unsettled.ratio > DRIFT || unsettled.ratio < 1.0 / DRIFT
}

fn course(unsettled: &Unsettled) -> String {
    if !is_drift(unsettled) {
        // That is no change, and nobody waits for it.
        return format!(
            "service times of like requests ended at {} times their first level, which counts as \
             the same",
            three_digits(unsettled.ratio)
        );
    }
    format!(
        "service times of like requests ended at {} times their first level, reached after \
         {:.1} s of {:.1} s",
        three_digits(unsettled.ratio),
        unsettled.since.as_secs_f64(),
        unsettled.end.as_secs_f64()
    )
}

/// Whether the run is so long that the time before the steady state has little weight.
fn run_length(figures: &RunFigures) -> Check {
    const NAME: &str = "run-length";
    let threshold = "at least 10 times the time to steady state";
    let course_of_run = figures.load().course();
    let is_short =
        |unsettled: &Unsettled| is_drift(unsettled) && unsettled.share() * RUN_TO_SETTLING > 1.0;
    let end = figures.picture().achieved_end();
    let untold = match &course_of_run {
        Course::Unknown(why) => Some((*why).to_owned()),
        Course::Unsettled(unsettled) if is_short(unsettled) => None,
        // A few seconds without a drift do not prove that none would follow.
        Course::Settled | Course::Unsettled(_) => (end < RUN_LENGTH_MIN)
            .then(|| format!("{:.1} s tell nothing of what comes later", end.as_secs_f64())),
    };
    if let Some(why) = untold {
        return not_applicable(NAME, &format!("{why}; an hour of a natural load is a rule"));
    }
    let Course::Unsettled(unsettled) = course_of_run else {
        return check(NAME, Grade::Pass, ENDED_AS_BEGUN.to_owned(), threshold, "");
    };
    let wanted = unsettled.since.as_secs_f64() * RUN_TO_SETTLING;
    let advice = format!(
        "What came before the steady state has too much weight in all figures. Replay at least \
         {wanted:.0} s, or leave out the first {:.0} s. The manual's rule for a natural load is an \
         hour at least.",
        unsettled.since.as_secs_f64().ceil()
    );
    let grade = if is_short(&unsettled) { Grade::Suspect } else { Grade::Pass };
    check(NAME, grade, course(&unsettled), threshold, &advice)
}

/// Whether about as many requests were in flight as in the recording.
fn in_flight(figures: &RunFigures, engine: &EngineFacts, blame: Option<Finding>) -> Check {
    const NAME: &str = "in-flight";
    match engine.timing {
        // The device alone decides the number in flight, not the recording.
        TimingMode::Afap => return no_schedule(NAME, engine),
        TimingMode::Load => {
            return not_applicable(
                NAME,
                "never more than in the recording, by this timing; how long the device took for \
                 them tells which is the faster",
            );
        }
        TimingMode::Dependency => {
            let why = "by this timing the completions decide how many are in flight";
            return not_applicable(NAME, why);
        }
        TimingMode::Flows => {
            return not_applicable(NAME, "each flow has a cap of its own, and no recording");
        }
        TimingMode::Timed => {}
    }
    let Some(mean) = figures.load().in_flight() else {
        return not_applicable(NAME, "the recording does not tell how long its requests took");
    };
    let is_late = |cause| figures.late(cause).requests > 0;
    if engine.in_flight_max > 0 && is_late(LateCause::InFlightCap) {
        let cap = engine.in_flight_max;
        return not_applicable(NAME, &format!("the cap of {cap} decided how many were in flight"));
    }
    if matches!(blame, Some(Finding::HostStalled | Finding::GeneratorLimited)) {
        return not_applicable(NAME, "requests were not issued when they were due");
    }
    // The engine's number in flight includes completions that it has not seen yet.
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    let seen = seen.and_then(|seen| seen.in_flight_mean);
    let replayed = seen.unwrap_or(mean.replayed);
    let by_whom = if seen.is_some() { ", as a witness saw" } else { "" };
    // At a higher speed, the recorded programs would wait equally long for a request but issue
    // requests that much more often.
    let speed = if engine.speedup > 0.0 { engine.speedup } else { 1.0 };
    let recorded = mean.recorded * speed;
    let ratio = replayed / recorded;
    let grade = if (1.0 / IN_FLIGHT_LIKE..=IN_FLIGHT_LIKE).contains(&ratio) {
        Grade::Pass
    } else if ratio <= IN_FLIGHT_PILED_UP {
        Grade::Limited
    } else {
        Grade::Suspect
    };
    let advice = if ratio > 1.0 {
        "The target is slower than the recorded device, so requests pile up that the programs of \
         the recording would have waited for: queues and service times grow beyond what these \
         programs would see. Replay by the recorded number in flight (the timing `load`), hold \
         that number beside the schedule, or replay slower."
    } else {
        "The target is faster than the recorded device: programs that wait for their requests \
         would ask for more, so this is no measure of what the target can do. Replay by \
         the recorded number in flight (the timing `load`), or faster, for that."
    };
    check(
        NAME,
        grade,
        format!(
            "reads and writes: in the mean {} in flight{by_whom}, {} in the recording{} (factor \
             {})",
            three_digits(replayed),
            three_digits(recorded),
            if (speed - 1.0).abs() > f64::EPSILON { " at this speed" } else { "" },
            three_digits(ratio)
        ),
        "0.5 to 2 times the recorded number (suspect above 10 times)",
        advice,
    )
}

/// Whether two volumes got the same load.
fn same_load(figures: &RunFigures) -> Check {
    const NAME: &str = "same-load";
    let Some(alike) = figures.load().same_demand() else {
        return not_applicable(NAME, "no two volumes whose demand rises and falls");
    };
    let same = alike.equal >= SAME_STEPS && alike.correlation >= SAME_CORRELATION;
    check(
        NAME,
        if same { Grade::Suspect } else { Grade::Pass },
        format!(
            "volumes {} and {}: equal demand in {} of the steps of {}, correlation {:.3}",
            alike.volumes.0,
            alike.volumes.1,
            percent(alike.equal),
            alike.step,
            alike.correlation
        ),
        "different loads (equal in less than 90 % of the steps)",
        "Several volumes are fed one load: every burst hits all of them at once, which independent \
         loads never do. Take different recordings, or parts of one from different times.",
    )
}

/// Whether the written data shrink on a device that compresses or deduplicates.
fn compression(figures: &RunFigures, engine: &EngineFacts) -> Check {
    const NAME: &str = "compression";
    let facts = &engine.load;
    let (Some(random), Some(dedup)) = (facts.fill_random_percent, facts.dedup) else {
        return not_applicable(NAME, "what was written is not known");
    };
    if figures.load().writes() == 0 {
        return not_applicable(NAME, "nothing was written");
    }
    if engine.simulated {
        return not_applicable(NAME, "simulated");
    }
    let shrinks = random < INCOMPRESSIBLE_PERCENT || dedup > 1.0;
    let layer = facts.targets.iter().find_map(|target| target.compressing.as_ref());
    let alike =
        if dedup > 1.0 { format!(", {dedup} blocks of each content") } else { String::new() };
    let written = format!("data that compress to {random} %{alike}");
    let (grade, measured) = match layer {
        Some(layer) if shrinks => (Grade::Suspect, format!("{written}, on {layer}")),
        Some(layer) => (Grade::Pass, format!("data that do not compress, on {layer}")),
        None => (Grade::Pass, format!("{written}; no layer is known to compress")),
    };
    check(
        NAME,
        grade,
        measured,
        "data that do not shrink where the target compresses",
        "The storage wrote less than the load asked for. Write data that do not shrink, or \
         prove that the recorded data shrink as much, and say so beside the figures.",
    )
}

/// Whether the recording is complete and correct.
fn recording(engine: &EngineFacts) -> Check {
    const NAME: &str = "recording";
    let Some(recording) = &engine.load.recording else {
        return not_applicable(NAME, "not known");
    };
    // Lost requests are not among the recorded ones; guessed requests are.
    let beside = |count: u64| {
        let all = recording.requests.saturating_add(count).max(1);
        if count > recording.requests { 1.0 } else { count as f64 / all as f64 }
    };
    let among = |count: u64| (count as f64 / recording.requests.max(1) as f64).min(1.0);
    let shares = [
        (beside(recording.lost_by_recorder), LOST_SHARE, "events lost by the recorder"),
        (beside(recording.unreadable), GUESSED_SHARE, "that could not be read"),
        (beside(recording.left_out), GUESSED_SHARE, "left out"),
        (among(recording.instants_guessed), GUESSED_SHARE, "with guessed instants"),
        (among(recording.places_guessed), GUESSED_SHARE, "with guessed places"),
        (among(recording.latencies_guessed), GUESSED_SHARE, "with guessed latencies"),
        (among(recording.doubled), GUESSED_SHARE, "recorded twice, on stacked devices"),
    ];
    let counts = [
        recording.lost_by_recorder,
        recording.unreadable,
        recording.left_out,
        recording.instants_guessed,
        recording.places_guessed,
        recording.latencies_guessed,
        recording.doubled,
    ];
    let told: Vec<String> = shares
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|((share, _, what), count)| format!("{count} {what} ({})", percent(*share)))
        .chain((recording.layered > 0).then(|| {
            let pairs = recording.layered;
            format!(
                "{pairs} pairs of recorded devices lie on each other: what went through both is \
                     there twice"
            )
        }))
        .chain((recording.otherwise_guessed > 0).then(|| {
            // No share: a guessed unit is one guess about all requests.
            format!("other guesses: {} (the trace names them)", recording.otherwise_guessed)
        }))
        .chain((recording.unseen > 0).then(|| {
            let parts = recording.unseen;
            format!("{parts} parts of it are missing, of unknown size (the trace names them)")
        }))
        .chain(recording.damage.as_ref().map(|damage| format!("damaged: {damage}")))
        .collect();
    let broken = shares.iter().any(|(share, most, _)| share > most);
    let is_cut = recording.damage.is_some() || recording.unseen > 0;
    let grade = if beside(recording.left_out) > GUESSED_SHARE {
        Grade::Invalid
    } else if broken || recording.layered > 0 || is_cut {
        Grade::Suspect
    } else {
        Grade::Pass
    };
    let of = recording.replayed.map_or(String::new(), |replayed| {
        let read = counted(recording.requests, "request");
        format!("of {read} that were read, {replayed} of them replayed: ")
    });
    let measured = match told.as_slice() {
        [] if engine.load.generated == Some(true) => {
            return not_applicable(NAME, "a generated load: nothing was recorded");
        }
        [] => "no request lost or guessed".to_owned(),
        told => format!("{of}{}", told.join("; ")),
    };
    check(
        NAME,
        grade,
        measured,
        "at most 0.1 % lost by the recorder, at most 1 % unreadable, guessed, doubled or left out \
         (invalid), not cut",
        "This is not quite the load that happened: recorders lose events at the peaks, and bursts \
         within a guessed second are invented. Record again with more buffers, or say so beside \
         the figures.",
    )
}

#[cfg(test)]
mod tests;
