//! The guard refuses what somebody needs and lets pass what nobody does.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ioecho_linux::{Hazard, OpenedTarget, Recheck, TargetError, Unknown, inspect, inspect_opened};
use ioecho_replay::pattern::MAGIC;
use ioecho_trace::Bytes;

use crate::fixture::{
    Backing, LoopDevice, MountPoint, Opener, nobody_spawns, open_rw, or_skip, run, skipped,
};

const MIB: u64 = 1 << 20;

/// Inspects while no other test starts a program; the inspection itself starts blkid.
fn look(path: &Path) -> Result<Vec<Hazard>, TargetError> {
    let _alone = nobody_spawns();
    inspect(path).map(as_on_a_host)
}

/// The same of what is open.
fn look_again(target: &OpenedTarget) -> Vec<Hazard> {
    let _alone = nobody_spawns();
    as_on_a_host(inspect_opened(target).unwrap())
}

/// What is told where every process can be seen. In a container that nobody can know who else
/// writes is told beside it.
fn as_on_a_host(mut hazards: Vec<Hazard>) -> Vec<Hazard> {
    let of_a_container = Hazard::CannotTell { unknown: Unknown::OtherNamespaces };
    if fs::read_link("/proc/1/ns/pid").ok() != Some("pid:[4026531836]".into()) {
        hazards.retain(|hazard| *hazard != of_a_container);
    }
    hazards
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_blank_device_passes() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    assert_eq!(look(&device.path).unwrap(), []);
}

#[test]
fn a_blank_file_passes() {
    assert_eq!(look(&Backing::on_disk(64 * MIB).path).unwrap(), []);
    let file = or_skip!(Backing::on_tmpfs(64 * MIB));
    assert_eq!(look(&file.path).unwrap(), []);
}

#[test]
fn a_mounted_device_can_not_even_be_named() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    or_skip!(run("mke2fs", &["-q", "-t", "ext4", device.path.to_str().unwrap()]));
    let mount = or_skip!(MountPoint::of(&device.path));
    let hazards = look(&device.path).unwrap();
    let mounted = Hazard::Mounted { device: device.name().to_owned(), at: mount.path().to_owned() };
    assert_eq!(hazards[0], mounted);
    assert!(!hazards[0].can_be_named());
    assert!(hazards[0].to_string().contains("unmount it first"));
    assert!(matches!(&hazards[1], Hazard::Signature { what, .. } if what.contains("ext")));
    assert!(!hazards.iter().any(|h| matches!(h, Hazard::InUse { .. })), "{hazards:?}");
}

#[test]
fn a_file_system_at_rest_can_be_named() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    or_skip!(run("mke2fs", &["-q", "-t", "ext4", device.path.to_str().unwrap()]));
    let hazards = look(&device.path).unwrap();
    let at = Some(Bytes(0x438));
    let what = "an ext2/3/4 file system".to_owned();
    assert_eq!(hazards, [Hazard::Signature { what, at }]);
    assert!(hazards[0].can_be_named());
}

#[test]
fn the_device_of_the_root_file_system_can_not_be_named() {
    let root = fs::metadata("/").unwrap();
    let dev = std::os::unix::fs::MetadataExt::dev(&root);
    let name = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let node = or_skip!(fs::canonicalize(&name).map_err(|e| format!("no root device: {e}")));
    let path = Path::new("/dev").join(node.file_name().unwrap());
    let hazards = or_skip!(look(&path).map_err(|error| error.to_string()));
    assert!(hazards.iter().any(|hazard| !hazard.can_be_named()), "{hazards:?}");
}

#[test]
fn an_active_swap_area_can_not_be_named() {
    let device = or_skip!(LoopDevice::new(16 * MIB));
    let path = device.path.to_str().unwrap();
    or_skip!(run("mkswap", &[path]));
    let what = "a swap area".to_owned();
    let at = Some(Bytes(0xff6));
    assert_eq!(look(&device.path).unwrap(), [Hazard::Signature { what, at }]);
    or_skip!(run("swapon", &[path]));
    let hazards = look(&device.path);
    run("swapoff", &[path]).unwrap();
    let hazards = hazards.unwrap();
    assert_eq!(hazards[0], Hazard::Swap { area: device.path.clone() });
    assert!(!hazards[0].can_be_named());
}

#[test]
fn a_file_behind_a_loop_device_can_not_be_named() {
    let device = or_skip!(LoopDevice::new(MIB));
    let link = device.backing.directory().join("other name");
    fs::hard_link(&device.backing.path, &link).unwrap();
    let expected = [Hazard::BackingFile { loop_device: device.name().to_owned() }];
    assert_eq!(look(&link).unwrap(), expected);
    assert!(!expected[0].can_be_named());
}

