//! What of a run belongs to the program that is typed: its words, signals, lines, panels and pages.
//! What a run is stands in `ioecho_run`.

pub(crate) mod command;
pub(crate) mod labelled;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod recording;
pub(crate) mod screen;
pub(crate) mod signals;
