//! `smart`: what the disks tell of themselves, before and after the replays of a cell.
//!
//! A disk that fails, a cable that loses words and a drive that throttles itself because it is hot
//! all look like a slow device. Disks count such things. Their counters are read before and after,
//! kept with the results, and told where they differ.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong, below};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "smart",
    keys: Keys::These(&["devices"]),
    every: Every::Cell,
    read: |given| Ok(Box::new(Smart::read(given)?)),
};

/// The bits of smartctl's exit code that mean that nothing was read: a command line or a device
/// that it does not understand. All others tell something about the disk.
const NOT_READ: i32 = 0b11;

/// The freezing point of water, which drives state as this number of kelvins.
const ZERO_CELSIUS_K: i64 = 273;

/// Where a figure stands in what a tool prints.
#[derive(Clone, Copy)]
enum Source {
    /// At this place.
    At(&'static str),
    /// At this place, in kelvins.
    Kelvin(&'static str),
    /// The raw value of the ATA attribute of this number.
    Attribute(u64),
}

/// A figure that says something about a disk or a result: its name, its unit, and where it stands.
type Figure = (&'static str, &'static str, &'static [Source]);

/// The figures that are compared. Places without a prefix are those of `nvme smart-log`.
const FIGURES: [Figure; 15] = [
    (
        "media errors",
        "",
        &[
            Source::At("/nvme_smart_health_information_log/media_errors"),
            Source::At("/media_errors"),
        ],
    ),
    ("CRC errors", "", &[Source::Attribute(199)]),
    ("reported uncorrectable errors", "", &[Source::Attribute(187)]),
    ("reallocated sectors", "", &[Source::Attribute(5)]),
    ("pending sectors", "", &[Source::Attribute(197)]),
    ("uncorrectable sectors", "", &[Source::Attribute(198)]),
    ("grown defects", "", &[Source::At("/scsi_grown_defect_list")]),
    (
        "uncorrected read errors",
        "",
        &[Source::At("/scsi_error_counter_log/read/total_uncorrected_errors")],
    ),
    (
        "uncorrected write errors",
        "",
        &[Source::At("/scsi_error_counter_log/write/total_uncorrected_errors")],
    ),
    (
        "errors in the log",
        "",
        &[
            Source::At("/nvme_smart_health_information_log/num_err_log_entries"),
            Source::At("/num_err_log_entries"),
            Source::At("/ata_smart_error_log/extended/count"),
            Source::At("/ata_smart_error_log/summary/count"),
        ],
    ),
    (
        "critical warnings",
        "",
        &[
            Source::At("/nvme_smart_health_information_log/critical_warning"),
            Source::At("/critical_warning"),
        ],
    ),
    (
        "minutes too hot",
        "",
        &[
            Source::At("/nvme_smart_health_information_log/warning_temp_time"),
            Source::At("/warning_temp_time"),
        ],
    ),
    (
        "percentage used",
        " %",
        &[
            Source::At("/nvme_smart_health_information_log/percentage_used"),
            Source::At("/endurance_used/current_percent"),
            Source::At("/scsi_percentage_used_endurance_indicator"),
            Source::At("/percent_used"),
            Source::At("/percentage_used"),
        ],
    ),
    (
        "available spare",
        " %",
        &[
            Source::At("/nvme_smart_health_information_log/available_spare"),
            Source::At("/avail_spare"),
        ],
    ),
    ("temperature", " °C", &[Source::At("/temperature/current"), Source::Kelvin("/temperature")]),
];

/// What a disk told: by the tool, the whole of it.
type Told = BTreeMap<&'static str, Value>;

/// What all disks told, by their paths.
type Reading = BTreeMap<String, Told>;

struct Smart {
    name: String,
    /// The disks that the user names.
    named: Vec<String>,
    limit: std::time::Duration,
    /// What was read last.
    last: RefCell<Reading>,
}

impl Source {
    fn find(self, told: &Value) -> Option<i64> {
        match self {
            Self::At(place) => whole(told.pointer(place)?),
            Self::Kelvin(place) => Some(whole(told.pointer(place)?)? - ZERO_CELSIUS_K),
            Self::Attribute(number) => {
                let all = told.pointer("/ata_smart_attributes/table")?.as_array()?;
                let is_it = |one: &&Value| one.get("id").and_then(Value::as_u64) == Some(number);
                whole(all.iter().find(is_it)?.pointer("/raw/value")?)
            }
        }
    }
}

/// A number. Some versions of the tools write large ones as texts.
fn whole(value: &Value) -> Option<i64> {
    let text = || value.as_str().and_then(|text| text.parse().ok());
    value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)).or_else(text)
}

/// The figures of a disk, by their numbers in [`FIGURES`].
fn figures(told: &Told) -> BTreeMap<usize, i64> {
    let find = |sources: &[Source]| {
        told.values().find_map(|told| sources.iter().find_map(|source| source.find(told)))
    };
    let found = FIGURES.iter().enumerate().map(|(at, (_, _, sources))| (at, find(sources)));
    found.filter_map(|(at, value)| Some((at, value?))).collect()
}

/// Whether a disk says of itself that it is failing.
fn is_failing(told: &Told) -> bool {
    let passed = |told: &Value| told.pointer("/smart_status/passed").and_then(Value::as_bool);
    told.values().any(|told| passed(told) == Some(false))
}

/// In what two readings differ: a line for each disk of which something is to be told.
fn differences(before: &Reading, after: &Reading) -> Vec<String> {
    let mut lines = Vec::new();
    for (disk, now) in after {
        let mut words = Vec::new();
        if is_failing(now) {
            words.push("it says that it is failing".to_owned());
        }
        let then = before.get(disk).map(figures).unwrap_or_default();
        for (at, value) in figures(now) {
            let (name, unit, _) = FIGURES[at];
            match then.get(&at) {
                Some(earlier) if *earlier == value => {}
                Some(earlier) => words.push(format!("{name} {earlier} → {value}{unit}")),
                None => words.push(format!("{name} {value}{unit} (not told before)")),
            }
        }
        if !words.is_empty() {
            lines.push(format!("{disk}: {}", words.join(", ")));
        }
    }
    lines
}

impl Smart {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let named = given.list("devices")?.unwrap_or_default();
        if let Some(path) = named.iter().find(|path| !path.starts_with("/dev/")) {
            let reason = format!("'{path}' is no path of a disk");
            return Err(Wrong::new("devices", reason, "write devices = [\"/dev/sda\"]"));
        }
        let (name, limit, last) = (given.name.clone(), given.limit()?, RefCell::default());
        Ok(Self { name, named, limit, last })
    }

