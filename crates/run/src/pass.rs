//! One pass over a trace, on as many processors as there are.
//!
//! All counts can be merged, so a trace may be cut: a native file is cut into runs of row groups,
//! one for each thread, whose counts are merged in order. One thread must read other formats from
//! their beginning; there the counting is divided into two independent halves, each with a thread
//! that gets every batch.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use ioecho_trace::formats::{ReadOptions, native};
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Header, Nanos, Source, Stop, TraceError};

use crate::directory::RunDirectory;
use crate::error::Result;
use crate::open::{self, Opener};
use crate::results;

/// Batches that may be queued for a thread.
const ON_THE_WAY: usize = 8;

/// The counts of a pass, in two halves.
pub trait Counted: Send + Sized {
    /// The one half.
    type First: Send;
    /// The other half.
    type Second: Send;

    /// Divides the counts into halves.
    fn divide(self) -> (Self::First, Self::Second);

    /// Joins the halves.
    fn unite(first: Self::First, second: Self::Second) -> Self;

    /// Adds a batch to the first half.
    fn observe_first(first: &mut Self::First, batch: &Batch);

    /// Adds a batch to the second half.
    fn observe_second(second: &mut Self::Second, batch: &Batch);

    /// Adds a batch to both halves; one thread may need less work for both than two threads.
    fn observe(first: &mut Self::First, second: &mut Self::Second, batch: &Batch) {
        Self::observe_first(first, batch);
        Self::observe_second(second, batch);
    }

    /// Adds a later part of the same trace.
    fn merge(&mut self, later: Self);
}

/// The input of a pass.
pub struct Input<'a> {
    /// Resolves the trace's path.
    pub opener: &'a dyn Opener,
    /// The trace's path.
    pub path: &'a Path,
    /// The options for reading it.
    pub options: &'a ReadOptions,
    /// Its window and its transforms.
    pub load: &'a Load,
    /// The number of counting threads. Unpacking and reading ahead have threads of their own.
    pub threads: usize,
    /// The wish to end.
    pub stop: &'a Stop,
    /// Stores the trace's first instant, if instants of issue are to be relative to it.
    pub origin: Option<&'a OnceLock<Nanos>>,
}

/// A source whose first request is issued at zero, for drawing: a part of a recording that begins
/// after fifty minutes must not be drawn with an empty hour before it.
pub struct FromFirst<'a> {
    source: Box<dyn Source>,
    origin: &'a OnceLock<Nanos>,
}

impl<'a> FromFirst<'a> {
    /// Whoever knows the origin first sets it.
    pub fn over(source: Box<dyn Source>, origin: &'a OnceLock<Nanos>) -> Self {
        Self { source, origin }
    }
}

impl Source for FromFirst<'_> {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let is_there = self.source.next_batch(batch)?;
        // The results of a replay have their own time zero.
        if is_there
            && !batch.columns().measured
            && let Some(first) = batch.first_issue()
        {
            batch.rebase(*self.origin.get_or_init(|| first));
        }
        Ok(is_there)
    }
}

/// The number of processors that this program may use.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The memory that a counting thread may need, in bytes. A run on the whole of thousands of volumes
/// was seen to take 560 MiB in one thread, and 340 MiB in each further one.
const MEMORY_OF_THREAD: usize = 640 << 20;

/// The default number of counting threads: one per processor, but no more than fit into the
/// available memory. Each has summaries of its own.
pub fn threads() -> usize {
    fitting(processors(), ioecho_linux::facts::memory_available())
}

fn fitting(processors: usize, available: Option<usize>) -> usize {
    let fit = available.map_or(processors, |bytes| bytes / MEMORY_OF_THREAD);
    processors.min(fit).max(1)
}

/// Counts every request of a trace, starting from the value of `new`. Also returns the trace's
/// complete header.
pub fn count<C: Counted>(input: &Input<'_>, new: impl Fn() -> C + Sync) -> Result<(C, Header)> {
    open::refuse_endless(input.path, input.load)?;
    if input.threads > 1
        && let Some(file) = native_file(input)?
        && let Some(counted) = in_parts(input, &file, &new)?
    {
        return Ok(counted);
    }
    let source =
        open::trace_until(input.opener, input.stop, input.path, input.options, input.load)?;
    let mut source = from_first(source, input);
    let counted = if input.threads > 1 {
        in_halves(&mut *source, new())?
    } else {
        whole(&mut *source, new())?
    };
    Ok((counted, source.header().clone()))
}

/// The source with the time zero that was asked for.
fn from_first<'a>(source: Box<dyn Source>, input: &Input<'a>) -> Box<dyn Source + 'a> {
    match input.origin {
        Some(origin) => Box::new(FromFirst::over(source, origin)),
        None => source,
    }
}

