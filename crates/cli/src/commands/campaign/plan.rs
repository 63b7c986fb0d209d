//! The plan of a campaign's file, and what of an earlier plan no longer counts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ioecho_campaign::file::{self, File, Layer};
use ioecho_campaign::place::Refused;
use ioecho_campaign::plan::{Cell, Plan};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::ground::Here;
use super::store::{Held, StoredPlan, read_text};
use super::{baseline, flags};
use crate::args::CampaignFileArgs;
use crate::exit::{self, Coded};
use crate::print::tell;

/// A plan with everything that it was made of.
pub(super) struct Made {
    pub(super) plan: Plan,
    pub(super) here: Here,
    pub(super) text: String,
    /// The texts of the files that it includes.
    pub(super) includes: BTreeMap<String, String>,
    /// Where the store is or will be.
    pub(super) store: PathBuf,
}

/// Makes the plan of a file.
pub(super) fn of_file(args: &CampaignFileArgs) -> anyhow::Result<Made> {
    of_file_on(args, |here| here)
}

/// The same on this machine, as it is looked at.
pub(super) fn of_file_on(args: &CampaignFileArgs, on: fn(Here) -> Here) -> anyhow::Result<Made> {
    let text = read_text(&args.file)?;
    let above = args.file.parent().filter(|above| !above.as_os_str().is_empty());
    let base = std::path::absolute(above.unwrap_or(Path::new(".")))?;
    let made = of_text_on(on(Here::new(&base)), &args.file, text, &args.set, None)?;
    let named = || PathBuf::from(format!("{}.campaign", made.plan.file.name));
    let store = args.output.clone().unwrap_or_else(named);
    Ok(Made { store, ..made })
}

/// Makes the plan of a text, in which relative paths begin at `base`. What it includes is read from
/// there, unless its texts are `kept`.
pub(super) fn of_text(
    name: &Path,
    text: String,
    base: &Path,
    set: &[String],
    kept: Option<&BTreeMap<String, String>>,
) -> anyhow::Result<Made> {
    of_text_on(Here::new(base), name, text, set, kept)
}

fn of_text_on(
    here: Here,
    name: &Path,
    text: String,
    set: &[String],
    kept: Option<&BTreeMap<String, String>>,
) -> anyhow::Result<Made> {
    let base = here.base();
    let known = flags::known();
    let usage = |refused: Refused| Coded::error(exit::USAGE, refused.to_string());
    let includes = RefCell::new(BTreeMap::new());
    let open = |name: &str| {
        let text = match kept {
            Some(kept) => kept.get(name).cloned().ok_or_else(|| format!("{name}: it is not kept")),
            None => read_text(&base.join(name)).map_err(|error| error.to_string()),
        }?;
        includes.borrow_mut().insert(name.to_owned(), text.clone());
        Ok((name.to_owned(), text))
    };
    let file = file::read(&name.display().to_string(), &text, &known, &open).map_err(usage)?;
    deadline(&file)?;
    baseline::check(&file)?;
    let known = file.knows(&known);
    let settings = set.iter().map(|text| file::argument(text, &format!("--set {text}"), &known));
    let arguments: Layer = settings.collect::<Result<_, _>>().map_err(usage)?;
    let plan = Plan::new(file, arguments, &known, &here)
        .map_err(|refused| Coded::error(here.code(), refused.to_string()))?;
    flags::check(&plan, &plan.cells)?;
    if plan.file.search.is_some() {
        let probed: Result<Vec<Cell>, Refused> = (0..plan.branches.len())
            .flat_map(|branch| {
                plan.file.search.iter().flat_map(move |it| it.between.map(|at| (branch, at)))
            })
            .map(|(branch, at)| plan.probe(branch, at, 1, &here))
            .collect();
        let probed = probed.map_err(|refused| Coded::error(here.code(), refused.to_string()))?;
        flags::check(&plan, &probed)?;
        plan.check_stacks(&probed).map_err(usage)?;
    }
    let includes = includes.into_inner();
    Ok(Made { plan, here, text, includes, store: PathBuf::new() })
}

/// The instant of the deadline, if there is one. A time without a zone is this machine's.
pub(super) fn deadline(file: &File) -> anyhow::Result<Option<Timestamp>> {
    let Some((text, place)) = &file.deadline else { return Ok(None) };
    let text = text.trim();
    let local = || {
        let read = text.parse::<DateTime>().ok()?;
        Some(read.to_zoned(TimeZone::system()).ok()?.timestamp())
    };
    let instant = text.parse::<Timestamp>().ok().or_else(local).ok_or_else(|| {
        let help = "write it like 2026-11-30T06:00 or 2026-11-30T06:00:00Z";
        let refused = Refused::new(place, format!("'{text}' is no time"), help);
        Coded::error(exit::USAGE, refused.to_string())
    })?;
    Ok(Some(instant))
}

/// Cells whose point was done in the plan before, but as another run: by key, in what it differs.
pub(super) fn stale(
    plan: &Plan,
    before: Option<&StoredPlan>,
    held: &Held,
) -> BTreeMap<String, Vec<String>> {
    let mut earlier = BTreeMap::new();
    for cell in before.into_iter().flat_map(|before| &before.cells) {
        if held.attempts.contains_key(&cell.key) {
            earlier.insert((&cell.point, cell.repeat), cell);
        }
    }
    let mut stale = BTreeMap::new();
    for cell in &plan.cells {
        if let Some(other) = earlier.get(&(&cell.point, cell.repeat))
            && other.key != cell.key
            && !held.attempts.contains_key(&cell.key)
        {
            stale.insert(cell.key.clone(), cell.identity.differences(&other.identity));
        }
    }
    stale
}

/// Tells what is stale, in a line for each reason.
pub(super) fn tell_stale(stale: &BTreeMap<String, Vec<String>>) {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for why in stale.values() {
        *reasons.entry(why.join(", ")).or_default() += 1;
    }
    for (why, count) in reasons {
        tell(&format!("stale: {count} cells run again: {why}"));
    }
}
