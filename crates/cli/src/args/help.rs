//! The options that help shows first.
//!
//! A list of eighty options does not help a user who has a trace and a device. So `-h` of a command
//! shows the few options that such a user needs, with lines to copy. The other options are shown by
//! group (`ioecho help GROUP`), or all together (`--help`).

use clap::{Arg, Command};

/// The options that `-h` of a command shows, and examples of the command.
struct Help {
    command: &'static str,
    /// The options that `-h` shows. If the list is empty, `-h` shows all options but those that
    /// read and change a trace.
    few: &'static [&'static str],
    /// For each example, the purpose and the line to copy.
    examples: &'static [(&'static str, &'static str)],
}

const HELP: &[Help] = &[
    Help {
        command: "replay",
        few: &[
            "trace",
            "target",
            "output",
            "start",
            "duration",
            "timing",
            "speedup",
            "read_only",
            "destroy",
            "dry_run",
            "verify",
            "in_flight_max",
            "require",
            "live",
            "witness",
            "verbose",
        ],
        examples: &[
            (
                "Will this device take this load? (the reads alone: nothing is overwritten)",
                "ioecho replay sda.parquet --target /dev/nvme1n1 --read-only -o run1",
            ),
            (
                "Reads and writes, on a device whose data may go",
                "ioecho replay sda.parquet --target /dev/nvme1n1 --destroy /dev/nvme1n1",
            ),
            (
                "What would be done, and what overwritten",
                "ioecho replay sda.parquet --target /dev/nvme1n1 --dry-run",
            ),
            (
                "The busiest five minutes, twice as fast, with panels",
                "ioecho replay sda.parquet --target disk.img --busiest 5m --speedup 2 --live",
            ),
            (
                "Without any device: a simulated one",
                "ioecho replay sda.parquet --target sim:model=disk,size=1T",
            ),
        ],
    },
    Help {
        command: "record",
        few: &[],
        examples: &[
            ("A minute of a device", "ioecho record /dev/sda -o sda.parquet --for 60s"),
            ("While a command runs", "ioecho record /dev/sda -o sda.parquet -- make test"),
        ],
    },
    Help {
        command: "info",
        few: &[],
        examples: &[("What a trace holds", "ioecho info sda.blktrace.0")],
    },
    Help {
        command: "convert",
        few: &[],
        examples: &[
            ("To ioecho's own format", "ioecho convert sda.blktrace.0 sda.parquet"),
            ("The busiest hour", "ioecho convert week.parquet hour.parquet --busiest 1h"),
        ],
    },
    Help {
        command: "demo",
        few: &[],
        examples: &[("A replay and its page, without a device", "ioecho demo")],
    },
    Help {
        command: "prepare",
        few: &[],
        examples: &[
            ("Fill a device", "ioecho prepare /dev/nvme1n1"),
            ("A file of 64 GiB, made and filled", "ioecho prepare disk.img --size 64G"),
            (
                "Only where a load goes",
                "ioecho prepare /dev/nvme1n1 --part touched --trace sda.parquet",
            ),
            (
                "Only where its first hour goes",
                "ioecho prepare /dev/nvme1n1 --part touched --trace sda.parquet --duration 1h",
            ),
        ],
    },
    Help {
        command: "check",
        few: &[],
        examples: &[
            ("A run that had a witness", "ioecho check run1"),
            ("A replay by another program, as recorded", "ioecho check sda.parquet seen.parquet"),
        ],
    },
    Help {
        command: "verify",
        few: &[],
        examples: &[("Whether the target still holds what a run wrote", "ioecho verify run1")],
    },
    Help {
        command: "merge",
        few: &[],
        examples: &[(
            "Runs that went on together, as one system",
            "ioecho merge host1 host2 -o all",
        )],
    },
    Help {
        command: "analyze",
        few: &[],
        examples: &[
            ("What a load asks for", "ioecho analyze sda.parquet"),
            ("What a cache of a gigabyte would leave", "ioecho analyze sda.parquet --cache 1G"),
        ],
    },
    Help {
        command: "plot",
        few: &[],
        examples: &[
            ("Every picture of a run", "ioecho plot run1 -o pictures"),
            ("One, for a paper", "ioecho plot run1 --only g01.latency.realtime --to svg"),
        ],
    },
    Help {
        command: "depend",
        few: &[],
        examples: &[(
            "Which request waited for which, kept in the trace",
            "ioecho depend sda.parquet -o linked.parquet",
        )],
    },
    Help {
        command: "predict",
        few: &[],
        examples: &[(
            "How long a load would take on the device of a run",
            "ioecho predict sda.parquet --device run1",
        )],
    },
    Help {
        command: "fit",
        few: &[],
        examples: &[("A model of a load, for fio", "ioecho fit sda.parquet --fio sda.fio")],
    },
    Help {
        command: "calibrate",
        few: &[],
        examples: &[("The highest rate that this host can pace", "ioecho calibrate")],
    },
    Help {
        command: "explain",
        few: &[],
        examples: &[
            ("A check of a verdict", "ioecho explain lateness"),
            ("An exit code", "ioecho explain 10"),
        ],
    },
    Help {
        command: "library",
        few: &[],
        examples: &[
            ("Keep a load, with its origin", "ioecho library add loads sda.parquet"),
            ("Replay it", "ioecho replay loads#sda --target /dev/nvme1n1"),
        ],
    },
    Help {
        command: "run",
        few: &[],
        examples: &[
            ("What a parameter file of Vdbench would do", "ioecho run poc.vdb --dry-run"),
            ("Do it on simulated devices", "ioecho run poc.vdb --target '*=sim'"),
            ("Do it, with a value for its variable", "ioecho run poc.vdb lun=/dev/sdb"),
        ],
    },
    Help {
        command: "campaign",
        few: &[],
        examples: &[
            ("What a campaign would do", "ioecho campaign plan ssd.toml"),
            ("Do it, and go on after Ctrl-C or a crash", "ioecho campaign run ssd.toml"),
        ],
    },
    Help {
        command: "report",
        few: &[],
        examples: &[
            ("The page of a run", "ioecho report run1"),
            ("The page of a load", "ioecho report sda.parquet -o load.html"),
        ],
    },
    Help {
        command: "compare",
        few: &[],
        examples: &[
            ("Two systems under one load", "ioecho compare run1 run2 -o compare.html"),
            ("As a test", "ioecho compare old new --fail-if 'p99.read > +5%'"),
        ],
    },
];

