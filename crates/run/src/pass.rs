//! One pass over a trace, on as many processors as there are.
//!
//! Whatever is counted merges, so a trace may be cut: a native file into runs of row groups, one
//! for each thread, put together in their order. Other formats have to be read from their
//! beginning, by one thread; there what is counted is divided instead, into two halves that know
//! nothing of each other, each with a thread of its own that is handed every batch.

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

/// How many batches may be on their way to a thread.
const ON_THE_WAY: usize = 8;

/// What is counted in a pass, in two halves.
pub trait Counted: Send + Sized {
    /// The one half.
    type First: Send;
    /// The other half.
    type Second: Send;

    /// Divides it.
    fn divide(self) -> (Self::First, Self::Second);

    /// Puts the halves together.
    fn unite(first: Self::First, second: Self::Second) -> Self;

    /// Adds a batch to the one half.
    fn observe_first(first: &mut Self::First, batch: &Batch);

    /// Adds a batch to the other half.
    fn observe_second(second: &mut Self::Second, batch: &Batch);

    /// Adds a batch to both halves, which one thread may do with less effort than two.
    fn observe(first: &mut Self::First, second: &mut Self::Second, batch: &Batch) {
        Self::observe_first(first, batch);
        Self::observe_second(second, batch);
    }

    /// Adds a later part of the same trace.
    fn merge(&mut self, later: Self);
}

/// What is read, and how.
pub struct Input<'a> {
    /// What finds the trace.
    pub opener: &'a dyn Opener,
    /// Its name.
    pub path: &'a Path,
    /// How it is read.
    pub options: &'a ReadOptions,
    /// What is made of it.
    pub load: &'a Load,
    /// How many threads may count. Unpacking and reading ahead have their own.
    pub threads: usize,
    /// The wish to end.
    pub stop: &'a Stop,
    /// Where the first instant of the trace is kept, if instants of issue are to count from it on.
    pub origin: Option<&'a OnceLock<Nanos>>,
}

/// A source whose first request is issued at zero, for what is drawn: a part of a recording that
/// begins after fifty minutes is no hour with nothing in it.
pub struct FromFirst<'a> {
    source: Box<dyn Source>,
    origin: &'a OnceLock<Nanos>,
}

impl<'a> FromFirst<'a> {
    /// The origin is that of whoever is first to know it.
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
        // The results of a replay have their own zero.
        if is_there
            && !batch.columns().measured
            && let Some(first) = batch.first_issue()
        {
            batch.rebase(*self.origin.get_or_init(|| first));
        }
        Ok(is_there)
    }
}

/// How many processors this program may use.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What a thread that counts may come to hold, in bytes: a run of thousands of volumes that goes
/// everywhere was seen to take 560 MiB in one thread, and 340 MiB in each further one.
const MEMORY_OF_THREAD: usize = 640 << 20;

/// How many threads count unless somebody chooses: as many as there are processors, and no more
/// than fit into the memory that is to be had. Each counts into summaries of its own.
pub fn threads() -> usize {
    fitting(processors(), ioecho_linux::facts::memory_available())
}

fn fitting(processors: usize, available: Option<usize>) -> usize {
    let fit = available.map_or(processors, |bytes| bytes / MEMORY_OF_THREAD);
    processors.min(fit).max(1)
}

/// Counts every request of a trace, beginning with what `new` makes, and answers the trace's header
/// besides, complete.
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

/// The source with the zero that is asked for.
fn from_first<'a>(source: Box<dyn Source>, input: &Input<'a>) -> Box<dyn Source + 'a> {
    match input.origin {
        Some(origin) => Box::new(FromFirst::over(source, origin)),
        None => source,
    }
}

/// The native file behind the path, if it is read as it is.
fn native_file(input: &Input<'_>) -> Result<Option<PathBuf>> {
    let is_native = input.options.format.is_none_or(|format| format.name == native::FORMAT.name);
    if !input.load.is_whole() || !is_native {
        return Ok(None);
    }
    let path = match RunDirectory::at(input.path) {
        Some(run) => {
            // A directory of a version that this program does not know is refused here.
            run.read_facts()?;
            run.requests()
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
                // A thread that has gone has panicked, which is told below.
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

/// What a thread answers; its panic goes on in this one.
pub fn finished<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Counts a part; answers besides whether the file breaks off in it.
fn part<C: Counted>(
    mut source: Box<dyn Source + '_>,
    counted: C,
) -> Result<(C, Header, bool), TraceError> {
    // The results of a run that was ended say so from the start, and are all there.
    let known = source.header().damage.clone();
    let counted = whole(&mut *source, counted)?;
    let header = source.header().clone();
    let breaks_off = header.damage != known;
    Ok((counted, header, breaks_off))
}

/// Counts runs of row groups in threads; `None` of a file that cannot be cut.
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
        // What is read in order ends at a damage, and so does what is read in parts.
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