/// The native file of the path, if it is read without transforms.
fn native_file(input: &Input<'_>) -> Result<Option<PathBuf>> {
    let is_native = input.options.format.is_none_or(|format| format.name == native::FORMAT.name);
    if !input.load.is_whole() || !is_native {
        return Ok(None);
    }
    let path = match RunDirectory::at(input.path) {
        Some(run) => {
            // A directory of a version that this program does not know is refused here.
            let facts = run.read_facts()?;
            if !run.requests().exists() {
                return Ok(None);
            }
            results::own(&run, &facts)?
        }
        None => input.opener.file(input.path)?,
    };
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut first = [0; 4];
    let begins =
        is_file && File::open(&path).and_then(|mut file| file.read_exact(&mut first)).is_ok();
    Ok((begins && native::recognise(&first)).then_some(path))
}

fn whole<C: Counted>(source: &mut dyn Source, counted: C) -> Result<C, TraceError> {
    let mut batch = Batch::new(source.header().columns);
    let (mut first, mut second) = counted.divide();
    while source.next_batch(&mut batch)? {
        C::observe(&mut first, &mut second, &batch);
    }
    Ok(C::unite(first, second))
}

fn in_halves<C: Counted>(source: &mut dyn Source, counted: C) -> Result<C, TraceError> {
    let (mut first, mut second) = counted.divide();
    let columns = source.header().columns;
    thread::scope(|scope| {
        let (to_first, batches) = sync_channel::<Arc<Batch>>(ON_THE_WAY);
        let one = scope.spawn(move || {
            each(&batches, |batch| C::observe_first(&mut first, batch));
            first
        });
        let (to_second, batches) = sync_channel::<Arc<Batch>>(ON_THE_WAY);
        let other = scope.spawn(move || {
            each(&batches, |batch| C::observe_second(&mut second, batch));
            second
        });
        let mut read = || -> Result<(), TraceError> {
            loop {
                let mut batch = Batch::new(columns);
                if !source.next_batch(&mut batch)? {
                    return Ok(());
                }
                let batch = Arc::new(batch);
                // Sending fails only if the thread has panicked, which is reported below.
                let _ = to_first.send(Arc::clone(&batch));
                let _ = to_second.send(batch);
            }
        };
        let read = read();
        drop((to_first, to_second));
        let (first, second) = (finished(one), finished(other));
        read.map(|()| C::unite(first, second))
    })
}

fn each(batches: &Receiver<Arc<Batch>>, mut observe: impl FnMut(&Batch)) {
    while let Ok(batch) = batches.recv() {
        observe(&batch);
    }
}

/// The result of a thread; its panic continues in this one.
pub fn finished<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Counts a part; also returns whether the file breaks off in it.
fn part<C: Counted>(
    mut source: Box<dyn Source + '_>,
    counted: C,
) -> Result<(C, Header, bool), TraceError> {
    // The header of a run that was ended says so from the start, yet its results are complete.
    let known = source.header().damage.clone();
    let counted = whole(&mut *source, counted)?;
    let header = source.header().clone();
    let breaks_off = header.damage != known;
    Ok((counted, header, breaks_off))
}

/// Counts runs of row groups in threads; `None` if the file cannot be cut.
fn in_parts<C: Counted>(
    input: &Input<'_>,
    file: &Path,
    new: &(impl Fn() -> C + Sync),
) -> Result<Option<(C, Header)>> {
    let mut sources: Vec<Box<dyn Source + '_>> = Vec::with_capacity(input.threads);
    for part in 0..input.threads {
        let Some(source) = native::open_part(file, input.options, part, input.threads)? else {
            return Ok(None);
        };
        sources.push(from_first(input.stop.over(source), input));
    }
    if let Some(origin) = input.origin
        && let Some(mut whole) = native::open_part(file, input.options, 0, 1)?
    {
        let mut batch = Batch::new(whole.header().columns);
        whole.next_batch(&mut batch)?;
        batch.first_issue().inspect(|first| _ = origin.set(*first));
    }
    let parts: Vec<_> = thread::scope(|scope| {
        let spawn = sources.into_iter().map(|source| scope.spawn(move || part(source, new())));
        let threads: Vec<_> = spawn.collect();
        threads.into_iter().map(finished).collect()
    });
    let mut all: Option<(C, Header)> = None;
    for part in parts {
        let (counted, header, breaks_off) = part?;
        match &mut all {
            None => all = Some((counted, header)),
            Some((whole, known)) => {
                whole.merge(counted);
                (known.damage, known.damage_kind) = (header.damage, header.damage_kind);
            }
        }
        // Reading in order ends at a damage, so reading in parts must end there too.
        if breaks_off {
            break;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_count_than_there_is_memory_for() {
        assert_eq!(fitting(8, None), 8);
        assert_eq!(fitting(8, Some(64 << 30)), 8);
        assert_eq!(fitting(8, Some(2 << 30)), 3);
        assert_eq!(fitting(8, Some(0)), 1);
    }
}
