//! Checks of the host and of the kernel between the replay and the device.
//!
//! What a replay hands over is not what a device is given: the kernel merges, cuts and queues,
//! other programs use the same device, and the host's clocks and processors are not the replay's
//! own. All of that changes figures without a trace in them, so it is read beside the run and
//! judged here.

mod device;

use ioecho_trace::units;

use super::{check, share};
use crate::facts::{CpuFacts, EngineFacts, HostFacts};
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Grade};

/// The wall clock and the run's clock may drift apart by what time synchronisation corrects: up to
/// 500 ppm (`adjtimex(2)`), with as much again for what `adjtimex` does in ticks.
const SLEW_PPM: f64 = 1000.0;
/// The share of processor time taken by the hypervisor above which it reaches the 99th percentile.
const STOLEN_SHARE: f64 = 0.01;
/// The share of processor time spent by other programs above which a thread that wakes finds its
/// processor taken more often than not.
const OTHERS_SHARE: f64 = 0.5;
/// The same at one look: the tenth from which on they had 40 % or more. A mean over the run hides
/// whoever came for a part of it.
const OTHERS_TENTH: usize = 4;
/// The share of the looks that may find them so: beyond, it reaches the 99th percentile.
const TAKEN_SHARE: f64 = 0.01;
/// The lowest mean frequency may be this share of the highest: below, the processor's part of a
/// latency is another at every moment.
const FREQUENCY_SHARE: f64 = 0.75;
/// The share of the room for results that may be in use: beyond, a pause of the writer that is
/// twice as long loses results.
const RECORDER_SHARE: f64 = 0.5;

/// Every check of this file, in the order in which the verdict names them.
pub(in crate::judge) fn all(figures: &RunFigures, engine: &EngineFacts) -> Vec<Check> {
    vec![
        device::scheduler(figures, engine),
        device::queue_depth(figures, engine),
        device::other_load(figures, engine),
        device::alignment(figures, engine),
        device::durability(figures, engine),
        clock(figures, engine),
        cpu(engine),
        recorder(engine),
    ]
}

/// A check that says nothing of this run, and why.
fn silent(name: &str, engine: &EngineFacts) -> Check {
    let why = if engine.simulated { "simulated: no host was measured" } else { "not looked at" };
    check(name, Grade::NotApplicable, why.to_owned(), "", "")
}

/// Clocks that cost a microsecond or a system call each time they are read.
fn is_slow(source: &str) -> bool {
    matches!(source, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "xen")
}

/// Whether time went on evenly and forwards.
fn clock(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let reached = figures.reached();
    let threshold = "instants in order; no step, no suspend, one fast clock source";
    if reached.backwards + reached.early > 0 {
        let measured = format!(
            "{} completed before submission, {} submitted before due",
            units::counted(reached.backwards, "request"),
            reached.early
        );
        let advice = "The clock ran backwards: no instant of this run can be trusted. Look for an \
                      unsound clock source in the kernel log.";
        return check("clock", Grade::Invalid, measured, threshold, advice);
    }
    let Some(clock) = engine.host.clock.as_ref().filter(|_| !engine.simulated) else {
        return silent("clock", engine);
    };
    let mut measured = vec![format!("source {}", clock.source)];
    let mut advice = Vec::new();
    if clock.source != clock.source_after {
        measured.push(format!("later {}", clock.source_after));
        advice.push("The kernel gave up its clock source during the run: see the kernel log.");
    }
    if is_slow(&clock.source) || is_slow(&clock.source_after) {
        advice.push(
            "This clock source takes a microsecond or more to read, twice for each request: boot \
             with clocksource=tsc if the processor's counter is sound.",
        );
    }
    measured.push(match clock.steps {
        0 => format!("no step in {} looks", clock.samples),
        steps => {
            let most = ioecho_trace::Nanos(clock.step_max_ns);
            format!("{steps} steps of the wall clock, the largest {most}")
        }
    });
    if clock.steps > 0 {
        advice.push(
            "Latencies are not taken from the wall clock, but a step is often the trace of a host \
             that was stopped, and this run cannot be laid beside logs of others. Let the wall \
             clock be slewed during runs.",
        );
    }
    if clock.suspended_ns > 0 {
        measured.push(format!("suspended for {}", ioecho_trace::Nanos(clock.suspended_ns)));
        advice.push("The host slept in the middle of the run: keep it awake.");
    }
    if let Some(slew) = clock.slew_ppm {
        measured.push(format!("corrected by {slew:+.1} ppm"));
        if !(-SLEW_PPM..=SLEW_PPM).contains(&slew) {
            advice.push("The run's clock was made to run at another speed: let it settle first.");
        }
    }
    match clock.is_synchronised {
        Some(true) => measured.push("synchronised".to_owned()),
        Some(false) => measured.push("not synchronised".to_owned()),
        None => {}
    }
    let grade = if advice.is_empty() { Grade::Pass } else { Grade::Suspect };
    check("clock", grade, measured.join(", "), threshold, &advice.join(" "))
}

