//! The page of a trace that is no run: a load, or the results of one without its directory.

use std::path::Path;

use ioecho_report::{Page, Section, Subject, charts};
use ioecho_trace::Header;

use crate::run::command;
use crate::run::everything::Found;
use crate::run::settle::{TOLD_ELSEWHERE, label, quoted, shown};

/// Everything that the page of a trace shows.
pub(crate) fn of_trace(path: &Path, found: &Found) -> Page {
    let header = &found.header;
    Page {
        subject: if found.is_run() { Subject::Run } else { Subject::Load },
        title: name_of(path),
        command: command::words().iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        facts: vec![Section { heading: "Trace".to_owned(), rows: facts(found) }],
        warnings: warnings(header),
        volumes: charts::volume_names(header),
        picture: found.picture().clone(),
        charts: charts::of(&found.analysis, header),
        expert: charts::expert(&found.analysis),
        listings: charts::listings(&found.analysis, header),
        ..Page::default()
    }
}

/// The last part of a path.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
    let name = name.or_else(|| path.file_name().map(ToOwned::to_owned));
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// What was lost and guessed when a trace was read, and where it broke off.
pub(crate) fn warnings(header: &Header) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(damage) = &header.damage {
        warnings.push(format!("The trace ends before its end: {damage}"));
    }
    for (kind, notes) in [("Lost", &header.losses), ("Guessed", &header.guesses)] {
        for note in notes.iter() {
            warnings.push(format!("{kind} when the trace was read: {note}"));
        }
    }
    warnings
}

fn facts(found: &Found) -> Vec<(String, String)> {
    let table = toml::Table::try_from(&found.header).unwrap_or_default();
    let zero = found.origin.get().filter(|origin| origin.0 != 0).map(|origin| {
        let text = format!("{:.9} s of the trace's own time", origin.as_secs_f64());
        ("zero of this page".to_owned(), text)
    });
    let rows = table
        .iter()
        .filter(|(key, _)| !TOLD_ELSEWHERE.contains(&key.as_str()) && *key != "processes")
        .map(|(key, value)| (label(key), shown(key, value)))
        .filter(|(_, value)| !value.is_empty());
    zero.into_iter().chain(rows).collect()
}
