//! How a user describes a text whose format has no name.

use std::sync::Arc;

use ioecho_trace::formats::{Description, DescriptionError, Separator, Words};

/// The description of the lines of a text.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DescribedArgs {
    /// Read any delimited text: its columns in order, with their units, such as
    /// 'ts:us:unix,vol,op,offset:sectors,length:bytes,-,latency:us' (docs/import.md says all)
    #[arg(
        long,
        value_name = "LIST",
        value_parser = columns,
        allow_hyphen_values = true,
        group = "described",
        conflicts_with = "format",
        help_heading = "Reading"
    )]
    columns: Option<Description>,

    #[arg(
        long,
        help = "Read any text of lines: a regular expression with groups named like columns, such \
                as '(?<ts_us>\\d+) (?<op>\\w) (?<offset_sectors>\\d+)\\+(?<length_bytes>\\d+)'",
        value_name = "REGEX",
        value_parser = pattern,
        group = "described",
        conflicts_with_all = ["format", "columns"],
        help_heading = "Reading"
    )]
    pattern: Option<Description>,

    /// For --columns: what stands between them, one mark or tab or blank [default: guessed]
    #[arg(
        long,
        value_name = "MARK",
        requires = "columns",
        allow_hyphen_values = true,
        help_heading = "Reading"
    )]
    separator: Option<Separator>,

    /// For --columns and --pattern: which word says which operation, such as
    /// '0=read/1=write/2=skip'; or one operation for all lines, such as 'read'
    #[arg(long, value_name = "WORDS", requires = "described", help_heading = "Reading")]
    ops: Option<Words>,
}

impl DescribedArgs {
    /// The description that these options make together, if there is one.
    pub(crate) fn description(&self) -> Option<Arc<Description>> {
        let mut description = self.columns.clone().or(self.pattern.clone())?;
        if let Some(separator) = self.separator {
            description = description.separated_by(separator);
        }
        if let Some(words) = &self.ops {
            description = description.with_words(words.clone());
        }
        Some(Arc::new(description))
    }
}

fn columns(text: &str) -> Result<Description, DescriptionError> {
    Description::columns(text)
}

fn pattern(text: &str) -> Result<Description, DescriptionError> {
    Description::pattern(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Args, Command};

    fn described(arguments: &[&str]) -> Result<bool, String> {
        let all = ["ioecho", "info", "x"].iter().chain(arguments);
        match Args::try_parse_from(all).map_err(|error| error.to_string())?.command {
            Command::Info(info) => Ok(info.read.options().described.is_some()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_description_becomes_an_option_of_reading_and_a_bad_one_is_shown_with_its_place() {
        let columns = "ts:us,op,offset:sectors,length:bytes";
        assert_eq!(described(&[]), Ok(false));
        assert_eq!(described(&["--columns", columns, "--separator", ";"]), Ok(true));
        assert_eq!(described(&["--columns", columns, "--ops", "0=read/1=write"]), Ok(true));
        let error = described(&["--columns", "ts:us,op,offset:feet,length:bytes"]).unwrap_err();
        assert!(error.contains("| ts:us,op,offset:feet,length:bytes\n"), "{error}");
        assert!(error.contains("|                 ^^^^\n"), "{error}");
        assert!(described(&["--separator", ";"]).is_err());
        assert!(described(&["--ops", "0=read/1=write"]).is_err());
        let pattern = r"(?<ts_us>\d+) (?<op>\w) (?<offset_sectors>\d+) (?<length_bytes>\d+)";
        assert_eq!(described(&["--pattern", pattern, "--ops", "0=read/1=write"]), Ok(true));
        assert!(described(&["--columns", columns, "--format", "blkreplay"]).is_err());
    }
}
