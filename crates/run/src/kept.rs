//! The command line as the run's directory stores it.
//!
//! It is stored so that a run can be repeated. But directories are passed on, and with the command
//! line they would reveal the name of an anonymised trace, the traces merged into it, and the key
//! itself.

use std::path::{Path, PathBuf};

use crate::spec::ReplaySpec;

/// Replaces a word that is not stored.
const NOT_KEPT: &str = "not-kept";

/// Transforms whose values name files, programs, devices or the key.
const TELLING: [&str; 5] = ["anonymise", "merge", "cmd", "filter", "split"];

/// Whether the trace is anonymised by a transform.
fn is_anonymised(spec: &ReplaySpec) -> bool {
    spec.transforms.iter().any(|asked| asked.kind.name == "anonymise")
}

/// The words of this replay's command line that are stored.
pub(crate) fn command(spec: &ReplaySpec, words: Vec<String>) -> Vec<String> {
    if is_anonymised(spec) { without_names(words, &spec.trace) } else { words }
}

/// The trace's path as it is stored.
pub(crate) fn trace(spec: &ReplaySpec) -> PathBuf {
    if is_anonymised(spec) { PathBuf::from(NOT_KEPT) } else { spec.trace.clone() }
}

fn without_names(words: Vec<String>, trace: &Path) -> Vec<String> {
    let is_flag = |word: &str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| TELLING.contains(&name))
    };
    let mut is_value = false;
    let mut kept = Vec::with_capacity(words.len());
    for word in words {
        let flag = word.split_once('=').map(|(flag, _)| flag).filter(|flag| is_flag(flag));
        kept.push(match flag {
            _ if is_value || Path::new(&word) == trace => NOT_KEPT.to_owned(),
            Some(flag) => format!("{flag}={NOT_KEPT}"),
            None => word.clone(),
        });
        is_value = !is_value && is_flag(&word);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_key_nor_what_the_traces_are_called_is_kept() {
        let line = "ioecho replay /srv/customer.load -t sim:ssd --anonymise secret,extent=4k \
                    --merge=/srv/other --cmd --anonymise --speed 2";
        let words = line.split(' ').map(str::to_owned).collect();
        let kept = without_names(words, Path::new("/srv/customer.load")).join(" ");
        assert_eq!(
            kept,
            "ioecho replay not-kept -t sim:ssd --anonymise not-kept --merge=not-kept --cmd \
             not-kept --speed 2"
        );
    }
}
