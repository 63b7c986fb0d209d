//! Requests whose recorder knew no more than the second.
//!
//! Some traces say the second of a request and nothing finer. Where in that second it was issued
//! is then invented, whatever one does; leaving all of them at its beginning invents a burst. So
//! it is the user's choice, and it stands in the header of what is made of the trace.

/// What to do with instants that are whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WholeSeconds {
    /// Nobody chose: they stay as they are, which is told with what can be chosen.
    #[default]
    Unchosen,
    /// Refuse such a trace, because nobody chose and what comes of it would be taken for real.
    Refuse,
    /// At equal distances over the second.
    Even,
    /// At random instants of the second, as independent arrivals have them (seeded, the same every
    /// time).
    Poisson,
    /// All at the beginning of the second.
    Burst,
}
