//! Whether a witness is still the one that was recorded.
//!
//! A witness proves something only as long as nobody changed it. So `run.toml` has its length and
//! its SHA-256, and whoever uses it looks first.

use std::fs;
use std::path::Path;

use crate::run::directory::RunDirectory;
use crate::run::fetch::digest;

/// Length and hash of a witness, where it is there.
pub(crate) fn of(path: &Path) -> Option<(u64, String)> {
    let bytes = fs::metadata(path).ok()?.len();
    Some((bytes, digest::of_file(path).ok()?))
}

/// Why the witness that `run.toml` tells of is not to be believed, if it is not. Nothing is said of
/// a run that has none.
pub(crate) fn broken(run: &RunDirectory, facts: &toml::Table) -> Option<String> {
    let entry = facts.get("witness")?;
    let has_targets = entry.get("targets")?.as_array().is_some_and(|all| !all.is_empty());
    let path = run.witness();
    if !path.is_file() {
        // Why it could not be made is told where that is so.
        let is_known = entry.get("incomplete").is_some();
        let gone = "the run was witnessed, and witness.parquet is no longer there";
        return (has_targets && !is_known).then(|| gone.to_owned());
    }
    let bytes = entry.get("bytes")?.as_integer()?;
    let sha256 = entry.get("sha256")?.as_str()?;
    let length = fs::metadata(&path).ok()?.len();
    if i64::try_from(length).ok() != Some(bytes) {
        return Some(format!(
            "witness.parquet was changed since it was recorded: it has {length} bytes, and had \
             {bytes}"
        ));
    }
    match digest::of_file(&path) {
        Ok(now) if now == sha256 => None,
        Ok(_) => Some(
            "witness.parquet was changed since it was recorded: its SHA-256 is not that of run.toml"
                .to_owned(),
        ),
        Err(error) => Some(format!("witness.parquet cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_that_was_changed_or_taken_away_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let facts = |text: &str| text.parse::<toml::Table>().unwrap();
        let targets = "targets = [{ target = 0, device = 'loop5' }]";
        assert_eq!(broken(&run, &facts("")), None);
        assert_eq!(broken(&run, &facts("[witness]\ntargets = []")), None);
        let gone = broken(&run, &facts(&format!("[witness]\n{targets}"))).unwrap();
        assert!(gone.contains("no longer there"), "{gone}");
        let known = format!("[witness]\n{targets}\nincomplete = 'the disk was full'");
        assert_eq!(broken(&run, &facts(&known)), None);
        fs::write(run.witness(), b"as it was").unwrap();
        let (bytes, sha256) = of(&run.witness()).unwrap();
        let sealed = facts(&format!("[witness]\n{targets}\nbytes = {bytes}\nsha256 = '{sha256}'"));
        assert_eq!(broken(&run, &sealed), None);
        fs::write(run.witness(), b"as it wAs").unwrap();
        assert!(broken(&run, &sealed).unwrap().contains("SHA-256"));
        fs::write(run.witness(), b"as").unwrap();
        assert!(broken(&run, &sealed).unwrap().contains("2 bytes, and had 9"));
    }
}
