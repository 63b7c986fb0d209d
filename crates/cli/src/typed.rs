//! Turns settings into flags.
//!
//! The libraries name the setting that a user should change, and know nothing of a command line
//! (`ioecho_trace::wording`). Here a setting becomes its flag, and a command a line that can be
//! copied.

use std::error::Error;

use ioecho_run::error;
use ioecho_trace::wording::Named;

/// The flag or command for a name.
pub(crate) fn typed(named: &Named) -> String {
    match named {
        Named::Setting { name, value } if value.is_empty() => format!("--{name}"),
        Named::Setting { name, value } => format!("--{name} {value}"),
        Named::Command { name, of } if of.is_empty() => format!("`ioecho {name}`"),
        Named::Command { name, of } => format!("`ioecho {name} {of}`"),
    }
}

/// An error with its causes, and with flags in the place of settings.
pub(crate) fn sentence(error: &(dyn Error + 'static)) -> String {
    error::sentence(error, &typed)
}

#[cfg(test)]
mod tests {
    use ioecho_run::error::{Kind, RunError};
    use ioecho_trace::TraceError;
    use ioecho_trace::wording::Wording;

    use super::*;

    #[test]
    fn a_remedy_is_told_as_it_is_typed() {
        let remedy = Wording::from("say ").set("event", "D").text(" or ask ").command("info", "x");
        let (path, reason) = ("x".into(), "none".into());
        let error = RunError::from(TraceError::Asked { path, reason, remedy });
        let told = "x: none\n  = help: say --event D or ask `ioecho info x`";
        assert_eq!(sentence(&error), told);
        assert_eq!(sentence(&error.within("here")), format!("here: {told}"));
        let own = Wording::from("leave out ").setting("strict");
        assert_eq!(sentence(&RunError::new(Kind::Usage, own)), "leave out --strict");
    }
}
