//! Samples of a loop device: what lies behind it knows which places were never written.

use std::os::unix::fs::FileExt;

use ioecho_linux::target::{self, Access, OpenOptions, sample};

use crate::fixture::{Backing, LoopDevice, nobody_spawns, or_skip};

const SIZE: u64 = 16 << 20;

/// The sample of a loop device whose backing file holds noise in this range.
fn content_of(
    options: &[&str],
    noise: std::ops::Range<u64>,
) -> Result<target::TargetContent, String> {
    let backing = Backing::on_tmpfs(SIZE)?;
    {
        let _alone = nobody_spawns();
        let file = std::fs::File::options().write(true).open(&backing.path).unwrap();
        file.write_all_at(&vec![0x5A; (noise.end - noise.start) as usize], noise.start).unwrap();
    }
    let device = LoopDevice::over(backing, options)?;
    let opened = target::open(&device.path, OpenOptions::new(Access::ReadOnly));
    Ok(sample(&opened.map_err(|error| error.to_string())?))
}

fn near(share: f64, expected: f64) -> bool {
    (share - expected).abs() < 0.06
}

#[test]
fn the_holes_behind_a_loop_device_were_never_written() {
    let content = or_skip!(content_of(&[], 0..SIZE / 4));
    assert!(near(content.other, 0.25), "{content:?}");
    assert!(near(content.zeroes, 0.75), "{content:?}");
    assert!(content.never_written.is_some_and(|share| near(share, 0.75)), "{content:?}");
    assert_eq!(content.told_by, Some(target::ToldBy::Holes));
}

#[test]
fn a_loop_device_that_begins_inside_its_file_is_looked_at_from_there() {
    let half = (SIZE / 2).to_string();
    let content = or_skip!(content_of(&["--offset", &half], SIZE / 2..SIZE));
    assert!(near(content.other, 1.0), "{content:?}");
    assert!(content.never_written.is_some_and(|share| near(share, 0.0)), "{content:?}");
}
