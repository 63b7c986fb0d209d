//! Checks whether a witness is unchanged since it was recorded.
//!
//! A witness is evidence only if nobody changed it. So `run.toml` has its length and its SHA-256,
//! and every use checks them first.

use std::fs;
use std::path::Path;

use crate::digest;
use crate::directory::RunDirectory;
use crate::facts::WitnessEntry;

/// The length and the hash of a witness, if it exists.
pub fn of(path: &Path) -> Option<(u64, String)> {
    let bytes = fs::metadata(path).ok()?.len();
    Some((bytes, digest::of_file(path).ok()?))
}

/// The reason not to trust the witness in `run.toml`; `None` if there is no such reason, or no
/// witness.
pub fn broken(run: &RunDirectory, entry: Option<&WitnessEntry>) -> Option<String> {
    let entry = entry?;
    let path = run.witness();
    if !path.is_file() {
        // The reason of an incomplete witness is reported elsewhere.
        let is_known = entry.incomplete.is_some();
        let gone = "the run was witnessed, and witness.parquet is no longer there";
        return (!entry.targets.is_empty() && !is_known).then(|| gone.to_owned());
    }
    let (bytes, sha256) = (entry.bytes?, entry.sha256.as_ref()?);
    let length = fs::metadata(&path).ok()?.len();
    if length != bytes {
        return Some(format!(
            "witness.parquet was changed since it was recorded: it has {length} bytes, and had \
             {bytes}"
        ));
    }
    match digest::of_file(&path) {
        Ok(now) if now == *sha256 => None,
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
    use crate::facts::WitnessedTarget;

    #[test]
    fn a_witness_that_was_changed_or_taken_away_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let none = WitnessEntry::default();
        let target = WitnessedTarget { target: 0, device: "loop5".to_owned() };
        let entry = WitnessEntry { targets: vec![target], ..none.clone() };
        assert_eq!(broken(&run, None), None);
        assert_eq!(broken(&run, Some(&none)), None);
        let gone = broken(&run, Some(&entry)).unwrap();
        assert!(gone.contains("no longer there"), "{gone}");
        let incomplete = Some("the disk was full".to_owned());
        assert_eq!(broken(&run, Some(&WitnessEntry { incomplete, ..entry.clone() })), None);
        fs::write(run.witness(), b"as it was").unwrap();
        let (bytes, sha256) = of(&run.witness()).unzip();
        let sealed = WitnessEntry { bytes, sha256, ..entry };
        assert_eq!(broken(&run, Some(&sealed)), None);
        fs::write(run.witness(), b"as it wAs").unwrap();
        assert!(broken(&run, Some(&sealed)).unwrap().contains("SHA-256"));
        fs::write(run.witness(), b"as").unwrap();
        assert!(broken(&run, Some(&sealed)).unwrap().contains("2 bytes, and had 9"));
    }
}
