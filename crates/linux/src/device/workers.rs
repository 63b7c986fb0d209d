//! Threads that do one plain system call after another.
//!
//! Some system calls block: Linux AIO has no discard and no order between requests, a polled ring
//! takes only reads and writes, calls on names have no other form, and where nothing else is
//! allowed all requests are blocking calls. They must not run on the issuing thread where that has
//! others to issue meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ioecho_replay::{Clock, Completion, Io};
use ioecho_trace::{Integrity, Nanos, Outcome};

use super::CLOSING;
use crate::clock::MonotonicClock;
use crate::thread::start_by;

/// Small: a worker only makes system calls.
const STACK: usize = 128 << 10;

/// What workers make calls on.
pub(crate) trait Serve: Send + Sync + 'static {
    /// Where the data of a request lies.
    type Memory: Send;

    /// A worker begins. It is the calling thread.
    fn begin(&self) {}

    /// Does a request.
    fn serve(&self, io: &Io, memory: &mut Self::Memory) -> Outcome;
}

struct Job<M> {
    io: Io,
    memory: M,
}

struct Done<M> {
    completion: Completion,
    memory: M,
}

/// Rung after each job: an `eventfd` that the issuing thread waits for together with other things.
pub(crate) type Bell = Arc<OwnedFd>;

/// Some threads and the way to and from them. Dropping it waits up to ten seconds for the jobs that
/// they have; then it leaves the threads to themselves, each with the buffer that it works on.
pub(crate) struct Workers<S: Serve> {
    clock: MonotonicClock,
    prepared: Vec<Job<S::Memory>>,
    /// Absent only while it is dropped: the workers end when it is gone.
    jobs: Option<Sender<Job<S::Memory>>>,
    done: Receiver<Done<S::Memory>>,
    in_flight: usize,
    threads: Vec<JoinHandle<()>>,
}

impl<S: Serve> Workers<S> {
    /// `count` threads for up to `in_flight_max` jobs.
    pub(crate) fn new(
        count: u32,
        in_flight_max: u32,
        on: &Arc<S>,
        clock: MonotonicClock,
        bell: Option<&Bell>,
    ) -> io::Result<Self> {
        let (jobs, waiting) = bounded::<Job<S::Memory>>(in_flight_max as usize);
        let (finished, done) = bounded(in_flight_max as usize);
        let threads = (0..count)
            .map(|number| {
                let (waiting, finished) = (waiting.clone(), finished.clone());
                let (on, bell) = (Arc::clone(on), bell.cloned());
                let builder = Builder::new().name(format!("ioecho-io-{number}")).stack_size(STACK);
                start_by(builder, move || {
                    work(&*on, clock, &waiting, &finished, bell.as_ref());
                })
            })
            .collect::<io::Result<_>>()?;
        let prepared = Vec::with_capacity(in_flight_max as usize);
        Ok(Self { clock, prepared, jobs: Some(jobs), done, in_flight: 0, threads })
    }

    /// How many threads there are.
    pub(crate) fn count(&self) -> u32 {
        self.threads.len() as u32
    }

    /// Jobs handed over and not taken back.
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues a job for the next hand-over.
    pub(crate) fn prepare(&mut self, io: &Io, memory: S::Memory) {
        self.prepared.push(Job { io: *io, memory });
    }

    /// Hands over what is prepared and answers how many jobs it was.
    pub(crate) fn submit(&mut self) -> io::Result<usize> {
        let accepted = self.prepared.len();
        for job in self.prepared.drain(..) {
            let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
            if !sent {
                return Err(io::Error::other("all I/O threads have ended: a bug in ioecho"));
            }
            self.in_flight += 1;
        }
        Ok(accepted)
    }

    /// Takes what is done, without waiting.
    pub(crate) fn reap(&mut self, done: &mut impl FnMut(Completion, S::Memory)) {
        while let Ok(one) = self.done.try_recv() {
            self.in_flight -= 1;
            done(one.completion, one.memory);
        }
    }

    /// Waits until something is done or the clock reaches `until`, and takes what is done.
    pub(crate) fn wait(&mut self, until: Nanos, done: &mut impl FnMut(Completion, S::Memory)) {
        let left = until.saturating_sub(self.clock.now()).0;
        if left > 0 {
            let left = Duration::from_nanos(left as u64);
            let one = match Instant::now().checked_add(left) {
                Some(deadline) => self.done.recv_deadline(deadline).ok(),
                None => self.done.recv().ok(),
            };
            if let Some(one) = one {
                self.in_flight -= 1;
                done(one.completion, one.memory);
            }
        }
        self.reap(done);
    }
}

impl<S: Serve> Drop for Workers<S> {
    fn drop(&mut self) {
        self.jobs = None;
        let deadline = self.clock.now() + CLOSING;
        while self.in_flight > 0 && self.clock.now() < deadline {
            self.wait(deadline, &mut |_, _| ());
        }
        if self.in_flight == 0 {
            for thread in self.threads.drain(..) {
                // A worker that panicked has said so already.
                let _ = thread.join();
            }
        }
    }
}

/// A worker's loop: until no more jobs can come, or nobody takes its results.
fn work<S: Serve>(
    on: &S,
    clock: MonotonicClock,
    waiting: &Receiver<Job<S::Memory>>,
    finished: &Sender<Done<S::Memory>>,
    bell: Option<&Bell>,
) {
    on.begin();
    for Job { io, mut memory } in waiting {
        let completion = served(on, clock, &io, &mut memory);
        if finished.send(Done { completion, memory }).is_err() {
            return;
        }
        if let Some(bell) = bell {
            // Refused only when nobody has listened for 2^64 jobs.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Does a request, and tells when.
pub(crate) fn served<S: Serve>(
    on: &S,
    clock: MonotonicClock,
    io: &Io,
    memory: &mut S::Memory,
) -> Completion {
    let submitted = clock.now();
    let outcome = on.serve(io, memory);
    let completed = clock.now();
    let integrity = Integrity::Unchecked;
    Completion { tag: io.tag, submitted, completed, outcome, integrity }
}
