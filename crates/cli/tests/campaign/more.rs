//! Cells of several replays, shares, baselines, includes, and what is told of them.

use std::fs;

use serde_json::json as value;

use super::fixture::said;
use super::{LADDER, json, results, with};

const DEVICE: &str = "[devices]\na='sim:model=exp,units=4,service=1ms,seed={repeat}'\n\
    [replay]\ndevice='a'\ntrace='load'\n";

#[test]
fn steps_and_rounds_are_one_cell_each_and_a_row_for_each_run() {
    let steps = format!(
        "name='steps'\nrepeats=2\n{DEVICE}[[step]]\nname='cold'\n[[step]]\nname='hot'\n\
         [[expect]]\nthat='step = cold or p99.response < 1us'\n"
    );
    let fixture = with(&steps);
    let output = fixture.run(&["campaign", "run", "c.toml", "-q", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), found["counts"]["cells"].as_u64()), (Some(16), Some(2)));
    // The hot step alone breaks the expectation.
    assert_eq!(found["broken"].as_array().map(Vec::len), Some(2), "{found}");
    let (all, _) = results(&fixture, "steps.campaign");
    let parts = all.values().map(|end| end["measured"]["parts"].as_array().map(Vec::len));
    assert_eq!(parts.collect::<Vec<_>>(), [Some(2), Some(2)]);
    let compared = ["campaign", "compare", "steps.campaign", "--by", "step", "--json"];
    let compared = said(&fixture.run(&compared));
    assert!(compared.contains("\"baseline\": \"cold\""), "{compared}");

    let rounds = format!(
        "name='rounds'\n{DEVICE}timing='afap'\n[rounds]\naxes.in-flight-max=[1,4]\nmax=8\n\
         steady={{figure='iops',at={{in-flight-max=4}}}}\n"
    );
    fs::write(fixture.path("c.toml"), rounds).unwrap();
    let output = fixture.run(&["campaign", "run", "c.toml", "-q"]);
    assert!(said(&output).contains("1 of 1 became steady, within 5 rounds"), "{}", said(&output));
    let runs = fs::read_dir(fixture.path("rounds.campaign").join("cells")).unwrap().next().unwrap();
    let attempt = fs::read_dir(runs.unwrap().path().join("1")).unwrap();
    let is_run = |path: &std::path::PathBuf| path.is_dir();
    assert_eq!(attempt.map(|it| it.unwrap().path()).filter(is_run).count(), 10);
}

