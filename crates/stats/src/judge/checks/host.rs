//! Checks of the host and of the kernel between the replay and the device.
//!
//! The replay's requests differ from those that the device gets: the kernel merges, cuts and
//! queues, other programs use the same device, and the host's clocks and processors are shared. All
//! of this changes the figures without leaving a sign in them, so it is observed during the run and
//! judged here.

pub(super) mod device;

use ioecho_trace::units;

use super::{check, share};
use crate::facts::{CpuFacts, EngineFacts, HostFacts};
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Grade};

/// The wall clock and the run's clock may drift apart by what time synchronisation corrects: up to
/// 500 ppm (`adjtimex(2)`), with as much again for what `adjtimex` does in ticks.
const SLEW_PPM: f64 = 1000.0;
/// The share of processor time taken by the hypervisor above which the 99th percentile shows it.
const STOLEN_SHARE: f64 = 0.01;
/// The share of processor time spent by other programs above which a waking thread finds its
/// processor in use more often than not.
const OTHERS_SHARE: f64 = 0.5;
/// For a single sample: the tenth from which on other programs had 40 % or more. A mean over the
/// run hides programs that ran only for a part of it.
const OTHERS_TENTH: usize = 4;
/// The share of such samples above which the 99th percentile shows them.
const TAKEN_SHARE: f64 = 0.01;
/// The least ratio of the lowest to the highest mean frequency. Below it, the processor's part of a
/// latency varies too much over the run.
const FREQUENCY_SHARE: f64 = 0.75;
/// The share of the room for results above which a pause of the writer twice as long would lose
/// results.
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

/// A check that does not apply to this run, with the reason.
fn silent(name: &str, engine: &EngineFacts) -> Check {
    let why = if engine.simulated { "simulated: no host was measured" } else { "not looked at" };
    check(name, Grade::NotApplicable, why.to_owned(), "", "")
}

/// Clock sources whose reading costs a microsecond or a system call.
fn is_slow(source: &str) -> bool {
    matches!(source, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "xen")
}

/// Whether the clocks ran evenly and forwards.
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
            format!("{} of the wall clock, the largest {most}", units::counted(steps, "step"))
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

/// The number of samples with the processors in use by other programs, and of all samples.
fn taken(cpu: &CpuFacts) -> (u64, u64) {
    let sum = |tenths: &[u64]| tenths.iter().fold(0_u64, |sum, more| sum.saturating_add(*more));
    let tenths = &cpu.others_by_tenth;
    (sum(tenths.get(OTHERS_TENTH..).unwrap_or_default()), sum(tenths))
}

/// Whether other programs used the processors, during the whole run or a part of it.
pub(in crate::judge) fn are_processors_taken(engine: &EngineFacts) -> bool {
    engine.host.cpu.as_ref().is_some_and(|cpu| {
        let (found, looks) = taken(cpu);
        let mean = cpu.others_ns.max(0) as f64 / cpu.total_ns.max(1) as f64;
        mean > OTHERS_SHARE || share(found, looks) > TAKEN_SHARE
    })
}

/// Whether the run had the processors for itself, at a constant speed.
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

/// Whether results could be written as fast as they arrived.
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
        "{} lost, at most {} of {} waiting, the longest write took {}",
        units::counted(engine.results_lost, "result"),
        recorder.peak,
        recorder.room,
        ioecho_trace::Nanos(recorder.write_max_ns)
    );
    let advice = "The disk for the results hardly kept up, and a longer pause loses some: give \
                  them a faster disk than the one that is measured (-o).";
    check("recorder", grade, measured, threshold, advice)
}

/// Whether the host was observed.
fn is_known(host: &HostFacts) -> bool {
    !host.devices.is_empty()
}

#[cfg(test)]
mod tests;
