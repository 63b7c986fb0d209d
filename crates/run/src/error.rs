//! The errors of a run, and their kinds.
//!
//! A person reads why a run failed. A program that started the run needs more than text: whether to
//! try again, what to report to a script, whether a user's data are in danger. So an error gets a
//! kind where it is made, and the program that ends a process maps kinds to exit codes.

use std::error::Error;
use std::fmt;
use std::io;

use ioecho_linux::record::RecordError;
use ioecho_linux::{DeviceError, TargetError};
use ioecho_report::ReportError;
use ioecho_trace::TraceError;
use ioecho_trace::wording::{Named, Wording};

/// A result with an error of a run.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An error without a more specific kind.
    Failure,
    /// The request makes no sense.
    Usage,
    /// A trace, or the result of a run, cannot be read or does not exist.
    Trace,
    /// A target cannot be used.
    Target,
    /// A target is in use or may hold a user's data; nothing was changed.
    Refused,
    /// Results cannot be written.
    Output,
    /// A URL cannot be fetched.
    Fetch,
    /// The run ended early, or is still going on.
    Incomplete,
    /// The device lost or altered data that were written to it.
    DataDamaged,
    /// A load differs from what its library states.
    NotAsPublished,
    /// Runs that are not parts of one run, or cannot be compared.
    NotComparable,
    /// The kernel cannot record on this host, or does not permit it to this user.
    CannotRecord,
}

/// An error: its text, its kind and its cause.
#[derive(Debug)]
pub struct RunError {
    kind: Kind,
    /// `None` if the cause is text enough.
    text: Option<Wording>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl RunError {
    /// An error with a text that states file, place and remedy.
    pub fn new(kind: Kind, text: impl Into<Wording>) -> Self {
        Self { kind, text: Some(text.into()), cause: None }
    }

    /// An error with a text and a remedy.
    pub fn with_help(kind: Kind, text: impl Into<Wording>, help: impl Into<Wording>) -> Self {
        Self::new(kind, text.into().text("\n  = help: ").and(help))
    }

    /// The same error, as the cause of a failed larger operation.
    #[must_use]
    pub fn within(self, text: impl Into<Wording>) -> Self {
        Self { kind: self.kind, text: Some(text.into()), cause: Some(Box::new(self)) }
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The cause of this type, if there is one.
    pub fn cause<E: Error + 'static>(&self) -> Option<&E> {
        let cause: &(dyn Error + 'static) = &**self.cause.as_ref()?;
        cause.downcast_ref::<E>().or_else(|| cause.downcast_ref::<Self>()?.cause())
    }

    fn by(kind: Kind, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { kind, text: None, cause: Some(Box::new(cause)) }
    }
}

impl fmt::Display for RunError {
    /// The error's own text; in the alternate form also its causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.text, &self.cause) {
            _ if f.alternate() => f.write_str(&sentence(self, &Named::to_string)),
            (Some(text), _) => text.fmt(f),
            (None, Some(cause)) => cause.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let cause: &(dyn Error + 'static) = &**self.cause.as_ref()?;
        if self.text.is_some() { Some(cause) } else { cause.source() }
    }
}

/// An error and its causes, each only once, because many errors quote their cause themselves.
/// `write` writes the settings and commands that remedies name.
pub fn sentence(error: &(dyn Error + 'static), write: &dyn Fn(&Named) -> String) -> String {
    let mut text = written(error, write);
    let mut next = error.source();
    while let Some(cause) = next {
        let said = written(cause, write);
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// An error without its causes.
fn written(error: &(dyn Error + 'static), write: &dyn Fn(&Named) -> String) -> String {
    if let Some(trace) = error.downcast_ref::<TraceError>() {
        return trace.written(write);
    }
    match error.downcast_ref() {
        Some(RunError { text: Some(text), .. }) => text.written(write),
        Some(RunError { cause: Some(cause), .. }) => written(&**cause, write),
        _ => error.to_string(),
    }
}

impl From<&TraceError> for Kind {
    fn from(error: &TraceError) -> Self {
        match error {
            TraceError::Write { .. } => Self::Output,
            TraceError::UnknownOutput { .. }
            | TraceError::NoOutput { .. }
            | TraceError::Asked { .. } => Self::Usage,
            TraceError::Stopped => Self::Incomplete,
            _ => Self::Trace,
        }
    }
}

impl From<&TargetError> for Kind {
    fn from(error: &TargetError) -> Self {
        match error {
            TargetError::Busy { .. } | TargetError::Locked { .. } | TargetError::Changed { .. } => {
                Self::Refused
            }
            _ => Self::Target,
        }
    }
}

impl From<&RecordError> for Kind {
    /// The kind of a recording's error at its start.
    fn from(error: &RecordError) -> Self {
        match error {
            RecordError::Target(_)
            | RecordError::Missing { .. }
            | RecordError::NoBlockDevice { .. } => Self::Target,
            RecordError::NoDevice
            | RecordError::Twice { .. }
            | RecordError::Buffer { .. }
            | RecordError::Reserve { .. } => Self::Usage,
            RecordError::Traced { .. } | RecordError::OnRecorded { .. } => Self::Refused,
            RecordError::Output { .. } => Self::Output,
            RecordError::Unavailable { .. } | RecordError::System { .. } => Self::CannotRecord,
        }
    }
}

impl From<TraceError> for RunError {
    fn from(error: TraceError) -> Self {
        Self::by(Kind::from(&error), error)
    }
}

impl From<TargetError> for RunError {
    fn from(error: TargetError) -> Self {
        Self::by(Kind::from(&error), error)
    }
}

impl From<RecordError> for RunError {
    fn from(error: RecordError) -> Self {
        Self::by(Kind::from(&error), error)
    }
}

impl From<DeviceError> for RunError {
    fn from(error: DeviceError) -> Self {
        Self::by(Kind::Target, error)
    }
}

impl From<ReportError> for RunError {
    fn from(error: ReportError) -> Self {
        Self::by(Kind::Output, error)
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::by(Kind::Failure, error)
    }
}

impl From<serde_json::Error> for RunError {
    fn from(error: serde_json::Error) -> Self {
        Self::by(Kind::Failure, error)
    }
}

impl From<toml::ser::Error> for RunError {
    fn from(error: toml::ser::Error) -> Self {
        Self::by(Kind::Failure, error)
    }
}

impl From<toml::de::Error> for RunError {
    fn from(error: toml::de::Error) -> Self {
        Self::by(Kind::Failure, error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_says_each_cause_once() {
        let full = TraceError::write(Path::new("x"), io::ErrorKind::StorageFull.into());
        let told = full.to_string();
        let error = RunError::from(full);
        assert_eq!((error.kind(), error.to_string()), (Kind::Output, told.clone()));
        let within = error.within("the run");
        assert_eq!((within.kind(), within.to_string()), (Kind::Output, "the run".to_owned()));
        assert_eq!(format!("{within:#}"), format!("the run: {told}"));
        let own = RunError::new(Kind::Usage, "odd");
        assert_eq!((own.kind(), format!("{own:#}")), (Kind::Usage, "odd".to_owned()));
    }

    #[test]
    fn a_target_in_use_is_refused_and_one_that_is_not_there_cannot_be_used() {
        let path = || "/dev/sdx".into();
        let kind = |error: TargetError| RunError::from(error).kind();
        assert_eq!(kind(TargetError::Busy { path: path() }), Kind::Refused);
        assert_eq!(kind(TargetError::Locked { path: path() }), Kind::Refused);
        assert_eq!(kind(TargetError::Missing { path: path() }), Kind::Target);
    }
}
