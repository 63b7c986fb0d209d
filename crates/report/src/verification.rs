//! The findings of verification, in words for a person who must decide whether to trust a device.

use ioecho_stats::run_summary::VerifyFigures;
use ioecho_trace::Integrity;

use crate::tables::grouped;

/// The section of the page on verification.
pub(crate) struct VerificationView<'a> {
    pub(crate) class: &'static str,
    pub(crate) mode: String,
    pub(crate) line: String,
    pub(crate) rows: Vec<DamageView<'a>>,
    pub(crate) findings: &'a [String],
    /// A sentence on findings that the page leaves out.
    pub(crate) more: String,
}

/// One kind of damage.
pub(crate) struct DamageView<'a> {
    pub(crate) name: &'a str,
    pub(crate) meaning: &'static str,
    pub(crate) sectors: String,
}

pub(crate) fn view(figures: &VerifyFigures) -> VerificationView<'_> {
    let damaged = figures.is_damaged();
    let mut parts = vec![format!(
        "{} reads and {} sectors checked",
        grouped(figures.requests),
        grouped(figures.sectors)
    )];
    let has_names = figures.names > 0 || figures.names_damaged() > 0;
    parts.extend(match figures.damaged_sectors {
        0 if figures.sectors == 0 => (!has_names).then(|| "nothing was looked at".to_owned()),
        0 => Some("none damaged".to_owned()),
        sectors => Some(format!("{} damaged, each as often as it was looked at", grouped(sectors))),
    });
    if figures.unreadable_sectors > 0 {
        parts.push(format!("{} could not be read", grouped(figures.unreadable_sectors)));
    }
    if figures.unverifiable_sectors > 0 {
        let count = grouped(figures.unverifiable_sectors);
        parts.push(format!("of {count} nobody can say what they must hold"));
    }
    if has_names {
        let damaged = figures.names_told().unwrap_or_else(|| "none of them damaged".to_owned());
        parts.push(format!("{} names looked at, {damaged}", grouped(figures.names)));
    }
    parts.extend(figures.doubt_told());
    parts.extend(figures.prereads_told());
    let mut kinds: Vec<(&String, &u64)> = figures.damaged.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let rows = kinds.into_iter().map(|(name, count)| DamageView {
        name,
        meaning: meaning(name),
        sectors: grouped(*count),
    });
    let more = figures.findings.saturating_sub(figures.first_findings.len() as u64);
    VerificationView {
        class: match damaged {
            true => "invalid",
            false if figures.sectors == 0 && !has_names => "none",
            false => "pass",
        },
        mode: figures.mode.to_string(),
        line: parts.join(", "),
        rows: rows.collect(),
        findings: &figures.first_findings,
        more: if more > 0 { grouped(more) } else { String::new() },
    }
}

/// The meaning of a kind of damage for the owner of the data.
fn meaning(name: &str) -> &'static str {
    let kind = Integrity::ALL.into_iter().find(|kind| kind.name() == name);
    match kind {
        Some(Integrity::Flipped) => "bits changed after they were written",
        Some(Integrity::Zeroed) => "what was written reads as zeroes",
        Some(Integrity::Corrupt) => "neither what was written nor anything else known",
        Some(Integrity::Foreign) => "somebody else's data, or those of another run",
        Some(Integrity::Misdirected) => "what was written to another place",
        Some(Integrity::Torn) => "only a part of an acknowledged write arrived",
        Some(Integrity::Stale) => "an older version: an acknowledged write was lost",
        Some(Integrity::Phantom) => "a version that was never there, or that failed",
        Some(Integrity::Unchecked | Integrity::Intact) | None => "",
    }
}
