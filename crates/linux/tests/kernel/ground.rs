//! What harms what: the same bytes by other names, and what stands on them.

use std::fs;
use std::path::Path;

use ioecho_linux::ground::{Ground, use_of};

use crate::fixture::{Backing, LoopDevice, MountPoint, or_skip, run};

fn ground(path: &Path) -> Ground {
    Ground::of(path).unwrap()
}

#[test]
fn a_loop_device_over_a_file_is_that_file_and_so_is_one_over_it() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let beside = or_skip!(device.beside(&[]));
    let file = ground(&device.backing.path);
    assert!(ground(&device.path).carries(&file) && file.carries(&ground(&device.path)));
    assert!(ground(&beside.path).touches(&ground(&device.path)));
    let told = use_of(&device.backing.path).unwrap().to_string();
    assert!(told.contains("behind the loop device"), "{told}");
    let other = Backing::in_directory(device.backing.directory(), 4096);
    assert!(!ground(&other.path).touches(&file) && use_of(&other.path).is_none());
}

#[test]
fn what_a_file_system_stands_on_carries_its_files() {
    let device = or_skip!(LoopDevice::new(16 << 20));
    let beside = or_skip!(device.beside(&[]));
    or_skip!(run("mkfs.ext4", &["-q", device.path.to_str().unwrap()]));
    let mount = or_skip!(MountPoint::of(&device.path));
    let file = mount.path().join("trace");
    fs::write(&file, "x").unwrap();
    let (file, unmade) = (ground(&file), ground(&mount.path().join("to/be/made")));
    for below in [&device.path, &beside.path, &device.backing.path] {
        let below = ground(below);
        assert!(below.carries(&file) && below.carries(&unmade));
        assert!(!file.carries(&below), "the file system knows what is its own");
        assert!(file.touches(&below) && unmade.touches(&below));
    }
    let neighbour = Backing::in_directory(mount.path(), 4096);
    assert!(!ground(&neighbour.path).touches(&file));
    let apart = or_skip!(LoopDevice::new(1 << 20));
    assert!(!ground(&apart.path).touches(&file));
}

#[test]
fn parts_of_one_disk_do_not_touch_each_other() {
    let backing = or_skip!(Backing::on_tmpfs(2 << 20));
    let first = or_skip!(LoopDevice::over(backing, &["--sizelimit", "1048576"]));
    let second = or_skip!(first.beside(&["--offset", "1048576"]));
    assert!(!ground(&first.path).touches(&ground(&second.path)));
    assert!(ground(&first.backing.path).touches(&ground(&second.path)));
}
