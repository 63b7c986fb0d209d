//! The words of choices, with their meanings. The words belong to the crate that owns the choice.
//!
//! If the command line had an enum of its own for each choice, there would be two lists of the same
//! words, and a new word would be missing in one of them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ioecho_linux::record::{Events, InterfaceChoice};
use ioecho_trace::formats::{IssueEvent, WholeSeconds};

/// Parses the name of one of `all`.
pub(super) fn words<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    meaning: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    words_or(all, name, |_| None, meaning)
}

/// Parses the name of one of `all`, or its alias. Help does not show the alias.
fn words_or<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    alias: fn(T) -> Option<&'static str>,
    meaning: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let shown = |one: &T| PossibleValue::new(name(*one)).help(meaning(*one)).aliases(alias(*one));
    PossibleValuesParser::new(all.iter().map(shown)).try_map(move |word| {
        let is_it = |one: &T| name(*one) == word || alias(*one) == Some(&*word);
        all.iter().copied().find(is_it).ok_or("there is no such word")
    })
}

/// The event by which a trace is read, in blktrace's letters.
pub(super) fn letter() -> impl TypedValueParser<Value = IssueEvent> {
    let small = |event| match event {
        IssueEvent::Auto => None,
        IssueEvent::Queued => Some("q"),
        IssueEvent::Inserted => Some("i"),
        IssueEvent::Issued => Some("d"),
    };
    words_or(&IssueEvent::ALL, IssueEvent::letter, small, |event| match event {
        IssueEvent::Auto => "Q if there is one, else I, else D",
        IssueEvent::Queued => "Queued: as the file system or application sent it",
        IssueEvent::Inserted => "Inserted into the I/O scheduler's queue",
        IssueEvent::Issued => "Issued to the driver, after merging and scheduling",
    })
}

/// The event by which a recording is made. Here the user must choose one, so `auto` is missing.
pub(super) fn event() -> impl TypedValueParser<Value = IssueEvent> {
    let [_, recorded @ ..] = &IssueEvent::ALL;
    words_or(
        recorded,
        IssueEvent::name,
        |event| Some(event.letter()),
        |event| match event {
            IssueEvent::Auto => "The first of the others that is there",
            IssueEvent::Queued => "As the file system or application sent it",
            IssueEvent::Inserted => "As it came into the I/O scheduler's queue",
            IssueEvent::Issued => "As the driver got it, after merging and scheduling",
        },
    )
}

/// Which events the kernel records.
pub(super) fn events() -> impl TypedValueParser<Value = Events> {
    words(&Events::CHOICES, Events::name, |events| match events {
        Events::Needed => "Those that tell which requests there were and how long they took",
        Events::All => "Also insertions, remaps and merges of whole requests",
    })
}

/// The place of a request within its second, if only the second is known.
pub(super) fn whole_seconds() -> impl TypedValueParser<Value = WholeSeconds> {
    words(&WholeSeconds::CHOICES, WholeSeconds::name, |place| match place {
        WholeSeconds::Unchosen => "Where it is, with a warning",
        WholeSeconds::Refuse => "Nowhere: such a trace is refused",
        WholeSeconds::Even => "At equal distances over the second",
        WholeSeconds::Poisson => "At random, as independent arrivals are",
        WholeSeconds::Burst => "All at its beginning",
    })
}

/// An interface of the kernel.
pub(super) fn interface() -> impl TypedValueParser<Value = InterfaceChoice> {
    words(&InterfaceChoice::ALL, InterfaceChoice::name, |interface| match interface {
        InterfaceChoice::Auto => "Tracefs where it can be used, blktrace otherwise",
        InterfaceChoice::Tracefs => "The block tracepoints, in a trace instance of its own",
        InterfaceChoice::Blktrace => "The ioctls of blktrace, where the kernel is not locked down",
    })
}
