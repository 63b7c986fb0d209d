//! The routes of a map, from the command line and from a file.

use std::fs;
use std::path::Path;

use ioecho_replay::map::RouteSpec;
use ioecho_trace::wording::Wording;

use crate::error::{Kind, Result, RunError};

/// The routes of the command line, followed by those of the file, one per line; `#` begins a
/// comment.
pub(crate) fn read(typed: &[RouteSpec], file: Option<&Path>) -> Result<Vec<RouteSpec>> {
    let mut routes = typed.to_vec();
    let Some(path) = file else { return Ok(routes) };
    let text = fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot read the map {}: {error}", path.display());
        let help = Wording::from("it is a text file with a route in each line, as ")
            .setting("map")
            .text(" takes them");
        RunError::with_help(Kind::Usage, text, help)
    })?;
    for (number, line) in text.lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
        if !line.is_empty() {
            routes.push(line.parse().map_err(|error| {
                let text = format!("{}:{}: {error}", path.display(), number + 1);
                RunError::new(Kind::Usage, text)
            })?);
        }
    }
    if routes.is_empty() {
        let text = format!(
            "the map {} holds no route\n  = help: write one in each line: VOLUME=TARGET",
            path.display()
        );
        return Err(RunError::new(Kind::Usage, text));
    }
    Ok(routes)
}