#[test]
fn what_is_mounted_through_another_loop_device_on_the_file_can_not_be_named() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    or_skip!(run("mke2fs", &["-q", "-t", "ext4", device.path.to_str().unwrap()]));
    let beside = or_skip!(device.beside(&[]));
    let mount = or_skip!(MountPoint::of(&device.path));
    // The path that the kernel has for the file changes, and the file does not.
    let renamed = device.backing.directory().join("renamed");
    fs::rename(&device.backing.path, &renamed).unwrap();
    let hazards = look(&beside.path).unwrap();
    let mounted = Hazard::Mounted { device: device.name().to_owned(), at: mount.path().to_owned() };
    assert_eq!(hazards[..2], [mounted, Hazard::Elsewhere { below: renamed }]);
    assert!(!hazards[1].can_be_named());
    drop(mount);
    let hazards = look(&beside.path).unwrap();
    assert!(hazards.iter().all(Hazard::can_be_named), "{hazards:?}");
}

#[test]
fn a_loop_device_is_in_use_where_another_claims_the_same_part_of_the_file() {
    let backing = or_skip!(Backing::on_tmpfs(2 * MIB));
    let device = or_skip!(LoopDevice::over(backing, &["--sizelimit", "1048576"]));
    let apart = or_skip!(device.beside(&["--offset", "1048576"]));
    let across = or_skip!(device.beside(&["--offset", "524288"]));
    let claim = open_rw(&device.path);
    assert_eq!(look(&apart.path).unwrap(), []);
    let below = device.backing.path.clone();
    let expected = [Hazard::InUse { by: Vec::new() }, Hazard::Elsewhere { below }];
    assert_eq!(look(&across.path).unwrap(), expected);
    let _alone = nobody_spawns();
    drop(claim);
    assert_eq!(as_on_a_host(inspect(&across.path).unwrap()), []);
}

#[test]
fn a_loop_device_is_in_use_where_its_file_is_open_for_writing() {
    let device = or_skip!(LoopDevice::new(MIB));
    let below = device.backing.path.clone();
    let writer = Opener::writing(&below);
    let by = vec![writer.name().replace(')', &format!(", {})", below.display()))];
    let expected = [Hazard::InUse { by }, Hazard::Elsewhere { below: below.clone() }];
    assert_eq!(look(&device.path).unwrap(), expected);
    drop(writer);
    let _reader = Opener::reading(&below);
    assert_eq!(look(&device.path).unwrap(), []);
}

#[test]
fn a_claimed_device_is_in_use() {
    let device = or_skip!(LoopDevice::new(MIB));
    let claim = open_rw(&device.path);
    assert_eq!(look(&device.path).unwrap(), [Hazard::InUse { by: Vec::new() }]);
    let _alone = nobody_spawns();
    drop(claim);
    assert_eq!(as_on_a_host(inspect(&device.path).unwrap()), []);
}

#[test]
fn a_device_that_another_process_may_write_to_is_in_use() {
    let device = or_skip!(LoopDevice::new(MIB));
    let writer = Opener::writing(&device.path);
    let hazards = look(&device.path).unwrap();
    assert_eq!(hazards, [Hazard::InUse { by: vec![writer.name()] }]);
    assert!(!hazards[0].can_be_named());
    assert!(hazards[0].to_string().contains(&writer.name()));
    drop(writer);
    assert_eq!(look(&device.path).unwrap(), []);
}

#[test]
fn a_writer_is_seen_through_any_node_of_the_device_and_without_one() {
    let device = or_skip!(LoopDevice::new(MIB));
    let directory = tempfile::tempdir().unwrap();
    let node = directory.path().join("node");
    or_skip!(make_node(device.name(), &node));
    or_skip!(File::open(&node));
    let writer = Opener::writing(&node);
    let hazards = [Hazard::InUse { by: vec![writer.name()] }];
    assert_eq!(look(&device.path).unwrap(), hazards);
    fs::remove_file(&node).unwrap();
    assert_eq!(look(&device.path).unwrap(), hazards);
}

#[test]
fn a_device_that_others_only_read_is_free() {
    let device = or_skip!(LoopDevice::new(MIB));
    let _reader = Opener::reading(&device.path);
    assert_eq!(look(&device.path).unwrap(), []);
}

