//! What a variable of the test suite is here.
//!
//! Every variable is taken over, needs nothing here, or is refused with the reason. Sectors there
//! have 512 bytes.

use std::collections::BTreeMap;

use super::Variables;

/// Settings that variables became, as they are written in TOML, and what is not taken over.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// Keys of a campaign's `[replay]`.
    pub settings: BTreeMap<String, String>,
    /// A variable that is not taken over, and why.
    pub refused: Vec<(String, String)>,
}

/// Variables that mean nothing here, because what they are about does not exist or is always so.
const NOTHING: [&str; 33] = [
    "output_label",
    "output_add_path",
    "output_add_host",
    "output_add_device",
    "output_add_input",
    "replay_out_start",
    "omit_tmp_cleanup",
    "enable_compress_ssh",
    "verbose_script",
    "start_grace",
    "ahead_limit",
    "fan_out",
    "no_dispatcher",
    "enable_graph",
    "graph_options",
    "sequential_mode",
    "picturetype",
    "pictureoptions",
    "bad_latency",
    "bad_delay",
    "bad_ignore",
    "ws_list",
    "thrp_window",
    "turn_window",
    "smooth_latency_flying_window",
    "color",
    "user_module_dir",
    "base_dir",
    "enable_main",
    "main",
    "enable_user_modules",
    "settle_wait",
    "replay_max_parallelism",
];

/// Set-up of machines: a switch, and the module of `[[stack]]` that does it here.
const SET_UP: [(&str, &str); 10] = [
    ("enable_smartctl", "modules erase, settle and smart"),
    ("enable_create_lv", "module command"),
    ("enable_recreate_lvm", "module lvm"),
    ("enable_iscsi_target_iet", "module iscsi-target"),
    ("enable_iscsi_initiator", "module iscsi-initiator"),
    ("enable_scheduler", "module queue"),
    ("enable_wipe", "module fill"),
    ("enable_slurp", "module read"),
    ("enable_bbu_megaraid", "module command"),
    ("enable_cachecade", "module command"),
];

/// What belongs to such set-up, or to a switch that is read with it.
const OF_SET_UP: [&str; 27] = [
    "enable_ssd_erase",
    "enable_ssd_trim",
    "vg_name",
    "lv_count",
    "lv_size",
    "lvm_striping",
    "lvm_stripesize",
    "max_lv_size",
    "lvm_drbd_meta_size",
    "lvm_extra",
    "lvm_leave_intact",
    "iscsi_target",
    "iscsi_ip",
    "iqn_base",
    "iet_type",
    "iscsi_target_iet_options",
    "scheduler",
    "bbu_cache",
    "megaraid_adaptor",
    "megaraid_data_target",
    "cachecade_target",
    "cachecade_mode",
    "cachecade_hot",
    "pipe_cmd",
    "repeat_offset",
    "pipe_repeat_offset",
    "replay_device_list",
];

struct Reading<'v> {
    variables: &'v Variables,
    mapped: Mapped,
    seen: Vec<&'static str>,
}

/// The settings that variables become.
pub fn mapped(variables: &Variables) -> Mapped {
    let mut reading = Reading { variables, mapped: Mapped::default(), seen: Vec::new() };
    reading.main();
    reading.load_and_devices();
    reading.chain();
    reading.set_up();
    reading.rest();
    reading.mapped
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    // JSON's escapes are TOML's.
    let text = serde_json::to_string(text).unwrap_or_default();
    text.replace('{', "{{").replace('}', "}}")
}

