//! Every keyword of Vdbench's language, and what is done with it.
//!
//! A parameter file that is read by another program than it was written for must not lose anything
//! in silence. So each keyword stands here once: the section it belongs to, the word that our own
//! form has for it, what its value is, and whether it counts, is told and left aside, or is refused
//! with a reason and a remedy. Names and meanings: Vdbench's user guide 5.04.07 and experiments
//! with that version; the list is complete for the guide and for 144 published files.

use self::Does::{Counts, Refused, Told};
use self::Kind::{
    Band, Block, Commands, Flags, Free, Mix, Names, Number, Numbers, Part, Percent, Percents,
    Shares, Size, Sizes, Span, Spans, Switch, Text, Texts, Time,
};

/// The part of a file that a definition stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Section {
    /// What holds for everything.
    General,
    /// A host.
    Host,
    /// Devices of a recording, to be replayed.
    Replay,
    /// A device or a file.
    Storage,
    /// A load on storages.
    Work,
    /// A tree of files.
    Tree,
    /// A load on trees.
    FileWork,
    /// A run, or several in loops.
    Run,
}

impl Section {
    /// The section that a word begins, as Vdbench writes it.
    pub(super) fn begun_by(word: &str) -> Option<Self> {
        Some(match word {
            "hd" | "host" => Self::Host,
            "rg" => Self::Replay,
            "sd" => Self::Storage,
            "wd" => Self::Work,
            "fsd" => Self::Tree,
            "fwd" => Self::FileWork,
            "rd" => Self::Run,
            _ => return None,
        })
    }

    /// Its word in Vdbench's language; a general parameter has none.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Host => "hd",
            Self::Replay => "rg",
            Self::Storage => "sd",
            Self::Work => "wd",
            Self::Tree => "fsd",
            Self::FileWork => "fwd",
            Self::Run => "rd",
        }
    }

    /// Its keys.
    pub(super) fn keys(self) -> &'static [Key] {
        match self {
            Self::General => GENERAL,
            Self::Host => HOST,
            Self::Replay => REPLAY,
            Self::Storage => STORAGE,
            Self::Work => WORK,
            Self::Tree => TREE,
            Self::FileWork => FILE_WORK,
            Self::Run => RUN,
        }
    }

    /// All sections, in the order in which Vdbench wants them.
    pub(super) const ALL: [Self; 8] = [
        Self::General,
        Self::Host,
        Self::Replay,
        Self::Storage,
        Self::Tree,
        Self::Work,
        Self::FileWork,
        Self::Run,
    ];
}

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One text.
    Text,
    /// Several texts.
    Texts,
    /// One of these words, or the beginning of one.
    Switch(&'static [&'static str]),
    /// Any of these words.
    Flags(&'static [&'static str]),
    /// Names of definitions, with ranges and wildcards.
    Names,
    /// A whole number.
    Number,
    /// Whole numbers, one after the other.
    Numbers,
    /// A percentage.
    Percent,
    /// Percentages, one after the other.
    Percents,
    /// A number or a percentage of something.
    Part,
    /// A size.
    Size,
    /// A size, or a percentage of the target.
    Block,
    /// Sizes, one after the other.
    Sizes,
    /// Sizes with their shares, or least, most and step.
    Mix,
    /// Two sizes: from, to.
    Span,
    /// Two numbers: percentages, or bytes if they are above 200.
    Band,
    /// A span of time.
    Time,
    /// Rates: numbers, a list, `max`, `curve`, or pairs with seconds.
    Shares,
    /// Spans, counts, or words in a form of their own.
    Spans,
    /// A command and where it runs.
    Commands,
    /// Anything; the value is not used.
    Free,
}

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// It counts.
    Counts,
    /// It counts for nothing here, and that is told.
    Told(&'static str),
    /// It is refused: the reason and the remedy.
    Refused(&'static str, &'static str),
}

/// A keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its name in Vdbench's language.
    pub(super) name: &'static str,
    /// Its other names there.
    pub(super) others: &'static [&'static str],
    /// Its name in our own form. Keys that do not count have none.
    pub(super) ours: &'static str,
    /// What its value is.
    pub(super) kind: Kind,
    /// What is done with it.
    pub(super) does: Does,
    /// Whether it is a loop of a run.
    pub(super) loops: bool,
}

const fn key(name: &'static str, ours: &'static str, kind: Kind) -> Key {
    Key { name, others: &[], ours, kind, does: Counts, loops: false }
}

