//! The parts of a run that belong to this program: its command line, signals, lines, panels and
//! pages. The run itself is in `ioecho_run`.

pub(crate) mod command;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod recording;
pub(crate) mod screen;
pub(crate) mod signals;
