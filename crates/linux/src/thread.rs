//! The issuing thread, as the kernel sees it.
//!
//! A late request can be the fault of the device, of this program, or of a host that did not let
//! the thread run. Only the kernel's counters of the thread show the last; and two of its causes,
//! the default timer slack of 50 µs and the turns of other threads, can be made small.

use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::thread::{Builder, JoinHandle};

use ioecho_trace::Nanos;
use rustix::fs::Mode;
use rustix::time::{ClockId, clock_gettime};

/// How long a thread that must wake on time may run before another has its turn, ns: the least that
/// Linux takes for it (`kernel/sched/syscalls.c`, `__setparam_fair`).
const SLICE_NS: u64 = 100_000;

/// Lets the calling thread, and those that it starts, run as soon as its sleep ends.
///
/// The timer slack becomes 1 ns: by default a sleep ends 50 µs late. The slice becomes 100 µs
/// instead of some 3 ms: a thread that wakes goes before one with a longer slice, without a greater
/// share of the processor (the scheduler EEVDF from Linux 6.12 on; earlier kernels ignore it). What
/// the host refuses is left as it was: whoever is late for it, measures it.
pub fn wake_promptly() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
    let _ = set_slice_ns(SLICE_NS);
}

/// Lets the calling thread make files with the permissions that it names: it has a umask of its
/// own, which is 0. Other threads keep that of the process. Where the system refuses a thread that
/// (in some containers), it keeps it too.
pub fn mask_nothing() {
    // SAFETY: the call takes no memory. What the thread has of its own from here on is a copy of
    // the umask, the root and the working directory, which nothing here changes.
    if unsafe { libc::unshare(libc::CLONE_FS) } == 0 {
        rustix::process::umask(Mode::empty());
    }
}

/// Asks for turns of this length for the calling thread, and changes nothing else of it
/// (`sched_setattr(2)`, which the C library does not offer).
fn set_slice_ns(slice_ns: u64) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: rustix::process::getpriority_process(None)?,
        sched_priority: 0,
        sched_runtime: slice_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes at the address of a structure of that size, which lives
    // through the call, and keeps nothing of it.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets every other thread of the host go before the calling one when processors are scarce: its
/// niceness becomes 19. Linux keeps that for each thread, whatever POSIX says (setpriority(2)).
pub fn stand_back() -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, 19)?)
}

/// Starts a thread of this name.
///
/// # Errors
/// If there can be no more threads, with what may limit them: what the system answers for it
/// (`EAGAIN`, clone(2)) it answers for much else.
pub fn start<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    start_by(Builder::new().name(name.into()), work)
}

/// The same with more said of the thread.
pub(crate) fn start_by<T: Send + 'static>(
    builder: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    builder.spawn(work).map_err(|error| none_left(&error))
}

/// Why there can be no more threads.
pub fn none_left(error: &io::Error) -> io::Error {
    let text = format!(
        "no more threads can be started: {error}; what limits them is `ulimit -u`, `ulimit -v`, \
         or pids.max of the control group"
    );
    io::Error::other(text)
}

/// What the kernel gave to a thread and took from it, since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCpu {
    /// Time on a processor, in user and kernel mode together.
    pub cpu: Nanos,
    /// How often it gave up the processor to wait.
    pub voluntary_switches: u64,
    /// How often the processor was taken from it although it could have run on.
    pub involuntary_switches: u64,
}

impl ThreadCpu {
    /// The account of the calling thread. One system call and one read of the clock.
    pub fn now() -> io::Result<Self> {
        let usage = thread_usage()?;
        Ok(Self {
            cpu: thread_cpu_time(),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        })
    }

    /// What came to the account since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu - earlier.cpu,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

/// The processor time of the calling thread (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread_cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// `getrusage(RUSAGE_THREAD)`; rustix does not offer it.
fn thread_usage() -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel writes a whole `struct rusage` to the address, which is large enough for
    // one and lives through the call.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the structure has been written.
    Ok(unsafe { usage.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_threads_is_taken_for_nothing_else() {
        let error = none_left(&io::Error::from_raw_os_error(11));
        assert_eq!(error.raw_os_error(), None);
        assert!(error.to_string().contains("ulimit -u"), "{error}");
    }

    #[test]
    fn a_thread_that_wakes_promptly_keeps_its_policy_and_its_niceness() {
        let of = |attribute: &mut libc::sched_attr| {
            let size = size_of::<libc::sched_attr>();
            // SAFETY: the kernel writes at most `size` bytes to a structure of that size.
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut *attribute, size, 0) }
        };
        std::thread::spawn(move || {
            stand_back().unwrap();
            wake_promptly();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
            // SAFETY: all of its fields are numbers, for which zero is a value.
            let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
            assert_eq!(of(&mut now), 0, "{}", io::Error::last_os_error());
            assert_eq!((now.sched_policy, now.sched_nice), (libc::SCHED_OTHER as u32, 19));
            // Kernels before 6.12 have no slice to tell.
            assert!([0, SLICE_NS].contains(&now.sched_runtime), "{}", now.sched_runtime);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn work_appears_in_the_account_of_processor_time() {
        let before = ThreadCpu::now().unwrap();
        let mut sum = 0_u64;
        while thread_cpu_time() - before.cpu < Nanos::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let spent = ThreadCpu::now().unwrap().since(&before);
        assert!(spent.cpu >= Nanos::from_millis(2), "only {} were counted", spent.cpu);
    }

    #[test]
    fn sleeping_appears_as_a_voluntary_switch() {
        let before = ThreadCpu::now().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(ThreadCpu::now().unwrap().since(&before).voluntary_switches >= 1);
    }
}