const fn also(key: Key, others: &'static [&'static str]) -> Key {
    Key { others, ..key }
}

const fn looped(name: &'static str, ours: &'static str, kind: Kind) -> Key {
    Key { loops: true, ..key(name, ours, kind) }
}

const fn told(name: &'static str, why: &'static str) -> Key {
    Key { name, others: &[], ours: "", kind: Free, does: Told(why), loops: false }
}

const fn refused(name: &'static str, why: &'static str, remedy: &'static str) -> Key {
    Key { name, others: &[], ours: "", kind: Free, does: Refused(why, remedy), loops: false }
}

/// Words for yes and no.
pub(super) const YES: &[&str] = &["yes", "no"];
/// How files are opened.
pub(super) const OPEN_FLAGS: &[&str] = &["o_direct", "directio", "o_sync", "o_dsync", "fsync"];
/// What is done to files.
pub(super) const OPERATIONS: &[&str] = &[
    "read", "write", "mkdir", "rmdir", "create", "delete", "open", "close", "getattr", "setattr",
    "access", "copy", "move",
];
/// How files are accessed.
pub(super) const FILE_IO: &[&str] = &["sequential", "sequentialnz", "random", "shared", "delete"];

const JAVA: &str = "it is about Java's machines, which are not needed here";
const THIS_HOST: &str = "everything runs on this host, without a remote shell";
const NOT_NEEDED: &str = "it has no meaning for this program";
const SOLARIS: &str = "it belongs to other systems than Linux";

const GENERAL: &[Key] = &[
    also(key("create_anchors", "create-anchors", Switch(YES)), &["create_anchor"]),
    key("data_errors", "data-errors", Spans),
    key("startcmd", "before", Commands),
    key("endcmd", "after", Commands),
    key("abort_failed_skew", "skew-error", Percent),
    key("timeout", "timeout", Spans),
    key("monitor", "monitor", Text),
    key("loop", "loop", Spans),
    key("fwd_thread_adjust", "thread-adjust", Switch(YES)),
    key("formatsds", "format-storages", Switch(YES)),
    key("formatxfersize", "format-size", Size),
    key("histogram", "histogram", Texts),
    key("report", "report", Texts),
    key("report_run_totals", "run-totals", Switch(YES)),
    key("messagescan", "messages", Text),
    key("compratio", "compress", Percents),
    key("compression", "compress-percent", Percent),
    key("compressionseed", "compress-seed", Text),
    key("dedupratio", "dedup", Percents),
    key("dedupunit", "dedup-unit", Size),
    key("dedupsets", "dedup-sets", Part),
    key("deduphotsets", "dedup-hot-sets", Numbers),
    key("dedupflipflop", "dedup-flip-flop", Switch(&["yes", "no", "hot"])),
    key("dedupacross", "dedup-across", Switch(YES)),
    told("dedupmaxkey", "contents are numbered without a limit"),
    key("pattern", "pattern", Text),
    told("pattern_buffer", "a pattern is used as long as its file is"),
    key("validate", "verify", Texts),
    key("journal", "journal", Texts),
    key("showlba", "requests", Switch(YES)),
    also(key("concatenatesds", "concatenate", Switch(YES)), &["concatenate"]),
    told("debug", "its numbers switch parts of another program"),
    told("port", "there are no connections"),
    told("ios_per_jvm", JAVA),
    told("heartbeat_error", "there are no connections that could break"),
    told("psrset", SOLARIS),
    told("auxreport", JAVA),
    told("unix2windows", SOLARIS),
    told("misc", NOT_NEEDED),
    told("swat", "Swat is a program that is not published"),
    told("kstat", SOLARIS),
    told("instance", SOLARIS),
    told("format", "a device is not formatted, and for trees it belongs to rd"),
];

const HOST: &[Key] = &[
    key("system", "system", Text),
    key("user", "user", Text),
    told("shell", THIS_HOST),
    told("vdbench", THIS_HOST),
    told("jvms", JAVA),
    told("master", THIS_HOST),
    refused("clients", "there are no clients that share a host", "write an hd for each"),
    refused("mount", "nothing is mounted here", "mount it before the run"),
];

const REPLAY: &[Key] = &[key("devices", "devices", Numbers)];

