//! What goes wrong below is answered as an outcome, never as a panic or a silence.

use ioecho_trace::{Bytes, Op, Outcome};

use crate::devices::{device_on, outcomes, with_both};
use crate::stand::{Backing, LoopDevice, do_all, io, or_skip};

const MIB: u64 = 1 << 20;

/// `include/uapi/asm-generic/errno-base.h`.
const EIO: i32 = 5;
const EINVAL: i32 = 22;

#[test]
fn a_file_that_shrinks_under_a_replay_makes_short_transfers() {
    with_both(|backend| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, backend);
        file.resize(6 * 1024);
        let done =
            do_all(&mut *device, clock, &[io(0, Op::Read, 4096, 4096), io(1, Op::Read, 8192, 512)]);
        assert_eq!(outcomes(&done), [Outcome::Short, Outcome::Short]);
    });
}

#[test]
fn a_loop_device_whose_file_shrinks_answers_an_error_number() {
    with_both(|backend| {
        let target = or_skip!(LoopDevice::new(16 * MIB));
        let (mut device, clock) = device_on(&target.path, backend);
        target.backing.resize(MIB);
        let requests = [io(0, Op::Read, 0, 4096), io(1, Op::Read, 8 * MIB, 4096)];
        let done = do_all(&mut *device, clock, &requests);
        assert_eq!(outcomes(&done), [Outcome::Ok, Outcome::Error(EIO)]);
    });
}

#[test]
fn a_misaligned_request_is_answered_with_an_error_number() {
    with_both(|backend| {
        let backing = or_skip!(Backing::on_tmpfs(16 * MIB));
        let target = or_skip!(LoopDevice::over(backing, &["--sector-size", "4096"]));
        let (mut device, clock) = device_on(&target.path, backend);
        assert_eq!(device.block_size(), Bytes(4096));
        let done = do_all(&mut *device, clock, &[io(0, Op::Read, 512, 512)]);
        assert_eq!(outcomes(&done), [Outcome::Error(EINVAL)]);
    });
}