/// Looks that found the processors taken by others, and all looks.
fn taken(cpu: &CpuFacts) -> (u64, u64) {
    let sum = |tenths: &[u64]| tenths.iter().fold(0_u64, |sum, more| sum.saturating_add(*more));
    let tenths = &cpu.others_by_tenth;
    (sum(tenths.get(OTHERS_TENTH..).unwrap_or_default()), sum(tenths))
}

/// Whether other programs had the processors, in all of the run or in a part of it.
pub(in crate::judge) fn are_processors_taken(engine: &EngineFacts) -> bool {
    engine.host.cpu.as_ref().is_some_and(|cpu| {
        let (found, looks) = taken(cpu);
        let mean = cpu.others_ns.max(0) as f64 / cpu.total_ns.max(1) as f64;
        mean > OTHERS_SHARE || share(found, looks) > TAKEN_SHARE
    })
}

/// Whether the processors were the run's own, and always as fast.
fn cpu(engine: &EngineFacts) -> Check {
    let threshold = "at most 1 % stolen, 50 % used by other programs, 40 % in no more than 1 % of \
                     the time, no throttling, frequency within 25 %";
    let Some(cpu) = engine.host.cpu.as_ref().filter(|cpu| cpu.total_ns > 0 && !engine.simulated)
    else {
        return silent("cpu", engine);
    };
    let of_total = |part: i64| part.max(0) as f64 / cpu.total_ns as f64;
    let (stolen, others) = (of_total(cpu.stolen_ns), of_total(cpu.others_ns));
    let mut measured = vec![format!(
        "{}, {:.1} % stolen, {:.1} % used by other programs",
        units::counted(cpu.processors, "processor"),
        stolen * 100.0,
        others * 100.0
    )];
    let mut advice = Vec::new();
    if stolen > STOLEN_SHARE {
        advice.push("The hypervisor gave the processors to other guests: use a host of your own.");
    }
    let (found, looks) = taken(cpu);
    if found > 0 {
        measured.push(format!("40 % or more in {found} of {looks} s"));
    }
    if are_processors_taken(engine) {
        advice.push(
            "Other programs kept the processors busy: stop them, or give the run processors of its \
             own and keep others off them.",
        );
    }
    if let Some(times) = cpu.throttled {
        measured.push(format!("throttled {}", units::times(times)));
        if times > 0 {
            advice.push("A processor was slowed down because it was hot: cool the host.");
        }
    }
    if let (Some(low), Some(high)) = (cpu.frequency_min_khz, cpu.frequency_max_khz) {
        measured.push(format!("{} to {} MHz", low / 1000, high / 1000));
        if (low as f64) < high as f64 * FREQUENCY_SHARE {
            advice.push(
                "The processors' frequency followed the load: cpupower frequency-set -g \
                 performance for the run.",
            );
        }
    }
    if !cpu.governor.is_empty() {
        measured.push(format!("governor {}", cpu.governor));
    }
    if let Some(waited) = cpu.waited_ns {
        measured.push(format!(
            "the issuing threads waited {} for a processor",
            ioecho_trace::Nanos(waited)
        ));
    }
    if let Some(pressure) = cpu.pressure_ns {
        let pressure = ioecho_trace::Nanos(i64::try_from(pressure).unwrap_or(i64::MAX));
        measured.push(format!("someone waited {pressure}"));
    }
    let grade = if advice.is_empty() { Grade::Pass } else { Grade::Suspect };
    check("cpu", grade, measured.join(", "), threshold, &advice.join(" "))
}

/// Whether results could be written as fast as they came.
fn recorder(engine: &EngineFacts) -> Check {
    let threshold = "none lost, at most half of the room for results in use";
    let Some(recorder) = engine.host.recorder.filter(|recorder| recorder.room > 0) else {
        return silent("recorder", &EngineFacts { simulated: false, ..EngineFacts::default() });
    };
    let used = share(recorder.peak, recorder.room);
    let grade = match engine.results_lost {
        0 if used <= RECORDER_SHARE || engine.simulated => Grade::Pass,
        0 => Grade::Suspect,
        _ => Grade::Invalid,
    };
    let measured = format!(
        "{} results lost, at most {} of {} waiting, the longest write took {}",
        engine.results_lost,
        recorder.peak,
        recorder.room,
        ioecho_trace::Nanos(recorder.write_max_ns)
    );
    let advice = "The disk for the results hardly kept up, and a longer pause loses some: give \
                  them a faster disk than the one that is measured (-o).";
    check("recorder", grade, measured, threshold, advice)
}

/// Whether anything of the host was looked at.
fn is_known(host: &HostFacts) -> bool {
    !host.devices.is_empty()
}

#[cfg(test)]
mod tests;