const STORAGE: &[Key] = &[
    key("lun", "path", Texts),
    also(key("host", "host", Names), &["hd"]),
    key("count", "count", Numbers),
    key("size", "size", Block),
    key("range", "range", Band),
    key("threads", "threads", Number),
    key("hitarea", "hit-area", Size),
    key("offset", "shift", Size),
    key("align", "align", Size),
    key("openflags", "open", Flags(OPEN_FLAGS)),
    key("journal", "journal", Text),
    key("replay", "replay", Texts),
    key("dedupratio", "dedup", Percents),
    key("dedupunit", "dedup-unit", Size),
    key("dedupsets", "dedup-sets", Part),
    key("deduphotsets", "dedup-hot-sets", Numbers),
    key("dedupflipflop", "dedup-flip-flop", Switch(&["yes", "no", "hot"])),
    told("kstat", SOLARIS),
    told("instance", SOLARIS),
    refused("resetlun", "it is a request of Solaris", "take it out"),
    refused("resetbus", "it is a request of Solaris", "take it out"),
    refused("streams", "streams belong to a load", "write streams= in the wd"),
];

/// A key of our own form alone: no parameter file can hold this name.
pub(super) const FROM: &str = "=from";

const WORK: &[Key] = &[
    key("sd", "on", Names),
    also(key("host", "host", Names), &["hd"]),
    key("skew", "skew", Percent),
    also(key("xfersize", "size", Mix), &["xfersizes"]),
    also(key("rdpct", "read", Percent), &["readpct"]),
    also(key("wrpct", "write", Percent), &["writepct"]),
    key("rhpct", "read-hits", Percent),
    key("whpct", "write-hits", Percent),
    key("seekpct", "seek", Texts),
    key("range", "range", Band),
    key("stride", "stride", Span),
    key("hotband", "band", Band),
    key("iorate", "rate", Number),
    key("priority", "priority", Number),
    key("threads", "threads", Number),
    key("streams", "streams", Number),
    key("openflags", "open", Flags(OPEN_FLAGS)),
    key(FROM, "from", Text),
    refused(
        "user",
        "generators of one's own are Java classes",
        "name any trace or generator with 'from' in the own form of this file",
    ),
];

const TREE: &[Key] = &[
    key("anchor", "anchor", Text),
    key("depth", "depth", Number),
    key("width", "width", Number),
    key("files", "files", Number),
    also(key("sizes", "sizes", Mix), &["size"]),
    key("distribution", "distribution", Switch(&["bottom", "all"])),
    key("totalsize", "total", Size),
    also(key("workingsetsize", "working-set", Size), &["wss"]),
    key("shared", "shared", Switch(YES)),
    key("mask", "mask", Texts),
    key("count", "count", Numbers),
    key("journal", "journal", Text),
    key("openflags", "open", Flags(OPEN_FLAGS)),
    refused("log", "it belongs to a store in a cloud", "take it out"),
    refused("cloud", "a store in a cloud has no files", "mount it, and name the mount in anchor="),
];

const FILE_WORK: &[Key] = &[
    key("fsd", "on", Names),
    also(key("host", "host", Names), &["hd"]),
    also(key("operation", "ops", Flags(OPERATIONS)), &["operations"]),
    key("target", "target", Names),
    key("fileio", "access", Flags(FILE_IO)),
    key("fileselect", "select", Texts),
    key("stopafter", "stop-after", Part),
    key("skew", "skew", Percent),
    key("threads", "threads", Number),
    also(key("xfersizes", "size", Mix), &["xfersize"]),
    also(key("rdpct", "read", Percent), &["readpct"]),
    key("openflags", "open", Flags(OPEN_FLAGS)),
];

