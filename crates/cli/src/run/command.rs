//! The command line as a run's directory keeps it.
//!
//! It is kept so that a run can be repeated. But a directory is given away, and what an anonymised
//! trace is called, what was merged into it and the key itself would be given away with it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ioecho_trace::secrets::text_shown;

use crate::args::{LoadArgs, ReplayArgs};
use crate::run::fetch;

/// What stands for a word that is not kept.
const NOT_KEPT: &str = "not-kept";

/// Transforms whose values name files, programs, devices or the key.
const TELLING: [&str; 5] = ["anonymise", "merge", "cmd", "filter", "split"];

/// The words that this process was started with, as far as others may see them.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line, without what opens a store to whoever reads it.
pub(crate) fn typed() -> &'static [OsString] {
    WORDS.get_or_init(|| fetch::taken_out(std::env::args_os()))
}

/// The same as text, to be kept: also what is prose or a program loses the secrets in it.
pub(crate) fn words() -> Vec<String> {
    typed().iter().map(|word| text_shown(&word.to_string_lossy())).collect()
}

/// Whether the trace is anonymised on its way.
fn is_anonymised(load: &LoadArgs) -> bool {
    load.transforms.chain.iter().any(|asked| asked.kind.name == "anonymise")
}

/// The words of the command line of this replay that are kept.
pub(crate) fn recorded(args: &ReplayArgs) -> Vec<String> {
    if is_anonymised(&args.load) { without_names(words(), &args.trace) } else { words() }
}

/// The trace's path as it is kept.
pub(crate) fn recorded_trace(args: &ReplayArgs) -> PathBuf {
    if is_anonymised(&args.load) {
        return PathBuf::from(NOT_KEPT);
    }
    args.trace.clone()
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