    /// The paths of the disks: those that are named, or those below the volumes.
    fn disks(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Vec<String>> {
        if !self.named.is_empty() {
            return Ok(self.named.clone());
        }
        let mut disks: Vec<String> = Vec::new();
        for volume in on {
            if volume.kind != Kind::Block {
                let path = &volume.path;
                let text = format!(
                    "{path} is no block device, and has no disk that could be asked\n  = help: \
                     put it below the file system, or name the disks: devices = [\"/dev/sda\"]"
                );
                return Err(Fault::Refused(text));
            }
            let below = below::disks(ground, volume).into_iter().map(|it| format!("/dev/{it}"));
            for disk in below {
                if !disks.contains(&disk) {
                    disks.push(disk);
                }
            }
        }
        if disks.is_empty() {
            return Err(Fault::Refused("there is no volume below it in the stack".to_owned()));
        }
        Ok(disks)
    }

    /// The commands that ask a disk, by their tools: what is there of them.
    fn commands(&self, ground: &dyn Ground, disk: &str) -> Result<Vec<(&'static str, Command)>> {
        let is_nvme = disk.starts_with("/dev/nvme");
        let mut commands = Vec::new();
        if ground.has_program("smartctl") {
            commands.push(("smartctl", Command::new(["smartctl", "-j", "-x", disk])));
        }
        if is_nvme && ground.has_program("nvme") {
            commands.push(("nvme", Command::new(["nvme", "smart-log", disk, "-o", "json"])));
        }
        if commands.is_empty() {
            let or = if is_nvme { " (or 'nvme')" } else { "" };
            let text = format!(
                "the program 'smartctl'{or} is missing, and nothing else asks {disk}\n  = help: \
                 install smartmontools"
            );
            return Err(Fault::Lacking(text));
        }
        let limited = |(tool, command): (&'static str, Command)| (tool, command.within(self.limit));
        Ok(commands.into_iter().map(limited).collect())
    }

    /// What all disks tell now.
    fn ask(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Reading> {
        let mut reading = Reading::new();
        for disk in self.disks(ground, on)? {
            let mut told = Told::new();
            for (tool, command) in self.commands(ground, &disk)? {
                told.insert(tool, ask_disk(ground, tool, &command)?);
            }
            reading.insert(disk, told);
        }
        Ok(reading)
    }
}

/// What a tool tells of a disk.
fn ask_disk(ground: &dyn Ground, tool: &str, command: &Command) -> Result<Value> {
    let output = ground.ask(command)?;
    let told: Option<Value> = serde_json::from_str(&output.stdout).ok();
    let is_read = match (tool, output.code) {
        ("smartctl", Some(code)) => code & NOT_READ == 0,
        (_, code) => code == Some(0),
    };
    match told {
        Some(told) if is_read => Ok(told),
        Some(told) => {
            let message = told.pointer("/smartctl/messages/0/string").and_then(Value::as_str);
            let text = match message {
                Some(message) => format!("{command}: {message}"),
                None => output.good(command).err().map(|it| it.to_string()).unwrap_or_default(),
            };
            Err(Fault::Failed(text))
        }
        None if is_read => Err(Fault::Failed(format!("{command}: what it prints is no JSON"))),
        None => Err(output.good(command).err().unwrap_or(Fault::Stopped)),
    }
}

/// A reading as a text to be kept.
fn kept(reading: &Reading) -> String {
    // Texts and JSON always have a form in JSON.
    serde_json::to_string_pretty(reading).unwrap_or_default() + "\n"
}

impl Module for Smart {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let mut does = Vec::new();
        let are_there = on.iter().all(|volume| volume.is_there) || !self.named.is_empty();
        for disk in self.disks(ground, on)? {
            for (_, command) in self.commands(ground, &disk)? {
                does.push(format!("{command}, before and after"));
            }
        }
        if ground.may_ask() && are_there {
            // A disk that does not answer is found now, not on Sunday.
            self.ask(ground, on).map_err(|fault| Fault::Lacking(fault.to_string()))?;
        }
        Ok(Outlook { does, volumes: on.to_vec(), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        // Asking changes nothing, so there is nothing to note.
        *self.last.borrow_mut() = self.ask(ledger.ground(), on)?;
        Ok(on.to_vec())
    }

    fn collect(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Vec<(String, String)>> {
        let after = self.ask(ground, on)?;
        let before = self.last.replace(after.clone());
        let differences = differences(&before, &after);
        for line in &differences {
            ground.tell(&format!("    {}: {line}", self.name));
        }
        let mut text = differences.join("\n");
        if text.is_empty() {
            "nothing of what is compared has changed".clone_into(&mut text);
        }
        let file = |ending: &str, text: String| (format!("{}{ending}", self.name), text);
        Ok(vec![
            file("-before.json", kept(&before)),
            file("-after.json", kept(&after)),
            file(".txt", text + "\n"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::Output;
    use crate::ground::fake::Fake;
    use crate::value::Value as Setting;

    const ATA: &str = r#"{"smart_status":{"passed":true},"temperature":{"current":31},
        "ata_smart_attributes":{"table":[
            {"id":5,"raw":{"value":0}},{"id":199,"raw":{"value":CRC}}]}}"#;

    fn smart(devices: &[&str]) -> Smart {
        let devices = devices.iter().map(|it| (*it).to_owned()).collect();
        let settings = [("devices".to_owned(), Setting::Many(devices))].into();
        Smart::read(&Given { name: "smart".to_owned(), settings, ..Given::default() }).unwrap()
    }

    fn machine(disk: &str) -> (Fake, Vec<Volume>) {
        let fake = Fake::new();
        fake.state_mut().put_disk(disk, 1 << 30);
        let on = vec![fake.volume(disk).unwrap()];
        (fake, on)
    }

    /// Prints a file of the machine, and ends with a code.
    fn prints(fake: &Fake, tool: &str, file: &'static str, code: i32) {
        fake.install(tool, move |state, _| {
            let stdout = state.files.get(file).cloned().unwrap_or_default();
            Output { code: Some(code), stdout, stderr: "cannot".to_owned() }
        });
    }

    #[test]
    fn a_counter_that_grew_is_kept_and_told() {
        let (fake, on) = machine("/dev/sda");
        // 64: there are errors in the disk's log, and everything was read.
        prints(&fake, "smartctl", "/told", 64);
        fake.state_mut().put("/told", &ATA.replace("CRC", "3"));
        let smart = smart(&[]);
        let does = smart.check(&fake, &on).unwrap().does;
        assert_eq!(does, ["smartctl -j -x /dev/sda, before and after"]);
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        smart.apply(&mut ledger, &on).unwrap();
        fake.state_mut().put("/told", &ATA.replace("CRC", "5").replace("31", "44"));
        let kept = smart.collect(&fake, &on).unwrap();
        let line = "/dev/sda: CRC errors 3 → 5, temperature 31 → 44 °C";
        assert_eq!(fake.told(), [format!("    smart: {line}")]);
        let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["smart-before.json", "smart-after.json", "smart.txt"]);
        assert!(kept[0].1.contains("\"value\": 3") && kept[1].1.contains("\"value\": 5"));
        // The next cell is compared with what was read last.
        let again = smart.collect(&fake, &on).unwrap();
        assert_eq!(again[2].1, "nothing of what is compared has changed\n");
    }

    #[test]
    fn a_drive_with_nvme_is_asked_by_what_is_there() {
        let (fake, on) = machine("/dev/nvme0n1");
        prints(&fake, "nvme", "/told", 0);
        fake.state_mut().put("/told", r#"{"temperature":310,"percent_used":7,"media_errors":"0"}"#);
        let smart = smart(&[]);
        let before = smart.ask(&fake, &on).unwrap();
        let told =
            r#"{"temperature":320,"percent_used":8,"media_errors":"2","critical_warning":1}"#;
        fake.state_mut().put("/told", told);
        let line = "/dev/nvme0n1: media errors 0 → 2, critical warnings 1 (not told before), \
                    percentage used 7 → 8 %, temperature 37 → 47 °C";
        assert_eq!(differences(&before, &smart.ask(&fake, &on).unwrap()), [line]);
    }

    #[test]
    fn a_disk_that_says_it_is_failing_is_told_though_nothing_changed() {
        let (fake, on) = machine("/dev/sda");
        prints(&fake, "smartctl", "/told", 8);
        fake.state_mut().put("/told", r#"{"smart_status":{"passed":false}}"#);
        let reading = smart(&[]).ask(&fake, &on).unwrap();
        let told = differences(&reading, &reading);
        assert_eq!(told, ["/dev/sda: it says that it is failing"]);
    }

    #[test]
    fn a_missing_tool_and_a_disk_without_an_answer_are_found_before_any_cell() {
        let (fake, on) = machine("/dev/sda");
        let fault = smart(&[]).check(&fake, &on).unwrap_err();
        assert!(matches!(&fault, Fault::Lacking(text) if text.contains("'smartctl' is missing")));
        for (told, code, expected) in [
            (r#"{"smartctl":{"messages":[{"string":"no such type"}]}}"#, 1, "no such type"),
            (r#"{"smartctl":{}}"#, 2, "exit code 2"),
            ("rubbish", 0, "is no JSON"),
            ("rubbish", 2, "exit code 2: cannot"),
        ] {
            prints(&fake, "smartctl", "/told", code);
            fake.state_mut().put("/told", told);
            let fault = smart(&[]).check(&fake, &on).unwrap_err();
            assert!(matches!(fault, Fault::Lacking(_)), "{fault:?}");
            assert!(fault.to_string().contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_file_has_no_disk_but_disks_can_be_named() {
        let (fake, mut on) = machine("/dev/sda");
        on[0].kind = Kind::File;
        prints(&fake, "smartctl", "/told", 0);
        fake.state_mut().put("/told", "{}");
        let fault = smart(&[]).check(&fake, &on).unwrap_err();
        assert!(matches!(&fault, Fault::Refused(text) if text.contains("devices = ")), "{fault}");
        smart(&["/dev/sdb"]).check(&fake, &on).unwrap();
        let wrong = [("devices".to_owned(), Setting::One("sdb".to_owned()))].into();
        assert!(Smart::read(&Given { settings: wrong, ..Given::default() }).is_err());
    }
}