const RUN: &[Key] = &[
    key("wd", "flows", Names),
    key("fwd", "file-flows", Names),
    key("sd", "storages", Names),
    key("iorate", "rate", Shares),
    key("fwdrate", "file-rate", Shares),
    key("curve", "curve", Percents),
    key("stopcurve", "stop-curve", Number),
    key("elapsed", "duration", Time),
    key("warmup", "warmup", Time),
    key("interval", "interval", Time),
    key("pause", "pause", Time),
    key("maxdata", "max-data", Size),
    also(key("maxdataread", "max-data-read", Size), &["maxdata_read"]),
    also(key("maxdatawritten", "max-data-written", Size), &["maxdata_written"]),
    key("distribution", "distribution", Texts),
    key("startcmd", "before", Commands),
    key("endcmd", "after", Commands),
    key("openflags", "open", Flags(OPEN_FLAGS)),
    key("format", "format", Flags(FORMATS)),
    key("replay", "replay", Texts),
    also(key("operations", "ops", Flags(OPERATIONS)), &["operation"]),
    told("create_anchors", "it is a general parameter"),
    refused("mount", "nothing is mounted here", "mount it before the run"),
    also(looped("forxfersize", "size", Sizes), &["xfersize", "forxfersizes", "xfersizes"]),
    also(looped("forthreads", "threads", Numbers), &["threads"]),
    also(looped("forrdpct", "read", Percents), &["rdpct"]),
    also(looped("forrhpct", "read-hits", Percents), &["rhpct"]),
    also(looped("forwhpct", "write-hits", Percents), &["whpct"]),
    also(looped("forseekpct", "seek", Texts), &["seekpct"]),
    also(looped("forhitarea", "hit-area", Sizes), &["hitarea"]),
    also(looped("forcompratio", "compress", Percents), &["compratio"]),
    refused("forcompression", "it is an older form", "write forcompratio=, a ratio"),
    refused("compression", "it is an older form", "write compratio=, a ratio"),
    also(looped("foroffset", "shift", Sizes), &[]),
    also(looped("foralign", "align", Sizes), &[]),
    also(looped("foroperations", "each-op", Flags(OPERATIONS)), &["foroperation"]),
    also(looped("fordepth", "depth", Numbers), &["depth"]),
    also(looped("forwidth", "width", Numbers), &["width"]),
    also(looped("forfiles", "files", Numbers), &["files"]),
    also(looped("forsizes", "sizes", Sizes), &["sizes", "size", "forsize"]),
    also(looped("fortotal", "total", Sizes), &["fortotalsize", "totalsize"]),
    also(looped("forwss", "working-set", Sizes), &["forworkingsetsize", "workingsetsize", "wss"]),
];

/// What is done to a tree before a run.
pub(super) const FORMATS: &[&str] =
    &["yes", "no", "only", "restart", "clean", "once", "directories", "limited", "complete"];

/// The key that a word means in a section: its name, or the beginning of just one of the names.
/// `Err` has the keys that it could mean.
pub(super) fn meant(section: Section, word: &str) -> Result<&'static Key, Vec<&'static str>> {
    let keys = section.keys();
    let names = |key: &'static Key| std::iter::once(key.name).chain(key.others.iter().copied());
    if let Some(key) = keys.iter().find(|key| names(key).any(|name| name == word)) {
        return Ok(key);
    }
    let begun: Vec<&Key> = keys
        .iter()
        .filter(|key| word.len() >= 2 && names(key).any(|name| name.starts_with(word)))
        .collect();
    match begun[..] {
        [key] => Ok(key),
        _ => Err(begun.iter().map(|key| key.name).collect()),
    }
}

/// Whether a word is the whole name of a key of a section.
pub(super) fn is_name(section: Section, word: &str) -> bool {
    section.keys().iter().any(|key| key.name == word || key.others.contains(&word))
}

/// The key of this name in our own form.
pub(super) fn ours(section: Section, word: &str, loops: bool) -> Option<&'static Key> {
    let mut keys = section.keys().iter();
    keys.find(|key| key.ours == word && key.loops == loops && !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_word_stands_for_two_keys_of_a_section() {
        for section in Section::ALL {
            let (mut names, mut ours) = (HashSet::new(), HashSet::new());
            for key in section.keys() {
                assert!(names.insert(key.name), "{} twice", key.name);
                assert!(key.others.iter().all(|other| names.insert(other)), "{}", key.name);
                let is_known = key.does == Counts;
                assert_eq!(is_known, !key.ours.is_empty(), "{}", key.name);
                assert!(!is_known || ours.insert((key.ours, key.loops)), "{}", key.ours);
            }
        }
    }

    #[test]
    fn the_shortest_unique_beginning_is_enough() {
        let name = |section, word| meant(section, word).map(|key| key.name);
        assert_eq!(name(Section::Storage, "th"), Ok("threads"));
        assert_eq!(name(Section::Work, "xf"), Ok("xfersize"));
        assert_eq!(name(Section::Run, "el"), Ok("elapsed"));
        assert_eq!(name(Section::Run, "io"), Ok("iorate"));
        assert_eq!(name(Section::Run, "dist"), Ok("distribution"));
        assert_eq!(name(Section::Tree, "file"), Ok("files"));
        assert_eq!(name(Section::Storage, "openflag"), Ok("openflags"));
        assert_eq!(name(Section::FileWork, "file"), Err(vec!["fileio", "fileselect"]));
        assert_eq!(name(Section::Run, "e"), Err(vec![]));
        assert_eq!(name(Section::Run, "dedupratio"), Err(vec![]));
    }
}
