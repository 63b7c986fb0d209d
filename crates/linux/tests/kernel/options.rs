//! What was asked for is in force and told, or refused.

use std::path::Path;

use ioecho_linux::device::{aio_available, uring_available};
use ioecho_linux::{
    Access, Backend, DeviceError, DeviceOptions, MonotonicClock, OpenOptions, open_device, target,
};
use ioecho_trace::{Op, Outcome};

use crate::devices::{device_on, outcomes};
use crate::fixture::{Backing, LoopDevice, do_all, io, open_rw, or_skip};

const MIB: u64 = 1 << 20;

fn described(path: &Path, options: DeviceOptions) -> String {
    device_on(path, options).0.describe()
}

fn with(backend: Backend) -> DeviceOptions {
    DeviceOptions { backend, in_flight_max: 64, ..DeviceOptions::default() }
}

fn refused(path: &Path, options: DeviceOptions) -> DeviceError {
    open_device(open_rw(path), &options, MonotonicClock::new()).err().unwrap()
}

#[test]
fn a_device_tells_its_back_end() {
    let file = or_skip!(Backing::on_tmpfs(MIB));
    let threads = described(&file.path, with(Backend::Threads));
    assert!(threads.starts_with("threads: 64 workers, 64 in flight at most"), "{threads}");
    or_skip!(aio_available(64));
    let aio = described(&file.path, with(Backend::Aio));
    assert!(aio.starts_with("aio: 64 in flight at most, completions read from its ring"), "{aio}");
    or_skip!(uring_available());
    let uring = described(&file.path, with(Backend::Uring));
    assert!(uring.starts_with("io_uring: 64 in flight at most"), "{uring}");
    // Whether a file in memory takes requests without waiting depends on the kernel.
    let auto = described(&file.path, with(Backend::Auto));
    let waits = auto.starts_with("aio: ") && auto.contains("RWF_NOWAIT");
    assert!(auto.starts_with("io_uring: 64 in flight at most") || waits, "{auto}");
}

#[test]
fn registered_buffers_are_used_unless_declined() {
    or_skip!(uring_available());
    let file = or_skip!(Backing::on_tmpfs(MIB));
    let registered = described(&file.path, with(Backend::Uring));
    if registered.contains("registered buffers") {
        // The kernel looks up the number of a registered buffer, so that a wrong one would fail.
        let (mut device, clock) = device_on(&file.path, with(Backend::Uring));
        let requests = [io(0, Op::Write, 0, 4096), io(1, Op::Read, 65_536, 131_072)];
        assert_eq!(outcomes(&do_all(&mut *device, clock, &requests)), [Outcome::Ok; 2]);
    } else {
        ioecho_fixture::skipped(registered);
    }
    let plain = DeviceOptions { register_buffers: false, ..with(Backend::Uring) };
    let plain = described(&file.path, plain);
    assert!(plain.contains("buffers not registered (not asked for)"), "{plain}");
}

#[test]
fn a_thread_of_the_kernel_takes_requests_when_asked_for() {
    or_skip!(uring_available());
    let file = or_skip!(Backing::on_tmpfs(MIB));
    let options = DeviceOptions { sqpoll: true, ..with(Backend::Uring) };
    assert!(described(&file.path, options).contains("SQPOLL, which takes a processor"));
}

#[test]
fn polling_is_refused_where_the_queue_does_not_poll() {
    or_skip!(uring_available());
    let options = DeviceOptions { iopoll: true, ..with(Backend::Auto) };
    let file = or_skip!(Backing::on_tmpfs(MIB));
    let error = refused(&file.path, options);
    assert!(error.to_string().contains("no block device lies below it"), "{error}");
    let device = or_skip!(LoopDevice::new(MIB));
    let error = refused(&device.path, options);
    assert!(matches!(error, DeviceError::PollUnavailable { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains(&format!("the queue of {} does not poll", device.name())), "{told}");
    assert!(told.contains("= help: leave IOPOLL away"), "{told}");
}

#[test]
fn polling_needs_direct_io() {
    or_skip!(uring_available());
    let file = or_skip!(Backing::on_tmpfs(MIB));
    // Whether a file system has direct I/O is its own affair, so the flag is what is tested.
    let cached = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
    let opened = target::open(&file.path, cached).unwrap();
    let is_direct = opened.facts().direct;
    let options = DeviceOptions { iopoll: true, ..with(Backend::Uring) };
    let error = open_device(opened, &options, MonotonicClock::new()).err().unwrap();
    let reason = if is_direct { "no block device" } else { "page cache is not bypassed" };
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn as_many_threads_work_as_were_asked_for() {
    let file = or_skip!(Backing::on_tmpfs(MIB));
    for (threads, told) in [(1, "threads: 1 worker,"), (300, "threads: 300 workers,")] {
        let options = DeviceOptions { threads: Some(threads), ..with(Backend::Threads) };
        let (mut device, clock) = device_on(&file.path, options);
        assert!(device.describe().starts_with(told), "{}", device.describe());
        assert_eq!(device.concurrency(), threads);
        let reads: Vec<_> = (0..64).map(|tag| io(tag, Op::Read, 0, 4096)).collect();
        assert_eq!(outcomes(&do_all(&mut *device, clock, &reads)), [Outcome::Ok; 64]);
    }
}
