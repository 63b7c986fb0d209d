//! The words of choices, which belong to the crate that owns the choice, with their meanings.
//!
//! An enum of the command line's own for each choice is a second list of the same words, and one of
//! the two is forgotten when a word joins.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ioecho_linux::record::InterfaceChoice;
use ioecho_trace::formats::{IssueEvent, WholeSeconds};

/// Takes one of `all` by its name.
pub(super) fn words<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    meaning: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    words_or(all, name, |_| None, meaning)
}

/// Takes one of `all` by its name, or by its other name, which no help shows.
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

/// The event that a trace is read by, by blktrace's letters.
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

/// The event that a recording is made by: whoever records says which.
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

/// Where in its second to put a request of which no more is known.
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
