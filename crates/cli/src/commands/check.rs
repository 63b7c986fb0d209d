//! `ioecho check`: whether a replay was true, judged by the requests that the device saw.
//!
//! blkreplay has a script that sorts two traces and shows them side by side
//! (`check_replay_against_blktrace.sh`). hfplayer compares two files line by line. Here every
//! request of one side is looked up in the other, and the exit code says whether the replay was
//! what it claims to be. The figures are those of `ioecho_stats::fidelity`.

mod beside;
mod sides;
mod text;

use ioecho_stats::fidelity::{
    self, Assessment, Blind, Event, FidelityFigures, Limits, Pair, Settings, assess,
};
use ioecho_trace::TraceError;
use ioecho_trace::units::counted;
use serde::Serialize;

use crate::args::CheckArgs;
use crate::exit::{self, Coded};
use crate::print::{Out, tell, visible};
use sides::{Known, Sides};

/// The version of the JSON. It changes when a key changes its meaning or goes away.
const CHECK_VERSION: u32 = 1;

/// The JSON output.
#[derive(Serialize)]
struct Printed<'a> {
    version: u32,
    asked_for: String,
    seen_in: String,
    #[serde(flatten)]
    assessment: &'a Assessment,
    #[serde(flatten)]
    known: &'a Known,
    figures: &'a FidelityFigures,
}

pub(crate) fn run(args: &CheckArgs, out: &mut Out) -> anyhow::Result<u8> {
    let limits = Limits::with(&args.limit);
    let sides = sides::open(args)?;
    let (figures, known) = sides.compare(args, limits.late_ns())?;
    refuse_strangers(&figures, &known)?;
    let assessment = assess(&figures, &limits, known.has_schedule);
    if args.json {
        let printed = Printed {
            version: CHECK_VERSION,
            asked_for: known.asked_for.display().to_string(),
            seen_in: known.seen_in.display().to_string(),
            assessment: &assessment,
            known: &known,
            figures: &figures,
        };
        out.json(&printed)?;
    } else {
        text::print(out, &figures, &assessment, &known)?;
    }
    for damage in &known.damage {
        tell(&format!("warning: a trace ends before its end: {}", visible(damage)));
    }
    if let Some(why) = &known.changed {
        tell(&format!("warning: {}", visible(why)));
    }
    if let Some(text) = beside::unlike_events(&known) {
        tell(&format!("warning: {}", visible(&text)));
    }
    let is_all = known.damage.is_empty() && known.changed.is_none() && figures.not_witnessed == 0;
    Ok(match (assessment.faithful, is_all) {
        (false, _) => exit::NOT_FAITHFUL,
        (true, false) => exit::DAMAGED,
        (true, true) => exit::OK,
    })
}

impl Sides {
    /// Compares the two sides. Also returns the facts that are known only at their ends.
    fn compare(self, args: &CheckArgs, late_ns: i64) -> anyhow::Result<(FidelityFigures, Known)> {
        let settings = Settings {
            absolute: self.shift_ns.is_some(),
            late_ns,
            has_schedule: self.known.has_schedule,
            ..Settings::default()
        };
        let Self { mut known, asked, seen, shift_ns, mut volumes, recorded } = self;
        let mut asked = if known.is_run {
            fidelity::Asked::of_run(asked)
        } else {
            fidelity::Asked::of_trace(asked)
        };
        let mut seen = fidelity::Recorded::new(seen, shift_ns.unwrap_or(0), |volume, header| {
            volumes.number(volume, header)
        });
        let mut left = args.skip;
        // A flush that the engine issued for a write belongs to that write and is no request by
        // itself.
        let is_behind_skipped = |event: &Result<Event, TraceError>| {
            let is_own = event.as_ref().is_ok_and(|event| !event.implied);
            let is_skipped = event.is_ok() && left > 0;
            left -= u64::from(is_skipped && is_own);
            !is_skipped
        };
        let speed = args.speed;
        let faster = |event: Result<Event, TraceError>| {
            let faster = |event: Event| Event { at: scaled(event.at, speed), ..event };
            event.map(faster)
        };
        let is_recorded = |event: &Result<Event, TraceError>| {
            let target = event.as_ref().ok().map(|event| event.target);
            recorded.as_ref().zip(target).is_none_or(|(recorded, one)| recorded.contains(&one))
        };
        let compared = fidelity::compare(
            asked.by_ref().filter(is_recorded).filter(is_behind_skipped).map(faster),
            seen.by_ref(),
            &settings,
            &mut |_: &Pair| {},
        )?;
        let blind = Blind::of(seen.source().header(), shift_ns.unwrap_or(0));
        let figures = compared.figures(&blind);
        known.elsewhere = seen.elsewhere;
        known.learn(asked.source().header(), seen.source().header(), &figures);
        Ok((figures, known))
    }
}

/// The instant in a replay that is `speed` times as fast.
fn scaled(at: i64, speed: f64) -> i64 {
    if (speed - 1.0).abs() < f64::EPSILON { at } else { (at as f64 / speed).round() as i64 }
}

/// Refuses two sides that have no request in common.
fn refuse_strangers(figures: &FidelityFigures, known: &Known) -> anyhow::Result<()> {
    if figures.found > 0 {
        return Ok(());
    }
    let (asked, seen) = (known.asked_for.display(), known.seen_in.display());
    if let Some(why) = &known.changed {
        let text = format!("nothing that {asked} asks for is in {seen}: {why}");
        return Err(Coded::error(exit::DAMAGED, text));
    }
    if figures.not_witnessed > 0 || !known.damage.is_empty() {
        let why = known.damage.join("; ");
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let text = format!(
            "nothing that {asked} asks for was witnessed in {seen}{why}\n  = help: a recording \
             that broke off or was changed proves nothing; replay again with --witness"
        );
        return Err(Coded::error(exit::DAMAGED, text));
    }
    let text = if figures.asked.requests == 0 {
        format!("{asked} asks for nothing: there is no request in it")
    } else if figures.extra == 0 && known.elsewhere == 0 {
        format!(
            "{seen} holds no request: nothing was recorded\n  = help: record the device that is \
             replayed on, from before the replay's start until after its end"
        )
    } else if figures.extra == 0 {
        format!(
            "{seen} is of other devices: {}, none on a target of the run\n  = help: record the \
             device that is replayed on; below a file system or another layer places are others",
            counted(known.elsewhere, "request")
        )
    } else {
        format!(
            "{asked} and {seen} have no request in common: {} were asked for, and {} others were \
             seen\n  = help: name a recording of this replay, of the device that it went to; with \
             --event Q it has requests as they were queued",
            figures.asked.requests, figures.extra
        )
    };
    Err(Coded::error(exit::NOT_COMPARABLE, text))
}