impl Reading<'_> {
    /// The value of a variable; nothing if it is empty.
    fn get(&mut self, name: &'static str) -> Option<String> {
        self.seen.push(name);
        self.variables.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// A whole number, as C reads it: `008` is eight.
    fn number(&mut self, name: &'static str) -> Option<u64> {
        let text = self.get(name)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.refuse(name, &format!("'{text}' is no number"));
        }
        number
    }

    fn is_on(&mut self, name: &'static str) -> bool {
        self.get(name).is_some_and(|value| value.trim() != "0")
    }

    fn refuse(&mut self, name: &str, why: &str) {
        self.mapped.refused.push((name.to_owned(), why.to_owned()));
    }

    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.mapped.settings.insert(key.to_owned(), value.into());
    }

    fn main(&mut self) {
        if let Some(start) = self.number("replay_start").filter(|start| *start > 0) {
            self.set("start", quoted(&format!("{start}s")));
        }
        if let Some(duration) = self.number("replay_duration").filter(|it| *it > 0) {
            self.set("duration", quoted(&format!("{duration}s")));
        }
        // One worker was one request in flight, and the bottleneck bounded all of them.
        let (threads, bottleneck) = (self.number("threads"), self.number("bottleneck"));
        let bounds = threads.into_iter().chain(bottleneck).filter(|bound| *bound > 0);
        if let Some(least) = bounds.min() {
            self.set("in-flight-max", least.to_string());
        }
        if let Some(strong) = self.number("strong") {
            self.set("strong", strong.to_string());
        }
        self.word(
            "cmode",
            "conflicts",
            &[
                ("with-conflicts", "allow"),
                ("with-drop", "drop"),
                ("with-partial", "partial"),
                ("with-ordering", "ordering"),
            ],
        );
        self.word(
            "vmode",
            "verify",
            &[
                ("no-overhead", "off"),
                ("with-verify", "reads"),
                ("with-final-verify", "final"),
                ("with-paranoia", "paranoia"),
            ],
        );
        if let Some(share) = self.number("fill_random") {
            self.set("fill-random", share.to_string());
        }
        if let Some(speedup) = self.get("speedup").filter(|it| it.trim() != "1") {
            self.set("speedup", quoted(speedup.trim()));
        }
        for (name, key) in
            [("o_sync", "sync-writes"), ("no_o_direct", "allow-cached"), ("verbose", "expert")]
        {
            if self.is_on(name) {
                self.set(key, "true");
            }
        }
        for name in ["dry_run", "fake_io", "simulate_io"] {
            if self.is_on(name) {
                self.refuse(name, "a simulated device is a device here: \"sim:…\"");
            }
        }
        if self.number("replay_delta").is_some_and(|delta| delta > 0) {
            self.refuse("replay_delta", "a cell has one target: give each its own start");
        }
    }

    fn word(&mut self, name: &'static str, key: &str, words: &[(&str, &str)]) {
        let Some(value) = self.get(name) else { return };
        match words.iter().find(|(there, _)| *there == value.trim()) {
            Some((_, here)) => self.set(key, quoted(here)),
            None => self.refuse(name, &format!("'{value}' is not known")),
        }
    }

    fn load_and_devices(&mut self) {
        if let Some(list) = self.get("input_file_list") {
            let mut files = list.split_whitespace();
            if let Some(first) = files.next() {
                self.set("trace", quoted(first));
            }
            if files.next().is_some() || list.contains(['*', '?', '{']) {
                let why = "several loads: a cell has one, so make an axis of them";
                self.refuse("input_file_list", why);
            }
        }
        let hosts = self.get("replay_host_list").unwrap_or_default();
        let devices = self.get("replay_device_list");
        let name = [Some(hosts.as_str()).filter(|it| !it.is_empty()), devices.as_deref()];
        let name: Vec<&str> = name.into_iter().flatten().collect();
        if !name.is_empty() {
            self.set("device", quoted(&name.join(":")));
        }
    }

    fn chain(&mut self) {
        let mut chain: Vec<String> = Vec::new();
        let sectors = |count: u64| format!("{}", count * 512);
        if self.is_on("enable_input_reverse") {
            chain.push("reverse".to_owned());
        }
        let (from, to) = (self.number("pipe_select_from"), self.number("pipe_select_to"));
        if self.is_on("enable_pipe_select") {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(300));
            chain.push(format!("window {from}s,{}s", to.saturating_sub(from)));
        }
        if self.is_on("enable_pipe_repeat") {
            let why = "it repeats until the duration is over: write chain = [\"repeat N\"]";
            self.refuse("enable_pipe_repeat", why);
        }
        let every = self.number("pipe_slip_every").unwrap_or(32_768);
        let increase = self.number("pipe_slip_increase").unwrap_or(256);
        if self.is_on("enable_pipe_slip") {
            chain.push(format!("slip {},every={every}", sectors(increase)));
        }
        let (one, other) = (self.get("pipe_subst_from"), self.get("pipe_subst_to"));
        if self.is_on("enable_pipe_subst") {
            let (one, other) = (one.unwrap_or("R".to_owned()), other.unwrap_or("W".to_owned()));
            chain.push(format!("substitute {}={}", one.to_uppercase(), other.to_uppercase()));
        }
        let factor = self.get("pipe_spread_factor").unwrap_or("2.0".to_owned());
        let align = self.number("pipe_spread_align").unwrap_or(8);
        let offset = self.number("pipe_spread_offset").unwrap_or(0);
        if self.is_on("enable_pipe_spread") {
            let (align, offset) = (sectors(align), sectors(offset));
            chain.push(format!("spread {factor},align={align},offset={offset}"));
        }
        let factor = self.get("pipe_resize_factor").unwrap_or("2.0".to_owned());
        let least = self.number("pipe_resize_min").unwrap_or(0).max(1);
        let most = self.number("pipe_resize_max").unwrap_or(65_536);
        if self.is_on("enable_pipe_resize") {
            let (least, most) = (sectors(least), sectors(most));
            chain.push(format!("resize {factor},min={least},max={most}"));
        }
        let command = self.get("pipe_cmd").unwrap_or("cat".to_owned());
        if self.is_on("enable_pipe_cmd") {
            chain.push(format!("cmd {command}"));
        }
        if !chain.is_empty() {
            let lines: Vec<String> = chain.iter().map(|line| quoted(line)).collect();
            self.set("chain", format!("[{}]", lines.join(", ")));
        }
    }

    fn set_up(&mut self) {
        for (name, module) in SET_UP {
            if self.is_on(name) {
                self.refuse(name, &format!("set-up is written by hand as [[stack]]: {module}"));
            }
        }
        let parallel = self.number("replay_max_parallelism");
        if parallel.is_some_and(|targets| targets != 1) {
            self.refuse("replay_max_parallelism", "a cell has one target");
        }
    }

    /// Variables that nothing above reads.
    fn rest(&mut self) {
        let known = |name: &str| {
            self.seen.contains(&name) || NOTHING.contains(&name) || OF_SET_UP.contains(&name)
        };
        let strange: Vec<String> =
            self.variables.keys().filter(|name| !known(name)).cloned().collect();
        for name in strange {
            self.refuse(&name, "no module of the test suite reads it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Mapped {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        mapped(&pairs.collect())
    }

    #[test]
    fn variables_become_flags_of_a_replay() {
        let found = of(&[
            ("threads", "032"),
            ("bottleneck", "016"),
            ("cmode", "with-ordering"),
            ("strong", "2"),
            ("replay_duration", "290"),
            ("replay_start", "0"),
            ("no_o_direct", "0"),
            ("output_label", "X"),
            ("enable_pipe_slip", "1"),
        ]);
        let settings: Vec<(&str, &str)> =
            found.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            settings,
            [
                ("chain", "[\"slip 131072,every=32768\"]"),
                ("conflicts", "\"ordering\""),
                ("duration", "\"290s\""),
                ("in-flight-max", "16"),
                ("strong", "2"),
            ]
        );
        assert_eq!(found.refused, []);
    }

    #[test]
    fn what_is_not_taken_over_has_a_reason() {
        let found = of(&[("enable_wipe", "1"), ("trheads", "5"), ("enable_slurp", "0")]);
        let names: Vec<&str> = found.refused.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["enable_wipe", "trheads"]);
    }
}