/// Groups of options, each with the beginning of its heading.
const GROUPS: [(&str, &str); 10] = [
    ("transforms", "Transforms"),
    ("reading", "Reading"),
    ("timing", "Timing"),
    ("pacing", "Pacing"),
    ("safety", "Safety"),
    ("data", "Data"),
    ("engine", "Engine"),
    ("live", "While it runs"),
    ("proof", "Proof"),
    ("fetching", "Loads at an URL"),
];

/// Options of many commands that few need.
const RARE: [&str; 2] = ["Transforms", "Reading"];

/// The command line whose `-h` shows the options that most users need.
pub(super) fn few_first(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|of| of.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(&name, short))
}

fn short(command: Command) -> Command {
    let help = HELP.iter().find(|help| help.command == command.get_name());
    let few = help.map_or(&[][..], |help| help.few);
    let is_rare = |arg: &Arg| {
        if few.is_empty() {
            let heading = arg.get_help_heading().unwrap_or_default();
            RARE.iter().any(|rare| heading.starts_with(rare))
        } else {
            !few.contains(&arg.get_id().as_str())
        }
    };
    let mut hidden = false;
    let command = command.mut_args(|arg| {
        let rare = is_rare(&arg);
        hidden |= rare;
        // Clap shows help on lines of its own even for a hidden option, and `--help` has these
        // lines anyway.
        if rare { arg.hide_short_help(true).next_line_help(false) } else { arg }
    });
    let mut text = examples(command.get_name()).map_or(String::new(), |text| format!("{text}\n"));
    if hidden {
        let groups: Vec<&str> = GROUPS.iter().map(|(group, _)| *group).collect();
        let groups =
            if few.is_empty() { "transforms, reading".to_owned() } else { groups.join(", ") };
        let more =
            format!("More options: `ioecho help GROUP` ({groups}),\nor all of them: --help\n");
        text.push_str(&more);
    }
    if text.is_empty() { command } else { command.after_help(text) }
}

