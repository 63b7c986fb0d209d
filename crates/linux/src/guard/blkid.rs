//! Signatures found by util-linux's blkid.
//!
//! libblkid recognises a hundred formats, some by rules that a table of magics cannot express. If
//! it is installed, it is asked; if not, the table must suffice.

use std::path::Path;
use std::process::{Command, Stdio};

use super::hazard::Hazard;

/// Not looked up in `PATH`: this runs as root.
const PLACES: [&str; 4] = ["/usr/sbin/blkid", "/sbin/blkid", "/usr/bin/blkid", "/bin/blkid"];

/// Exit code for several contradicting signatures (blkid(8)).
const AMBIVALENT: i32 = 8;

/// What blkid finds on the target; nothing where it is not installed or does not answer.
pub(super) fn ask(path: &Path) -> Option<Hazard> {
    let program = PLACES.iter().find(|place| Path::new(place).exists())?;
    let answer = Command::new(program)
        .args(["--probe", "--output", "export", "--"])
        .arg(path)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if answer.status.code() == Some(AMBIVALENT) {
        let what = "several things at once".to_owned();
        return Some(Hazard::Signature { what, at: None });
    }
    parse(&String::from_utf8_lossy(&answer.stdout))
}

/// Lines of `KEY=value`; `TYPE` for contents, `PTTYPE` for a partition table, `USAGE=raid` for the
/// members of a larger whole.
fn parse(text: &str) -> Option<Hazard> {
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    };
    match (value("TYPE"), value("PTTYPE")) {
        (Some(what), _) if value("USAGE").as_deref() == Some("raid") => {
            Some(Hazard::PartOf { what, at: None })
        }
        (Some(what), _) => Some(Hazard::Signature { what, at: None }),
        (None, Some(table)) => {
            Some(Hazard::Signature { what: format!("a partition table ({table})"), at: None })
        }
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_blkid_becomes_a_hazard() {
        let member = parse("DEVNAME=/dev/x\nTYPE=zfs_member\nUSAGE=raid\n");
        assert_eq!(member, Some(Hazard::PartOf { what: "zfs_member".to_owned(), at: None }));
        let system = parse("TYPE=minix\nUSAGE=filesystem\n");
        assert_eq!(system, Some(Hazard::Signature { what: "minix".to_owned(), at: None }));
        assert!(parse("PTTYPE=sgi\n").is_some());
        assert_eq!(parse(""), None);
    }
}
