//! The block devices below a volume.
//!
//! A volume may be a partition, or be made of others: a RAID set of its legs, a logical volume of
//! disks. Disks have counters and switches, and what is made of them has not.

use crate::ground::{Ground, Volume};

const BLOCK: &str = "/sys/class/block";

/// The names of everything below a block device, and its own, which is the first.
pub(super) fn parts(ground: &dyn Ground, volume: &Volume) -> Vec<String> {
    let (mut names, mut next) = (vec![volume.name().to_owned()], 0);
    while let Some(name) = names.get(next).cloned() {
        for below in directly_below(ground, &name) {
            if !names.contains(&below) {
                names.push(below);
            }
        }
        next += 1;
    }
    names
}

/// The names of the disks below a block device; itself, if it is one.
pub(super) fn disks(ground: &dyn Ground, volume: &Volume) -> Vec<String> {
    let mut names = parts(ground, volume);
    names.retain(|name| directly_below(ground, name).is_empty());
    names
}

fn directly_below(ground: &dyn Ground, name: &str) -> Vec<String> {
    let directory = format!("{BLOCK}/{name}");
    // What cannot be listed is below nothing.
    let slaves = ground.list(&format!("{directory}/slaves")).unwrap_or_default();
    if !slaves.is_empty() || !ground.exists(&format!("{directory}/partition")) {
        return slaves;
    }
    // The directory of a partition lies in that of its disk.
    let real = ground.real(&directory).unwrap_or_default();
    real.rsplit('/').nth(1).filter(|disk| *disk != "block").map(str::to_owned).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::fake::Fake;

    #[test]
    fn a_volume_stands_on_the_disks_below_it() {
        let fake = Fake::new();
        for below in ["dm-0/slaves/md0", "md0/slaves/sdb", "md0/slaves/sda", "sda/size"] {
            fake.state_mut().put(&format!("{BLOCK}/{below}"), "");
        }
        fake.state_mut().put_disk("/dev/dm-0", 1 << 30);
        let volume = fake.volume("/dev/dm-0").unwrap();
        assert_eq!(parts(&fake, &volume), ["dm-0", "md0", "sda", "sdb"]);
        assert_eq!(disks(&fake, &volume), ["sda", "sdb"]);
    }
}
