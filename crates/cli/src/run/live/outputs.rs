//! The thread that writes lines and metrics.
//!
//! It writes to what may be slow or break: a pipe, a disk that fills. It takes intervals from the
//! board in its own time, and what it cannot write any more it gives up with one warning: a run is
//! not stopped for somebody who watches it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_run::error::{Kind, Result, RunError};
use ioecho_stats::interval::Interval;

use crate::outputs::Replaced;
use crate::print::tell;
use crate::run::live::board::Board;
use crate::run::live::processors::{Shares, Ticks};
use crate::run::live::{About, LivePlan, csv, flatfile, is_stdout, json, metrics};

/// How often a reader of a pipe is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a reader may take for what is left when the run has ended.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Csv,
    Json,
    Flatfile,
}

/// One of the files with lines.
struct Lines {
    form: Form,
    name: String,
    out: Box<dyn Write + Send>,
}

/// The thread; it ends when the board does.
pub(crate) struct Outputs(Option<JoinHandle<()>>);

impl Outputs {
    /// Opens the files, so that what cannot be written is known before the run. A pipe without a
    /// reader is waited for until the run is `asked` to end.
    pub(crate) fn start(
        plan: &LivePlan,
        about: &About,
        board: &Arc<Board>,
        asked: &AtomicBool,
    ) -> Result<Self> {
        if !plan.writes_files() {
            return Ok(Self(None));
        }
        let mut lines = Vec::new();
        for (form, path, header) in [
            (Form::Csv, &plan.csv, csv::header()),
            (Form::Json, &plan.json, String::new()),
            (Form::Flatfile, &plan.flatfile, flatfile::header()),
        ] {
            if let Some(path) = path {
                match open(plan, form, path, &header, asked) {
                    Ok(opened) => lines.push(opened),
                    // Whoever has seen enough already does not end the run.
                    Err(Unopened::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
                    Err(Unopened::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {
                        return Err(unread(path));
                    }
                    Err(Unopened::Io(error)) => return Err(cannot(path, &error)),
                    Err(Unopened::Refused(error)) => return Err(error),
                }
            }
        }
        let metrics = plan.metrics.as_deref();
        let metrics = metrics.map(|path| plan.gate.replaced("--metrics", path)).transpose()?;
        if let Some(file) = &metrics {
            let text = metrics::text(&Interval::default(), false, about);
            file.put(text.as_bytes()).map_err(|error| cannot(file.path(), &error))?;
        }
        let writer = Writer {
            lines,
            metrics,
            about: about.clone(),
            board: Arc::clone(board),
            ticks: Ticks::now(),
            first_ticks: None,
            all_but_first: Interval::default(),
            last: 0,
        };
        let thread = thread::Builder::new().name("ioecho-lines".to_owned());
        Ok(Self(Some(thread.spawn(move || writer.work())?)))
    }

    /// Waits until everything is written, or until a reader that has stopped was waited for long
    /// enough: the run has ended, and so must the program.
    pub(crate) fn finish(&mut self) {
        let Some(thread) = self.0.take() else { return };
        let until = Instant::now() + PATIENCE;
        while !thread.is_finished() {
            if Instant::now() >= until {
                // It waits in the kernel, where nothing reaches it, and ends with the process.
                return tell(&format!(
                    "warning: nobody has read the lines of the intervals for {} s since the run \
                     ended; the last ones are given up",
                    PATIENCE.as_secs()
                ));
            }
            thread::sleep(LOOK_EVERY);
        }
        let _ = thread.join();
    }
}

fn cannot(path: &Path, error: &io::Error) -> RunError {
    RunError::new(Kind::Output, format!("cannot write {}: {error}", path.display()))
}

fn unread(path: &Path) -> RunError {
    let text = format!(
        "stopped by a signal while nobody read {}; nothing was replayed\n  = help: start the \
         reader of the pipe first, or name a file",
        path.display()
    );
    RunError::new(Kind::Incomplete, text)
}

/// Why a file of lines is not open.
enum Unopened {
    Io(io::Error),
    Refused(RunError),
}

impl From<io::Error> for Unopened {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn open(
    plan: &LivePlan,
    form: Form,
    path: &Path,
    header: &str,
    asked: &AtomicBool,
) -> Result<Lines, Unopened> {
    let flag = match form {
        Form::Csv => "--interval-csv",
        Form::Json => "--interval-json",
        Form::Flatfile => "--interval-flatfile",
    };
    let mut out: Box<dyn Write + Send> = if is_stdout(path) {
        plan.gate.check_standard_output(flag).map_err(Unopened::Refused)?;
        Box::new(io::stdout())
    } else if path.metadata().is_ok_and(|there| there.file_type().is_fifo()) {
        Box::new(open_pipe(path, asked)?)
    } else {
        Box::new(plan.gate.lines(flag, path).map_err(Unopened::Refused)?)
    };
    if !header.is_empty() {
        writeln!(out, "{header}")?;
        out.flush()?;
    }
    Ok(Lines { form, name: path.display().to_string(), out })
}

/// Opens a named pipe as soon as somebody reads it; [`io::ErrorKind::Interrupted`] when the run is
/// asked to end before.
fn open_pipe(path: &Path, asked: &AtomicBool) -> io::Result<File> {
    let mut is_told = false;
    while !asked.load(Relaxed) {
        if let Some(pipe) = ioecho_linux::pipe::open_to_write(path)? {
            return Ok(pipe);
        }
        if !is_told {
            tell(&format!("waiting for a reader of {}", path.display()));
            is_told = true;
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(io::ErrorKind::Interrupted.into())
}

struct Writer {
    lines: Vec<Lines>,
    metrics: Option<Replaced>,
    about: About,
    board: Arc<Board>,
    /// The processors' ticks at the end of the last interval, and of the first.
    ticks: Option<Ticks>,
    first_ticks: Option<Ticks>,
    all_but_first: Interval,
    last: u64,
}

impl Writer {
    fn work(mut self) {
        // Whoever issues goes first.
        let _ = ioecho_linux::thread::stand_back();
        while let Some(interval) = self.board.next() {
            let shares = self.look_at_processors();
            self.last = interval.number;
            self.write(|form, about| match form {
                Form::Csv => Ok(csv::line(&interval)),
                Form::Json => json::line(&interval).map_err(io::Error::other),
                Form::Flatfile => Ok(flatfile::line(&interval, about, shares.as_ref())),
            });
            self.write_metrics(false);
            if interval.number > 1 && self.lines.iter().any(|lines| lines.form == Form::Flatfile) {
                self.all_but_first.merge(&interval);
            }
        }
        self.finish();
    }

    fn finish(mut self) {
        if self.all_but_first.number > 0 {
            let since = self.ticks.zip(self.first_ticks).and_then(|(now, first)| now.since(&first));
            let (average, last) = (std::mem::take(&mut self.all_but_first), self.last);
            self.lines.retain(|lines| lines.form == Form::Flatfile);
            self.write(|_, about| Ok(flatfile::average(&average, last, about, since.as_ref())));
        }
        self.write_metrics(true);
    }

    fn look_at_processors(&mut self) -> Option<Shares> {
        let now = Ticks::now();
        let shares = now.zip(self.ticks).and_then(|(now, before)| now.since(&before));
        self.ticks = now;
        self.first_ticks = self.first_ticks.or(now);
        shares
    }

    /// Writes a line to each file and gives up those that take none.
    fn write(&mut self, line: impl Fn(Form, &About) -> io::Result<String>) {
        let about = &self.about;
        self.lines.retain_mut(|lines| {
            let written = line(lines.form, about)
                .and_then(|line| writeln!(lines.out, "{line}"))
                .and_then(|()| lines.out.flush());
            if let Err(error) = &written
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                tell(&format!("warning: no more lines are written to {}: {error}", lines.name));
            }
            written.is_ok()
        });
    }

    fn write_metrics(&mut self, ended: bool) {
        let Some(file) = &self.metrics else { return };
        let whole = self.board.look().whole.clone();
        if let Err(error) = file.put(metrics::text(&whole, ended, &self.about).as_bytes()) {
            let name = file.path().display();
            tell(&format!("warning: no more metrics are written to {name}: {error}"));
            self.metrics = None;
        }
    }
}