/// Makes a node for the device of this name.
fn make_node(name: &str, node: &Path) -> Result<(), String> {
    let file = format!("/sys/class/block/{name}/dev");
    let number = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let (major, minor) = number.trim().split_once(':').unwrap();
    run("mknod", &[node.to_str().unwrap(), "b", major, minor]).map(drop)
}

#[test]
fn a_file_that_is_open_for_writing_is_in_use() {
    let file = Backing::on_disk(MIB);
    let writer = File::options().write(true).open(&file.path).unwrap();
    assert_eq!(look(&file.path).unwrap(), [Hazard::InUse { by: Vec::new() }]);
    let _alone = nobody_spawns();
    drop(writer);
    assert_eq!(inspect(&file.path).unwrap(), []);
}

#[test]
fn a_file_with_text_is_refused_and_can_be_named() {
    let file = Backing::on_disk(0);
    fs::write(&file.path, "do not lose this\n").unwrap();
    let hazards = look(&file.path).unwrap();
    assert_eq!(hazards, [Hazard::HoldsData { at: Bytes(0) }]);
    assert!(hazards[0].can_be_named());
}

#[test]
fn data_without_a_signature_speak_against_a_device_as_against_a_file() {
    // A raw database, an encrypted volume, what another program filled it with: all look alike.
    let size = 128 * MIB;
    let device = or_skip!(LoopDevice::new(size));
    let file = Backing::on_disk(size);
    // The ends of a large device are read always, and of a file all that is no hole.
    let places = [(&device.path, 0), (&device.path, size - 4096)];
    let places = places.into_iter().chain([0, size / 2, size - 4096].map(|at| (&file.path, at)));
    for (path, at) in places {
        write_at(path, at, &[0xaa; 4096]);
        let hazards = look(path).unwrap();
        assert_eq!(hazards, [Hazard::HoldsData { at: Bytes(at) }], "{}", path.display());
        assert!(hazards[0].can_be_named());
        write_at(path, at, &[0; 4096]);
    }
    assert_eq!(look(&device.path).unwrap(), []);
    assert_eq!(look(&file.path).unwrap(), []);
}

#[test]
fn of_a_small_device_every_sector_is_looked_at() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    for at in [0, 1_234_567, 33 * MIB + 511, 64 * MIB - 1] {
        write_at(&device.path, at, b"x");
        let found = [Hazard::HoldsData { at: Bytes(at / 512 * 512) }];
        assert_eq!(look(&device.path).unwrap(), found);
        write_at(&device.path, at, b"\0");
    }
    assert_eq!(look(&device.path).unwrap(), []);
}

#[test]
fn data_in_a_fiftieth_of_a_large_device_are_found_wherever_they_lie() {
    // Overlooked once in 10^17 times.
    let device = or_skip!(LoopDevice::new(1024 * MIB));
    for at in (3..1024).step_by(50) {
        write_at(&device.path, at * MIB, &vec![0xaa; MIB as usize]);
    }
    let hazards = look(&device.path).unwrap();
    let [Hazard::HoldsData { at }] = hazards[..] else { panic!("{hazards:?}") };
    assert_eq!(at.0 / MIB % 50, 3);
}

#[test]
fn erased_flash_is_blank() {
    let device = or_skip!(LoopDevice::new(MIB));
    write_at(&device.path, 0, &vec![0xff; MIB as usize]);
    assert_eq!(look(&device.path).unwrap(), []);
}

#[test]
fn what_ioecho_wrote_may_be_overwritten() {
    let device = or_skip!(LoopDevice::new(16 * MIB));
    let mut sector = [0x55; 512];
    sector[..8].copy_from_slice(&MAGIC);
    // Looks like the end of a boot sector too.
    sector[510..].copy_from_slice(b"\x55\xaa");
    for at in [0, 512, 4096, 5 * MIB] {
        write_at(&device.path, at, &sector);
    }
    assert_eq!(look(&device.path).unwrap(), []);
}

#[test]
fn who_has_opened_a_target_is_not_in_his_own_way() {
    let device = or_skip!(LoopDevice::new(MIB));
    let opened = open_rw(&device.path);
    assert_eq!(look_again(&opened), []);
    let file = Backing::on_disk(MIB);
    let opened = open_rw(&file.path);
    assert_eq!(look_again(&opened), []);
    let _reader = Opener::reading(&file.path);
    assert_eq!(look_again(&opened), [], "who only reads");
}