#[test]
fn shares_that_are_joined_are_the_whole_campaign() {
    let fixture = with(LADDER);
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q", "-o", "whole"]).status.success());
    for part in ["1/2", "2/2"] {
        let run = ["campaign", "run", "c.toml", "-q", "-o", "shared", "--part", part];
        let output = fixture.run(&run);
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(results(&fixture, "shared"), results(&fixture, "whole"));
    let wrong = fixture.run(&["campaign", "run", "c.toml", "--part", "3/2"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
}

#[test]
fn a_kept_campaign_tells_a_change_from_chance() {
    let common = |service: &str, seed: u32| {
        format!(
            "repeats=5\n[devices]\n\
             a='sim:model=exp,units=4,service={service},seed={{repeat}}{seed}'\n\
             [replay]\ndevice='a'\ntrace='gen:random?rate=500&duration=20s'\n"
        )
    };
    let fixture = with("name='good'\ninclude='common.toml'\n");
    fs::write(fixture.path("common.toml"), common("1ms", 1)).unwrap();
    let night = "name='night'\ninclude=['common.toml']\n[baseline]\ncampaign='good.campaign'\n\
         fail-if=['p99 > +5%','iops < -3%']\n";
    fs::write(fixture.path("night.toml"), night).unwrap();
    // Without the kept campaign nothing begins.
    let early = fixture.run(&["campaign", "run", "night.toml", "-q"]);
    assert_eq!(early.status.code(), Some(2), "{}", said(&early));
    assert!(said(&early).contains("night.toml:4:10"), "{}", said(&early));
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    for (service, seed, code, told) in
        [("1ms", 2, 0, "no criterion is met"), ("1200us", 3, 21, "1 of 1 points meet a criterion")]
    {
        fs::write(fixture.path("common.toml"), common(service, seed)).unwrap();
        let run = ["campaign", "run", "night.toml", "-q", "--junit", "out.xml", "-o", service];
        let output = fixture.run(&run);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(told), "{}", said(&output));
        let xml = fs::read_to_string(fixture.path("out.xml")).unwrap();
        let failures = format!("tests=\"6\" failures=\"{}\"", u32::from(code > 0));
        assert!(xml.contains(&failures), "{xml}");
    }
}

#[test]
fn what_a_file_includes_is_kept_with_it_and_faults_have_their_own_places() {
    let included = "[devices]\na='sim:model=exp'\n[layers.fast]\nspeedup=4\n";
    let file = "name='x'\ninclude='d.toml'\npaths=['day/fast','day/slow']\n\
         [replay]\ndevice='a'\ntrace='load'\n[layers.slow]\nspeedup=1\n";
    let fixture = with(file);
    fs::write(fixture.path("d.toml"), included).unwrap();
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    let why = said(&fixture.run(&["campaign", "plan", "c.toml", "--why", "speedup"]));
    assert!(why.contains("speedup = 4 (d.toml:4:1)"), "{why}");
    assert!(why.contains("speedup = 1 (c.toml:8:1)"), "{why}");
    fs::write(fixture.path("d.toml"), included.replace("speedup", "spedup")).unwrap();
    let fault = said(&fixture.run(&["campaign", "plan", "c.toml"]));
    assert!(fault.contains("d.toml:4:1") && fault.contains("'speedup'?"), "{fault}");
    // The campaign goes on with what it began with.
    assert!(fixture.run(&["campaign", "resume", "x.campaign", "-q"]).status.success());
    fs::write(fixture.path("d.toml"), "include='c.toml'\n").unwrap();
    let cycle = fixture.run(&["campaign", "plan", "c.toml"]);
    assert_eq!(cycle.status.code(), Some(2), "{}", said(&cycle));
    assert!(said(&cycle).contains("includes itself"), "{}", said(&cycle));
}

#[test]
fn a_deadline_and_a_budget_end_a_campaign_before_they_are_over() {
    let fixture = with(&format!("deadline='2020-01-01T00:00'\n{LADDER}"));
    let output = fixture.run(&["campaign", "run", "c.toml", "-q"]);
    assert_eq!(output.status.code(), Some(13), "{}", said(&output));
    assert_eq!(
        json(&fixture, &["campaign", "status", "two.campaign", "--json"])["counts"]["missing"],
        value!(12)
    );
    let wrong = LADDER.replace("name = \"two\"", "name = \"two\"\ndeadline = \"soon\"");
    fs::write(fixture.path("c.toml"), wrong).unwrap();
    let output = fixture.run(&["campaign", "plan", "c.toml"]);
    assert!(said(&output).contains("c.toml:3:12: 'soon' is no time"), "{}", said(&output));
    fs::write(fixture.path("c.toml"), LADDER).unwrap();
    let output = fixture.run(&["campaign", "run", "c.toml", "-q", "--budget", "1us"]);
    assert_eq!(output.status.code(), Some(13), "{}", said(&output));
}

#[test]
fn what_no_plan_needs_is_listed_and_removed_only_when_asked() {
    let fixture = with(LADDER);
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    fs::write(fixture.path("c.toml"), LADDER.replace("[4, 1, 16]", "[4, 1]")).unwrap();
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    let listed = json(&fixture, &["campaign", "gc", "two.campaign", "--json"]);
    assert_eq!(listed["removable"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(results(&fixture, "two.campaign").0.len(), 10);
    let summary = ["campaign", "gc", "two.campaign", "--keep", "summary", "--yes", "--json"];
    let removed = json(&fixture, &summary);
    assert_eq!(removed["removable"].as_array().map(Vec::len), Some(2 + 8), "{removed}");
    assert_eq!(results(&fixture, "two.campaign").0.len(), 8);
    let again = fixture.run(&["campaign", "run", "c.toml", "-q"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(results(&fixture, "two.campaign").1, 8);
}

/// The files of a tree like the example of blkreplay's test suite, in which each part of a path has
/// its file, and one of them decides by another variable.
const CONFS: [(&str, &str); 22] = [
    (
        "default-main",
        "replay_duration=3600\nthreads=512\nstrong=1\ncmode=with-partial\n\
        vmode=no-overhead\nreplay_max_parallelism=0 \t# unlimited\noutput_label=\"MY\"\n\
        replay_host_list=\"host672 host{675..679}\"\nreplay_device_list=\"/dev/dm-{7,9}\"\n\
        input_file_list=\"${base_dir}/loads/bursts.load.gz\"\n",
    ),
    ("default-create_lv", "enable_create_lv=0\nfunction create_lv\n{\n    threads=1\n}\n"),
    ("default-bbu_megaraid", "enable_bbu_megaraid=0\nbbu_cache=1\n"),
    (
        "random.bursts",
        "input_file_list=\"http://loads/random.bursts.000.load.gz\"\n\
        replay_duration=599\nreplay_max_parallelism=1\n",
    ),
    ("natural-derived", "input_file_list='http://loads/vm.derived/*.load.gz'\n"),
    ("short", "replay_duration=290\n"),
    ("long", "replay_duration=1790\n"),
    ("parallel-04", "replay_max_parallelism=4\n"),
    ("with-conflicts", "cmode=\"with-conflicts\"\n"),
    ("with-drop", "cmode=\"with-drop\"\n"),
    ("with-ordering", "cmode=\"with-ordering\"\n"),
    ("with-partial", "cmode=\"with-partial\"\n"),
    ("strong-0", "strong=0\n"),
    ("strong-1", "strong=1\n"),
    ("strong-2", "\tstrong=2\n"),
    ("threads-032", "threads=032\n"),
    ("threads-128", "threads=128\n"),
    ("bottleneck", "bottleneck=$threads\n"),
    ("test-sas", "replay_host_list=\"test-sas\"\nreplay_device_list=\"/dev/cciss/c1d?\"\n"),
    (
        "test-sata",
        "replay_host_list=\"test-sata\"\nreplay_device_list=\"/dev/sdb\"\n\
        if [[ \"$input_file_list\" =~ \"bursts\" ]]; then\n\t(( replay_duration /= 2 ))\nfi\n",
    ),
    ("bbu-0", "enable_bbu_megaraid=1\nbbu_cache=0\n"),
    ("bbu-1", "enable_bbu_megaraid=1\nbbu_cache=1\n"),
];

const DERIVED: &str = "natural-derived/short/parallel-04";

/// The 22 leaves of the example's shape.
fn leaves() -> Vec<String> {
    let mut leaves = vec![
        "random.bursts/with-conflicts/threads-128/test-sas".to_owned(),
        "random.bursts/with-conflicts/threads-128/test-sata/bbu-1".to_owned(),
        "natural-derived/long/parallel-04/with-partial/threads-128/test-sas".to_owned(),
        "natural-derived/long/parallel-04/with-partial/threads-128/test-sata/bbu-1".to_owned(),
    ];
    for mode in [
        "with-conflicts",
        "with-drop",
        "with-ordering",
        "with-partial/strong-0",
        "with-partial/strong-1",
        "with-partial/strong-2",
    ] {
        for threads in ["threads-032", "threads-128", "threads-128/bottleneck"] {
            let bbu = if mode == "with-drop" { "bbu-0" } else { "bbu-1" };
            leaves.push(format!("{DERIVED}/{mode}/{threads}/x-y/test-sata/{bbu}"));
        }
    }
    leaves
}

/// What bash itself makes of a leaf's files.
fn by_bash(fixture: &super::Fixture, leaf: &str, name: &str) -> String {
    let files = ["default-main", "default-create_lv", "default-bbu_megaraid"];
    let files = files.into_iter().chain(leaf.split('/')).map(|name| format!("{name}.conf"));
    let files: Vec<String> = files.collect();
    let script = format!("for f in \"$@\"; do . ./\"$f\"; done; printf %s \"${{{name}}}\"");
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script, "x"]).args(files).current_dir(fixture.path("tree"));
    let output = bash.env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn tree() -> super::Fixture {
    let fixture = with(LADDER);
    for leaf in leaves() {
        fs::create_dir_all(fixture.path("tree").join(leaf)).unwrap();
    }
    fs::create_dir_all(fixture.path("tree/random.bursts/results.old")).unwrap();
    for (name, text) in CONFS.into_iter().chain([("x-y", "# nothing\n")]) {
        fs::write(fixture.path("tree").join(format!("{name}.conf")), text).unwrap();
    }
    fixture
}

#[test]
fn a_tree_of_the_test_suite_has_the_variables_that_bash_computes() {
    let fixture = tree();
    // One file is more than assignments.
    let refused = fixture.run(&["campaign", "import", "tree"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let told = "test-sata.conf:3: this is more than an assignment: if [[";
    assert!(said(&refused).contains(told), "{}", said(&refused));
    let names = [
        "threads",
        "bottleneck",
        "strong",
        "cmode",
        "replay_duration",
        "input_file_list",
        "replay_host_list",
        "replay_device_list",
        "bbu_cache",
        "replay_max_parallelism",
    ];
    for trusted in [true, false] {
        if !trusted {
            let plain = "replay_host_list=\"test-sata\"\nreplay_device_list=/dev/sdb\n";
            fs::write(fixture.path("tree/test-sata.conf"), plain).unwrap();
        }
        let import = ["campaign", "import", "tree", "--json", "--trust"];
        let found = json(&fixture, if trusted { &import } else { &import[..4] });
        let found = found["leaves"].as_array().unwrap();
        assert_eq!(found.len(), 22);
        for leaf in found {
            let path = leaf["path"].as_str().unwrap();
            for name in names {
                let ours = leaf["variables"][name].as_str().unwrap_or_default();
                assert_eq!(ours, by_bash(&fixture, path, name), "{path} {name}");
            }
        }
    }
}

#[test]
fn an_imported_tree_is_a_plan_that_tells_what_it_lacks() {
    let fixture = tree();
    let import = ["campaign", "import", "tree", "--trust", "-o", "o.toml"];
    let imported = fixture.run(&import);
    assert!(imported.status.success(), "{}", said(&imported));
    let told = said(&imported);
    assert!(told.contains("bbu-1.conf:1: enable_bbu_megaraid: set-up"), "{told}");
    let planned = fixture.run(&["campaign", "plan", "o.toml"]);
    let told = said(&planned);
    assert_eq!(planned.status.code(), Some(3), "{told}");
    assert!(told.contains("22 cells") && told.contains("random.bursts.000.load.gz"), "{told}");
    let plan = fixture.run(&["campaign", "plan", "o.toml", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    let setting = |path: &str, key: &str| {
        let cells = plan["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["point"][0][1] == path).unwrap();
        cell["identity"]["replay"][key].as_str().unwrap_or_default().to_owned()
    };
    let bursts = "random.bursts/with-conflicts/threads-128/test-sata/bbu-1";
    assert_eq!(setting(bursts, "duration"), "299s");
    assert_eq!(setting(bursts, "conflicts"), "allow");
    let deep = format!("{DERIVED}/with-partial/strong-2/threads-032/x-y/test-sata/bbu-1");
    assert_eq!((setting(&deep, "duration"), setting(&deep, "strong")), ("290s".into(), "2".into()));
    assert_eq!(setting(&deep, "in-flight-max"), "32");
}
