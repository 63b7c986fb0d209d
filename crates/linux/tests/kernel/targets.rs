//! Targets open with their facts, or say what is wrong with them.

use std::path::Path;

use ioecho_linux::target::TargetKind;
use ioecho_linux::{Access, OpenOptions, TargetError, target};
use ioecho_trace::Bytes;

use crate::fixture::{Backing, LoopDevice, MountPoint, nobody_spawns, open_rw, or_skip, run};

fn refused(path: &Path, access: Access) -> TargetError {
    target::open(path, OpenOptions::new(access)).unwrap_err()
}

#[test]
fn a_loop_device_tells_its_facts() {
    let backing = or_skip!(Backing::on_tmpfs(8 << 20));
    let device = or_skip!(LoopDevice::over(backing, &["--sector-size", "4096"]));
    let opened = open_rw(&device.path);
    let facts = opened.facts();
    assert_eq!(facts.kind, TargetKind::BlockDevice);
    assert_eq!(facts.capacity, Bytes(8 << 20));
    assert_eq!(facts.logical_block, Bytes(4096));
    assert!(facts.direct);
    assert!(facts.scheduler.is_some() && facts.nr_requests.is_some());
    assert_eq!(facts.backing_file.as_deref(), Some(device.backing.path.as_path()));
    assert!(facts.discard_max.is_some_and(|max| max > Bytes(0)));
}

#[test]
fn a_file_is_rounded_down_to_whole_blocks() {
    let file = Backing::on_disk((1 << 20) + 100);
    let opened = open_rw(&file.path);
    let facts = opened.facts();
    assert_eq!(facts.kind, TargetKind::File);
    assert_eq!(facts.capacity, Bytes(1 << 20));
    assert!(facts.direct && facts.file_system.is_some() && facts.mount_point.is_some());
    assert!(facts.allocated.is_some_and(|bytes| bytes < Bytes(1 << 20)), "it is sparse");
}

#[test]
fn what_is_no_target_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let missing = refused(&directory.path().join("none"), Access::ReadOnly);
    assert!(matches!(missing, TargetError::Missing { .. }));
    assert!(missing.to_string().contains("truncate -s SIZE"), "{missing}");
    let empty = refused(Path::new(""), Access::ReadOnly);
    assert!(empty.to_string().contains("is empty"), "{empty}");
    assert!(matches!(refused(directory.path(), Access::ReadOnly), TargetError::Directory { .. }));
    let character = refused(Path::new("/dev/null"), Access::ReadOnly);
    assert!(character.to_string().contains("character device"), "{character}");
    let small = Backing::on_disk(100);
    assert!(matches!(refused(&small.path, Access::ReadOnly), TargetError::TooSmall { .. }));
}

#[test]
fn a_read_only_device_is_refused_for_writing_and_opens_for_reading() {
    let backing = or_skip!(Backing::on_tmpfs(1 << 20));
    let device = or_skip!(LoopDevice::over(backing, &["--read-only"]));
    let error = refused(&device.path, Access::ReadWrite);
    assert!(matches!(error, TargetError::ReadOnly { .. }), "{error}");
    target::open(&device.path, OpenOptions::new(Access::ReadOnly)).unwrap();
}

#[test]
fn a_loop_device_without_a_file_is_refused_by_what_it_wants() {
    let name = or_skip!(run("losetup", &["--find"]));
    let error = refused(Path::new(&name), Access::ReadOnly);
    let recorded = ioecho_linux::record::Target::at(Path::new(&name)).map(drop);
    // Another test may take the device between the two calls.
    if !matches!(error, TargetError::NoBackingFile { .. }) {
        return ioecho_fixture::skipped(format!("{name} is not free any more: {error}"));
    }
    match recorded {
        Err(error) => assert!(error.to_string().contains("without a file behind it"), "{error}"),
        Ok(()) => ioecho_fixture::skipped(format!("{name} is not free any more")),
    }
}

#[test]
fn a_claimed_device_is_refused_for_writing() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let _claim = open_rw(&device.path);
    let error = refused(&device.path, Access::ReadWrite);
    assert!(matches!(error, TargetError::Busy { .. }), "{error}");
    let shared = OpenOptions { exclusive: false, ..OpenOptions::new(Access::ReadOnly) };
    target::open(&device.path, shared).unwrap();
}

#[test]
fn a_second_run_on_one_target_finds_it_locked() {
    let file = Backing::on_disk(1 << 20);
    let first = open_rw(&file.path);
    first.lock().unwrap();
    let second = open_rw(&file.path);
    assert!(matches!(second.lock(), Err(TargetError::Locked { .. })));
    let _alone = nobody_spawns();
    drop(first);
    second.lock().unwrap();
}

#[test]
fn runs_on_two_loop_devices_on_one_file_find_each_other() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let beside = or_skip!(device.beside(&[]));
    let first = open_rw(&device.path);
    first.lock().unwrap();
    let second = open_rw(&beside.path);
    assert!(matches!(second.lock(), Err(TargetError::Locked { .. })));
    assert!(first.facts().shares_bytes_with(second.facts()));
    let _alone = nobody_spawns();
    drop(first);
    second.lock().unwrap();
}

#[test]
fn two_parts_of_a_file_are_two_targets() {
    let backing = or_skip!(Backing::on_tmpfs(2 << 20));
    let device = or_skip!(LoopDevice::over(backing, &["--sizelimit", "1048576"]));
    let apart = or_skip!(device.beside(&["--offset", "1048576"]));
    let (first, second) = (open_rw(&device.path), open_rw(&apart.path));
    first.lock().unwrap();
    second.lock().unwrap();
    assert!(!first.facts().shares_bytes_with(second.facts()));
    let whole = open_rw(&device.backing.path);
    assert!(whole.facts().shares_bytes_with(first.facts()));
    whole.lock().unwrap_err();
}

#[test]
fn a_target_that_is_given_free_in_a_moment_is_waited_for() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let first = open_rw(&device.path);
    let other = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let _alone = nobody_spawns();
        drop(first);
    });
    let claimed = target::claim(&device.path, OpenOptions::new(Access::ReadWrite));
    other.join().unwrap();
    claimed.unwrap();
}

#[test]
fn a_file_system_without_direct_io_is_refused_unless_the_cache_is_allowed() {
    // Files below /proc refuse O_DIRECT as some file systems do.
    let path = Path::new("/proc/version");
    let error = refused(path, Access::ReadOnly);
    assert!(matches!(error, TargetError::DirectRefused { .. }), "{error}");
    let cached = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
    let error = target::open(path, cached).unwrap_err();
    assert!(matches!(error, TargetError::TooSmall { .. }), "it has no length: {error}");
}

#[test]
fn a_file_that_opens_for_direct_io_and_has_none_is_refused_too() {
    let device = or_skip!(LoopDevice::new(32 << 20));
    or_skip!(run("mkfs.ext4", &["-q", device.path.to_str().unwrap()]));
    let mount = or_skip!(MountPoint::of_journalled(&device.path));
    let path = mount.path().join("journalled");
    std::fs::write(&path, [0; 8192]).unwrap();
    let error = refused(&path, Access::ReadOnly);
    assert!(matches!(error, TargetError::DirectRefused { .. }), "{error}");
    let cached = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
    assert!(!target::open(&path, cached).unwrap().facts().direct);
}
