//! Counts everything that a page draws, in one pass on every processor.
//!
//! A page needs the picture, the figures for the verdict, and the analysis. Counted separately,
//! they would need three readings of a hundred million requests.

use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use ioecho_stats::analysis::all::{Space, Time, in_pieces};
use ioecho_stats::analysis::{Analysis, AnalysisFigures, Asked, Settings, Summary};
use ioecho_stats::picture::RunPicture;
use ioecho_stats::run_summary::RunFigures;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Header, Nanos, Request, Stop};

use crate::directory::RunDirectory;
use crate::error::Result;
use crate::open::{Files, Opener};
use crate::pass::{self, Counted, Input};

/// The counts of a load or of a run. They are large, and handed from thread to thread: by value
/// they would not fit into the stack of a thread.
pub struct Everything {
    /// The figures of a run, or of a trace with the results of a run.
    run: Box<RunFigures>,
    /// The picture of a load that was never replayed.
    load: Box<RunPicture>,
    time: Box<Time>,
    space: Box<Space>,
}

/// The half of the counts that depends on time.
type InTime = (Box<RunFigures>, Box<RunPicture>, Box<Time>);

impl Counted for Everything {
    type First = InTime;
    type Second = Box<Space>;

    fn divide(self) -> (InTime, Box<Space>) {
        ((self.run, self.load, self.time), self.space)
    }

    fn unite((run, load, time): InTime, space: Box<Space>) -> Self {
        Self { run, load, time, space }
    }

    fn observe_first(in_time: &mut InTime, batch: &Batch) {
        let measured = batch.columns().measured;
        in_pieces(batch, |requests| observe_in_time(in_time, measured, requests));
    }

    fn observe_second(space: &mut Box<Space>, batch: &Batch) {
        space.observe_batch(batch);
    }

    fn observe(in_time: &mut InTime, space: &mut Box<Space>, batch: &Batch) {
        let measured = batch.columns().measured;
        in_pieces(batch, |requests| {
            observe_in_time(in_time, measured, requests);
            space.observe_all(requests);
        });
    }

    fn merge(&mut self, later: Self) {
        self.run.merge(&later.run);
        self.load.merge(&later.load);
        self.time.merge(&later.time);
        self.space.merge(&later.space);
    }
}

fn observe_in_time((run, load, time): &mut InTime, measured: bool, requests: &[Request]) {
    if measured {
        run.observe_all(requests);
    } else {
        load.observe_loads(requests);
    }
    time.observe_all(requests);
}

impl Counted for Analysis {
    type First = (Settings, Time);
    type Second = Space;

    fn divide(self) -> (Self::First, Self::Second) {
        let (settings, time, space) = self.into_parts();
        ((settings, time), space)
    }

    fn unite((settings, time): Self::First, space: Self::Second) -> Self {
        Self::of(settings, time, space)
    }

    fn observe_first((_, time): &mut Self::First, batch: &Batch) {
        time.observe_batch(batch);
    }

    fn observe_second(space: &mut Self::Second, batch: &Batch) {
        space.observe_batch(batch);
    }

    fn observe((_, time): &mut Self::First, space: &mut Self::Second, batch: &Batch) {
        in_pieces(batch, |requests| {
            time.observe_all(requests);
            space.observe_all(requests);
        });
    }

    fn merge(&mut self, later: Self) {
        Self::merge(self, &later);
    }
}

/// The figures of a trace or a run.
pub struct AllFigures {
    /// The figures of a run.
    pub run: Box<RunFigures>,
    /// The picture of a load that was never replayed.
    pub load: Box<RunPicture>,
    /// The figures of the analysis.
    pub analysis: AnalysisFigures,
    /// The trace's header at its end.
    pub header: Header,
    /// The instant of the trace's own time that counts as zero: its first request. Unset for a run,
    /// which has its own zero.
    pub origin: OnceLock<Nanos>,
}

impl AllFigures {
    /// Whether the trace was replayed, so that it has measured figures.
    pub fn is_run(&self) -> bool {
        self.header.columns.measured
    }

    /// The picture.
    pub fn picture(&self) -> &RunPicture {
        if self.is_run() { self.run.picture() } else { &self.load }
    }
}

/// Reads a trace or a run to its end.
pub fn count(
    opener: &dyn Opener,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
    stop: &Stop,
) -> Result<AllFigures> {
    count_and(opener, path, options, load, stop, |_| ()).map(|(found, ())| found)
}

/// The same of a run, by so many threads: each has counts of its own, in memory of its own.
pub fn count_run(run: &RunDirectory, threads: usize) -> Result<AllFigures> {
    let (options, load, stop) = (ReadOptions::default(), Load::default(), Stop::default());
    let (opener, path, options, load, stop) = (&Files, run.path(), &options, &load, &stop);
    let origin = OnceLock::new();
    let input = Input { opener, path, options, load, threads, stop, origin: Some(&origin) };
    count_input(&input, &origin, |_| ()).map(|(found, ())| found)
}

/// The same. While one thread makes the figures of the counts, another one runs `besides` with the
/// trace's own zero.
pub fn count_and<T: Send>(
    opener: &dyn Opener,
    path: &Path,
    options: &ReadOptions,
    load: &Load,
    stop: &Stop,
    besides: impl FnOnce(&OnceLock<Nanos>) -> T + Send,
) -> Result<(AllFigures, T)> {
    let origin = OnceLock::new();
    let threads = pass::threads();
    let input = Input { opener, path, options, load, threads, stop, origin: Some(&origin) };
    count_input(&input, &origin, besides)
}

fn count_input<T: Send>(
    input: &Input<'_>,
    origin: &OnceLock<Nanos>,
    besides: impl FnOnce(&OnceLock<Nanos>) -> T + Send,
) -> Result<(AllFigures, T)> {
    let settings = Settings::default();
    let new = || Everything {
        run: Box::default(),
        load: Box::new(RunPicture::new()),
        time: Box::default(),
        space: Box::new(Space::new(&settings)),
    };
    let (Everything { run, load, time, space }, header) = pass::count(input, new)?;
    let (analysis, done) = thread::scope(|scope| {
        let done = scope.spawn(|| besides(origin));
        let counted = Analysis::of(settings.clone(), *time, *space);
        (counted.figures(&header, &Asked::default()), pass::finished(done))
    });
    let origin = origin.clone();
    Ok((AllFigures { run, load, analysis, header, origin }, done))
}