/// The examples of a command, as help shows them.
fn examples(command: &str) -> Option<String> {
    let help = HELP.iter().find(|help| help.command == command)?;
    let told = help.examples.iter().map(|(what, line)| format!("  {what}:\n    {line}\n"));
    Some(format!("Examples:\n{}", told.collect::<String>()))
}

/// The examples of a command: the purpose of each, and the line.
pub(crate) fn examples_of(command: &str) -> &'static [(&'static str, &'static str)] {
    HELP.iter().find(|help| help.command == command).map_or(&[], |help| help.examples)
}

/// The help on the options of a group, or `None` if no group has this name. `replay` has the
/// options of all groups.
pub(super) fn of_group(word: &str) -> Option<String> {
    let (_, heading) = GROUPS.iter().find(|(group, _)| *group == word)?;
    let mut line = super::Args::line();
    line.build();
    let replay = line.find_subcommand("replay")?.clone();
    let is_shown = |arg: &Arg| arg.get_help_heading().is_some_and(|of| of.starts_with(heading));
    let mut group = replay
        .mut_args(|arg| {
            let hide = !is_shown(&arg);
            arg.hide(hide)
        })
        .after_long_help("")
        .after_help("")
        .help_template("{all-args}");
    Some(group.render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_help_names_is_there() {
        let line = super::super::Args::line();
        for Help { command, few, .. } in HELP {
            let command = line.find_subcommand(command).unwrap();
            for name in *few {
                let is_there = command.get_arguments().any(|arg| arg.get_id() == *name);
                assert!(is_there || *name == "live", "{name}");
            }
        }
    }

    #[test]
    fn every_group_has_options_and_every_heading_of_replay_a_group() {
        for (group, heading) in GROUPS {
            let text = of_group(group).unwrap();
            assert!(text.contains("--") && text.contains(heading), "{group}: {text}");
        }
        assert_eq!(of_group("nothing"), None);
        let line = super::super::Args::line();
        let replay = line.find_subcommand("replay").unwrap();
        for heading in replay.get_arguments().filter_map(Arg::get_help_heading) {
            assert!(GROUPS.iter().any(|(_, of)| heading.starts_with(of)), "{heading}");
        }
    }

    #[test]
    fn the_examples_are_command_lines() {
        for Help { examples, .. } in HELP {
            for (_, line) in *examples {
                let words = line.replace('\'', "");
                let words: Vec<&str> = if line.contains('\'') {
                    vec!["ioecho", "compare", "a", "b", "--fail-if", "p99.read > +5%"]
                } else {
                    words.split(' ').collect()
                };
                let typed = super::super::Args::line().try_get_matches_from(words);
                assert!(typed.is_ok() || line.contains("--live"), "{line}: {typed:?}");
            }
        }
    }

    #[test]
    fn the_short_help_of_a_replay_fits_on_a_screen_or_two() {
        let mut line = super::super::Args::line();
        line.build();
        let text = line.find_subcommand("replay").unwrap().clone().render_help().to_string();
        assert!(text.lines().count() < 80, "{text}");
        let options = text.lines().filter(|line| line.trim_start().starts_with('-')).count();
        assert!((12..=20).contains(&options), "{options}: {text}");
    }
}
