//! Flows that take several targets for one volume.
//!
//! Such a flow has one queue and one cap, whichever targets its requests go to. So all targets that
//! flows join are driven by one lane: theirs, and those of flows that share a target with them.

use ioecho_replay::joint::Joint;
use ioecho_replay::map::Map;
use ioecho_replay::plan::TargetLimits;
use ioecho_trace::header::Volume;
use ioecho_trace::{Bytes, VolumeId};

use super::Flow;
use super::spec::FlowSpec;
use crate::error::{Kind, Result, RunError};
use crate::target::Target;

/// The keys of a part of a volume.
const FROM: &str = ",to=";
const LENGTH: &str = ",length=";

/// What a flow has of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the target.
    pub(crate) target: usize,
    /// Where it begins there.
    pub(crate) to: Bytes,
    /// How long it is; `None` is the whole target, however large it is when it is opened.
    pub(crate) length: Option<Bytes>,
}

impl Part {
    /// A whole target.
    pub(super) const fn whole(target: usize) -> Self {
        Self { target, to: Bytes::ZERO, length: None }
    }

    fn end(&self) -> u64 {
        self.to.0.saturating_add(self.length.map_or(0, |length| length.0))
    }
}

/// The parts of a flow: `on=1` is a target, `on=1+2` are two as one volume, and
/// `on=1,to=4k,length=1G+2` names what the volume has of the first.
pub(super) fn parts(flow: &FlowSpec, targets: &[Target]) -> Result<Vec<Part>> {
    let usage = |text: String, help: &'static str| RunError::with_help(Kind::Usage, text, help);
    let Some(named) = &flow.target else {
        return match targets.len() {
            1 => Ok(vec![Part::whole(0)]),
            several => Err(usage(
                format!("the flow '{flow}' names none of {several} targets"),
                "add `on=TARGET`, or its number from 1",
            )),
        };
    };
    if let Some(target) = number(named, targets) {
        return Ok(vec![Part::whole(target)]);
    }
    let help = "name it as a target as well, or give the number of one, from 1; several as one \
                volume are on=1+2, or on=1,to=4k,length=1G+2,to=4k,length=2G";
    let mut parts = Vec::new();
    for text in named.split('+') {
        let (rest, length) = setting(text, LENGTH);
        let (name, to) = setting(rest, FROM);
        let Some(target) = number(name, targets) else {
            let text = format!("the flow '{flow}' goes to {name}, which is no target of this run");
            return Err(usage(text, help));
        };
        let size = |text: &str| {
            text.parse::<Bytes>()
                .map_err(|error| usage(format!("'{flow}': '{text}': {error}"), help))
        };
        let to = to.map_or(Ok(Bytes::ZERO), size)?;
        let limits = targets[target].limits();
        let rest = limits.capacity.0.saturating_sub(to.0);
        let whole = Bytes(rest / limits.block_size.0 * limits.block_size.0);
        let length = length.map_or(Ok(whole), size)?;
        let part = Part { target, to, length: Some(length) };
        let is_aligned = (to.0 | length.0).is_multiple_of(limits.block_size.0);
        if length == Bytes::ZERO || part.end() > limits.capacity.0 || !is_aligned {
            let text = format!(
                "'{flow}': {} has {} in blocks of {}, and no part of {length} at {to}",
                targets[target].name(),
                limits.capacity,
                limits.block_size
            );
            return Err(usage(text, "name parts of whole blocks that lie on their targets"));
        }
        if parts.iter().any(|other: &Part| other.target == target) {
            let text = format!("'{flow}' names {} twice", targets[target].name());
            return Err(usage(text, "name each target of a volume once"));
        }
        parts.push(part);
    }
    Ok(parts)
}

/// A text and the setting that stands last in it, if that is of this key.
fn setting<'t>(text: &'t str, key: &str) -> (&'t str, Option<&'t str>) {
    text.rsplit_once(key).map_or((text, None), |(rest, value)| (rest, Some(value)))
}

/// The number of the target of this name, or of this number from 1.
fn number(named: &str, targets: &[Target]) -> Option<usize> {
    let by_name = targets.iter().position(|target| target.name() == *named);
    let by_number = || named.parse().ok().filter(|number| (1..=targets.len()).contains(number));
    by_name.or_else(|| by_number().map(|number: usize| number - 1))
}

/// Where the volumes of a flow's load go among its targets, which have these limits.
pub(super) fn map(parts: &[Part], volumes: &[Volume], limits: &[TargetLimits]) -> Map {
    match parts {
        [Part { length: None, .. }] => Map::spread(volumes, limits),
        parts => Map::behind_each_other((0..).zip(parts).map(|(number, part)| {
            let rest = limits[usize::from(number)].capacity.0.saturating_sub(part.to.0);
            (number, part.to, part.length.unwrap_or(Bytes(rest)))
        })),
    }
}

/// Refuses a load of several volumes on targets that are one.
pub(super) fn one_volume(flow: &FlowSpec, parts: &[Part], volumes: &[Volume]) -> Result<()> {
    let is_one = volumes.iter().all(|volume| volume.id == VolumeId(0));
    if is_one || parts.iter().all(|part| part.length.is_none()) {
        return Ok(());
    }
    let text = format!("'{flow}': a load of several volumes goes to several targets as one volume");
    Err(RunError::with_help(Kind::Usage, text, "name one target, or take a load of one volume"))
}

/// The targets of each lane, in order; the first of them is what the lane is known by.
pub(super) fn groups(flows: &[Flow], targets: usize) -> Vec<Vec<usize>> {
    let mut leads: Vec<usize> = (0..targets).collect();
    for flow in flows {
        let mut of_flow = flow.parts.iter().map(|part| leads[part.target]);
        let Some(lead) = of_flow.clone().min() else { continue };
        let joined: Vec<usize> = of_flow.by_ref().collect();
        for it in &mut leads {
            if joined.contains(it) {
                *it = lead;
            }
        }
    }
    let of = |lead| (0..targets).filter(|target| leads[*target] == lead).collect();
    (0..targets).filter(|lead| leads[*lead] == *lead).map(of).collect()
}

/// The places of a lane's targets, of which these are the numbers.
pub(crate) fn joint(group: &[usize], limits: &[TargetLimits]) -> Joint {
    Joint::new(group.iter().map(|target| (*target as u16, limits[*target].capacity)))
}