#[test]
fn what_is_made_on_a_target_after_the_first_look_is_seen_on_what_is_open() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    assert_eq!(look(&device.path).unwrap(), []);
    // Before it is claimed: afterwards mke2fs is refused.
    or_skip!(run("mke2fs", &["-q", "-t", "ext4", device.path.to_str().unwrap()]));
    let opened = open_rw(&device.path);
    let hazards = look_again(&opened);
    assert!(matches!(&hazards[..], [Hazard::Signature { .. }]), "{hazards:?}");
    let refused = run("mke2fs", &["-q", "-F", device.path.to_str().unwrap()]);
    assert!(refused.is_err(), "a claimed device is somebody's");
}

#[test]
fn who_begins_to_use_an_open_target_is_seen_before_the_first_write() {
    let file = or_skip!(Backing::on_tmpfs(64 * MIB));
    let opened = open_rw(&file.path);
    let recheck = Recheck::of(&opened).unwrap();
    let users = || {
        let _alone = nobody_spawns();
        as_on_a_host(recheck.users())
    };
    assert_eq!(users(), []);
    {
        let writer = Opener::writing(&file.path);
        assert_eq!(users(), [Hazard::InUse { by: vec![writer.name()] }]);
    }
    let device = or_skip!(LoopDevice::over(file, &[]));
    let behind = Hazard::BackingFile { loop_device: device.name().to_owned() };
    assert_eq!(users(), [behind]);
}

#[test]
fn a_second_loop_device_mounted_after_the_first_look_is_seen() {
    let device = or_skip!(LoopDevice::new(64 * MIB));
    let opened = open_rw(&device.path);
    let recheck = Recheck::of(&opened).unwrap();
    let beside = or_skip!(device.beside(&[]));
    or_skip!(run("mke2fs", &["-q", "-t", "ext4", beside.path.to_str().unwrap()]));
    let mount = or_skip!(MountPoint::of(&beside.path));
    let hazards = recheck.users();
    let device = beside.path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(hazards[0], Hazard::Mounted { device, at: mount.path().to_owned() });
}

#[test]
fn a_partitioned_disk_names_its_partitions() {
    let backing = or_skip!(Backing::on_tmpfs(16 * MIB));
    // An MBR with one partition of type Linux from sector 2048, 8 MiB long.
    let mut entry = [0; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    entry[12..].copy_from_slice(&16384_u32.to_le_bytes());
    write_at(&backing.path, 446, &entry);
    write_at(&backing.path, 510, b"\x55\xaa");
    let device = or_skip!(LoopDevice::over(backing, &["--partscan"]));
    // A kernel that cannot read the table takes the partition from here.
    let _ = run("addpart", &[device.path.to_str().unwrap(), "1", "2048", "16384"]);
    let hazards = look(&device.path).unwrap();
    let partition = format!("{}p1", device.name());
    if !Path::new("/sys/class/block").join(&partition).exists() {
        skipped(format!("the kernel made no partition of {}", device.name()));
        return;
    }
    assert_eq!(hazards[0], Hazard::Partitioned { partitions: vec![partition.clone()] });
    assert!(matches!(&hazards[1], Hazard::Signature { what, .. } if what.contains("MBR")));
    assert!(hazards.iter().all(Hazard::can_be_named));

    let directory = tempfile::tempdir().unwrap();
    let node = directory.path().join("node");
    or_skip!(make_node(&partition, &node));
    or_skip!(File::open(&node));
    {
        let writer = Opener::writing(&node);
        let by = vec![writer.name().replace(')', &format!(", {partition})"))];
        assert_eq!(look(&device.path).unwrap()[0], Hazard::InUse { by }, "seen from the disk");
    }
    {
        let writer = Opener::writing(&device.path);
        let by = vec![writer.name().replace(')', &format!(", {})", device.name()))];
        assert_eq!(look(&node).unwrap(), [Hazard::InUse { by }], "seen from the partition");
    }

    let path = Path::new("/dev").join(&partition);
    if path.exists() {
        let part = path.to_str().unwrap();
        or_skip!(run("mke2fs", &["-q", "-t", "ext4", part]));
        let mount = or_skip!(MountPoint::of(&path));
        let mounted = Hazard::Mounted { device: partition, at: mount.path().to_owned() };
        assert_eq!(look(&device.path).unwrap()[0], mounted, "seen from the disk");
        assert_eq!(look(&path).unwrap()[0], mounted, "seen from the partition");
    }
}

#[test]
fn what_is_not_there_can_not_be_inspected() {
    let error = look(Path::new("/nowhere/at/all")).unwrap_err();
    assert!(matches!(error, TargetError::Missing { .. }));
}
