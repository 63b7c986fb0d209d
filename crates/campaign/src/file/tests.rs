mod across;
mod hosts;

use super::*;
use crate::plan::{Cell, Ground, Plan};

/// A ground on which every load and device is what it is called.
pub(crate) struct Named;

impl Ground for Named {
    fn load(&self, trace: &str) -> Result<String, String> {
        Ok(trace.to_owned())
    }

    fn flow(&self, flow: &str) -> Result<Option<String>, String> {
        Ok((!flow.contains("gen:")).then(|| flow.to_owned()))
    }

    fn device(&self, target: &str, _proof: &Proof) -> Result<String, String> {
        Ok(target.to_owned())
    }
}

pub(crate) fn known() -> Known {
    let flag = |name: &str, takes_value: bool| Flag {
        name: name.to_owned(),
        takes_value,
        may_lack: false,
        is_list: matches!(name, "require" | "flow"),
    };
    Known {
        flags: vec![
            flag("speedup", true),
            flag("in-flight-max", true),
            flag("read-only", false),
            flag("require", true),
            flag("flow", true),
        ],
        transforms: vec!["repeat".to_owned(), "filter".to_owned()],
        stack: Vec::new(),
    }
}

/// Opens no file.
pub(crate) fn nothing(name: &str) -> Result<(String, String), String> {
    Err(format!("{name}: no such file"))
}

pub(crate) fn plan(text: &str) -> Plan {
    let known = known();
    let file = read("c.toml", text, &known, &nothing).unwrap_or_else(|it| panic!("{it}"));
    Plan::new(file, Layer::new(), &known, &Named).unwrap_or_else(|refused| panic!("{refused}"))
}

const DEVICES: &str = "[devices]\na='sim:a'\nb='sim:b'\nc={path='sim:c',set={in-flight-max=7}}\n";

fn refused(text: &str) -> String {
    let known = known();
    let file = read("c.toml", text, &known, &nothing);
    let made = file.and_then(|file| Plan::new(file, Layer::new(), &known, &Named));
    made.err().unwrap_or_else(|| panic!("accepted: {text}")).to_string()
}

#[test]
fn the_buyers_campaign_has_a_hundred_and_eighty_cells() {
    let text = format!(
        "name='ssd'\nrepeats=3\n{DEVICES}[axes]\ndevice=['a','b','c']\ntrace=['1','2','3','4']\n\
         speedup=[16,1,2,4,8]\n[ladder]\naxis='speedup'\nstop='finding = device-limited'\n"
    );
    let plan = plan(&text);
    assert_eq!((plan.cells.len(), plan.branches.len()), (180, 12));
    // A repeat is finished before the next, and a ladder climbs.
    let cells: Vec<_> = plan
        .steps
        .iter()
        .map(|step| match step {
            crate::plan::Step::Cell(cell) => &plan.cells[*cell],
            crate::plan::Step::Search(_) => panic!("no search"),
        })
        .collect();
    assert!(cells.is_sorted_by_key(|cell| cell.repeat));
    for climb in cells.chunks(5) {
        let speedups: Vec<_> = climb.iter().filter_map(|cell| cell.setting("speedup")).collect();
        assert_eq!(speedups, ["1", "2", "4", "8", "16"]);
        assert!(climb.iter().all(|cell| cell.branch == climb[0].branch));
    }
    let of_c = cells.iter().find(|cell| cell.device == "c").unwrap();
    assert_eq!(of_c.setting("in-flight-max").as_deref(), Some("7"));
}

#[test]
fn a_typing_error_is_told_with_its_place_and_the_nearest_word() {
    let head = format!("name='x'\n{DEVICES}");
    for (text, place, told) in [
        (format!("{head}[replay]\nspedup=2\n"), "c.toml:7:1", "did you mean 'speedup'?"),
        (format!("{head}[replay]\nrepeat=2\n"), "c.toml:7:1", "chain = [\"repeat …\"]"),
        (format!("{head}[replay]\nspeedup=true\n"), "c.toml:7:1", "needs a value"),
        (format!("{head}[replay]\nread-only='x'\n"), "c.toml:7:1", "write true or false"),
        (format!("{head}[replay]\ndevice='d'\ntrace='t'\n"), "c.toml:7:1", "known are a, b, c"),
        (format!("{head}[replay]\ndevice='a'\ntrace='{{x}}'\n"), "c.toml:8:1", "no axis 'x'"),
        (format!("{head}[axis]\n"), "c.toml:6:2", "did you mean 'axes'?"),
        ("name='x'\non-controller-loss='wait'\n".to_owned(), "c.toml:2:20", "\"finish\""),
        ("name='x'\nparallel='all'\n".to_owned(), "c.toml:2:10", "write \"host\""),
        (format!("{head}[[stack]]\nmodule='queu'\n"), "c.toml:7:8", "did you mean 'queue'?"),
        (
            format!("{head}[[stack]]\nmodule='queue'\nsat={{x=1}}\n"),
            "c.toml:8:6",
            "no key of queue 'sat.x'",
        ),
        (
            format!("{head}[[stack]]\nmodule='queue'\n[layers.x]\nstack.q.set.scheduler='none'\n"),
            "c.toml:9:7",
            "no entry of the stack 'q'",
        ),
        ("name='x'\nrepeats=0\n".to_owned(), "c.toml:2:9", "write 1 to 10000"),
        ("name='x'\nbudget='soon'\n".to_owned(), "c.toml:2:8", "60h"),
        ("name='../x'\n".to_owned(), "c.toml:1:6", "no name for a directory"),
        ("name='x'\nname='y'\n".to_owned(), "c.toml:2:1", "duplicate"),
        (format!("{head}[ladder]\naxis='speedup'\nstop='x'\n"), "c.toml:7:6", "no axis"),
        (
            format!("{head}[[expect]]\nthat='p99.reed < 5ms'\n"),
            "c.toml:7:6",
            "'p99.reed' is not known",
        ),
        (
            format!("{head}[[rule]]\nwhen='finding = faithful'\nskip=true\n"),
            "c.toml:7:6",
            "a rule decides before it",
        ),
    ] {
        let refused = refused(&text);
        assert!(refused.starts_with(place) && refused.contains(told), "{text}\n{refused}");
    }
}

#[test]
fn a_later_layer_wins_and_every_value_knows_where_it_comes_from() {
    let text = format!(
        "name='x'\n{DEVICES}[layers.fast]\nspeedup=9\n[replay]\ntrace='t-{{size}}'\nspeedup=2\n\
         [axes]\ndevice=['a','c']\nmode=['fast']\nsize=['4k']\n\
         [[rule]]\nwhen='device = c'\nset={{in-flight-max=1}}\n"
    );
    let known = known();
    let file = read("c.toml", &text, &known, &nothing).unwrap();
    let argument = argument("speedup=4", "an argument", &known).unwrap();
    let plan = Plan::new(file, vec![argument], &known, &Named).unwrap();
    let settings = |cell: usize, key: &str| plan.cells[cell].setting(key).unwrap_or_default();
    assert_eq!(settings(0, "speedup"), "4");
    assert_eq!(
        (settings(0, "in-flight-max"), settings(1, "in-flight-max")),
        (String::new(), "1".to_owned())
    );
    assert_eq!(settings(0, "trace"), "t-4k");
    let origins = plan.origins(&plan.cells[1].point, 1).unwrap();
    let places: Vec<String> = origins["speedup"].iter().map(|it| it.place.to_string()).collect();
    assert_eq!(places, ["c.toml:10:1", "c.toml:7:1", "an argument"]);
}

#[test]
fn axes_that_are_zipped_advance_together_and_rules_leave_cells_out() {
    let text = format!(
        "name='x'\nzip=['device','trace']\n{DEVICES}[axes]\ndevice=['a','b']\ntrace=['1','2']\n\
         speedup={{from=1,to=100,steps=3,scale='log'}}\n\
         [[rule]]\nwhen='device = b and speedup > 50'\nskip=true\n"
    );
    let plan = plan(&text);
    let names: Vec<String> = plan
        .cells
        .iter()
        .map(|cell| {
            format!("{}{}x{}", cell.device, cell.trace, cell.setting("speedup").unwrap_or_default())
        })
        .collect();
    assert_eq!(names, ["a1x1", "a1x10", "a1x100", "b2x1", "b2x10"]);
    assert_eq!(plan.left_out, 1);
}

#[test]
fn the_same_run_twice_and_a_million_cells_are_refused() {
    let head = format!("name='x'\n{DEVICES}[replay]\ntrace='t'\n");
    let twice = format!("{head}[axes]\ndevice=['a']\nspeedup=[1,1]\n");
    assert!(refused(&twice).contains("stands twice"));
    let many = format!(
        "name='x'\nrepeats=1000\n{DEVICES}[axes]\ndevice=['a','b','c']\ntrace=['t-{{1..1000}}']\n"
    );
    assert!(refused(&many).contains("more than 1000000 cells"));
}

/// A campaign whose stack sets a queue and makes a file system.
const STACK: &str = "name='x'\norder='written'\n[devices]\na='sim:a'\n[replay]\ndevice='a'\n\
    trace='t'\n[[stack]]\nmodule='queue'\nset={scheduler='none'}\n[[stack]]\nmodule='fs'\n\
    size='1G'\n";

/// The settings of an entry of the stack, cell by cell.
fn of_stack(plan: &Plan, key: &str) -> Vec<String> {
    plan.cells.iter().map(|cell| cell.setting(key).unwrap_or_default()).collect()
}

#[test]
fn a_key_of_the_stack_is_an_axis_as_any_other() {
    for axes in [
        "[axes]\nstack.queue.set.scheduler=['none','bfq']\nstack.fs.type=['ext4','xfs']\n",
        "[axes]\n'stack.queue.set.scheduler'=['none','bfq']\n'stack.fs.type'=['ext4','xfs']\n",
        "[axes.stack.queue.set]\nscheduler=['none','bfq']\n[axes.stack.fs]\ntype=['ext4','xfs']\n",
    ] {
        let mut plan = plan(&format!("{STACK}{axes}"));
        plan.cells.sort_by_key(Cell::name);
        let schedulers = of_stack(&plan, "stack.queue.set.scheduler");
        let types = of_stack(&plan, "stack.fs.type");
        let points: std::collections::BTreeSet<_> = schedulers.iter().zip(&types).collect();
        assert_eq!((plan.cells.len(), points.len()), (4, 4), "{axes}");
        // The modules have these settings.
        for (cell, (scheduler, kind)) in plan.cells.iter().zip(schedulers.iter().zip(&types)) {
            let [queue, fs] = &cell.identity.stack[..] else { panic!("two modules") };
            assert_eq!(queue.settings["set.scheduler"].shown(), *scheduler);
            assert_eq!(fs.settings["type"].shown(), *kind);
        }
    }
}

#[test]
fn an_axis_of_the_stack_may_have_steps_and_leave_an_entry_out() {
    let steps = "[axes]\nstack.queue.set.nr_requests={from=1,to=64,steps=3,scale='log'}\n";
    let counts = of_stack(&plan(&format!("{STACK}{steps}")), "stack.queue.set.nr_requests");
    assert_eq!(counts, ["1", "8", "64"]);
    let plan = plan(&format!("{STACK}[axes]\nstack.fs.enable=[true,false]\n"));
    let lengths: Vec<_> = plan.cells.iter().map(|cell| cell.identity.stack.len()).collect();
    assert_eq!(
        (of_stack(&plan, "stack.fs.enable"), lengths),
        (["true", "false"].map(str::to_owned).to_vec(), vec![2, 1])
    );
}

#[test]
fn conditions_ask_for_keys_of_the_stack() {
    let text = format!(
        "{STACK}[axes]\nstack.queue.set.scheduler=['none','bfq']\n\
         [layers.big]\nstack.fs.size='2G'\n[layers.small]\n[[rule]]\n\
         when='stack.queue.set.scheduler = bfq and stack.fs.enable = true'\n\
         set={{stack.fs.size='3G',speedup=2}}\n[[rule]]\nwhen='stack.fs.every = cell'\nskip=true\n\
         [[expect]]\nthat='stack.fs.size = 3G or iops > 5'\n"
    );
    let plan = plan(&text);
    assert_eq!(of_stack(&plan, "stack.fs.size"), ["1G", "3G"]);
    assert_eq!(of_stack(&plan, "speedup"), ["", "2"]);
    // After the run as well.
    let that = &plan.file.expectations[0].that;
    let holds = |cell: usize| that.holds(&|name| plan.cells[cell].setting(name), None);
    assert_eq!([holds(0), holds(1)], [false, true]);
}

#[test]
fn an_axis_that_the_stack_does_not_have_is_told_with_its_place() {
    for (axes, place, told) in [
        ("stack.queu.set.scheduler=['x']", "c.toml:15:7", "did you mean 'queue'?"),
        ("stack.fs.tipe=['x']", "c.toml:15:10", "did you mean 'type'?"),
        ("stack.fs='x'", "c.toml:15:7", "no key of fs ''"),
        ("'stack.fs.tipe'=['x']", "c.toml:15:1", "did you mean 'type'?"),
        ("stack.fs.type=['tmpfs']", "c.toml:15:16", "write ext4 or xfs or btrfs"),
        ("'stack.fs.type'=['xfs']\nstack.fs.type=['xfs']", "c.toml:16:10", "already"),
    ] {
        let refused = refused(&format!("{STACK}[axes]\n{axes}\n"));
        assert!(refused.starts_with(place) && refused.contains(told), "{axes}\n{refused}");
    }
    let rule = format!("{STACK}[[rule]]\nwhen='stack.fs.tipe = xfs'\nskip=true\n");
    assert!(refused(&rule).contains("'stack.fs.tipe' is not known"), "{}", refused(&rule));
}

#[test]
fn what_a_cell_lacks_is_told_with_a_place() {
    for (text, place) in [
        ("name = 1\n", "c.toml:1:8: a cell has no device"),
        ("name='x'\n[devices]\na='sim'\n[replay]\ndevice='a'\n", "c.toml:4:1: a cell has no trace"),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(place), "{refused}");
    }
    let twice = format!(
        "name='x'\n{DEVICES}[replay]\ntrace='t'\n[layers.b]\n[layers.c]\n[axes]\ndevice=['a']\n\
         mode=['b','c']\n"
    );
    assert!(refused(&twice).starts_with("c.toml:6:"), "{}", refused(&twice));
}

#[test]
fn a_device_of_others_is_told_apart_by_each_of_them() {
    let text = "name='x'\n[devices]\na={path='/dev/sda',serial='1'}\nb='/dev/sdb'\n\
                pool={of=['a','b']}\n[replay]\ndevice='pool'\ntrace='1'\n[[stack]]\nmodule='md'\n\
                level=1\n";
    let plan = plan(text);
    let cell = &plan.cells[0];
    assert_eq!((cell.members.len(), cell.target.as_str()), (2, "/dev/sda + /dev/sdb"));
    assert_eq!(cell.identity.device, "/dev/sda + /dev/sdb");
    for (from, to, reason) in [
        ("['a','b']", "['a','d']", "no device 'd'"),
        ("['a','b']", "['a','a']", "'a' is there twice"),
        ("['a','b']", "['a','pool']", "'pool' is not one device with a path"),
        ("{of=['a','b']}", "{of=['a','b'],serial='1'}", "consists of devices"),
        ("{of=['a','b']}", "{of=['a','b'],path='/dev/sdc'}", "no path, or two"),
    ] {
        let told = refused(&text.replace(from, to));
        assert!(told.contains(reason), "{told}");
    }
}

const LISTED: &str = "name='x'\norder='written'\n[devices]\na='sim:a'\nb='sim:b'\n\
    both={of=['a','b']}\n\
    [[run]]\nat={run='r',rate='max'}\nset={device='both',flow=['x=gen:y;on=1','z;on=2']}\n\
    [[run]]\nat={run='r',rate='50%'}\n\
    set={device='both',flow=['x=gen:y?rate={50% of run 1};on=1','z;on=2'],warmup='3s'}\n\
    [[run]]\nat={run='q',threads=8}\nset={device='a',flow='gen:y;threads=8',speedup=2}\n";

#[test]
fn listed_runs_have_their_own_settings_and_a_value_of_every_axis() {
    let plan = plan(LISTED);
    let names: Vec<String> = plan.cells.iter().map(Cell::name).collect();
    let expected =
        ["run=r rate=max threads=- #1", "run=r rate=50% threads=- #1", "run=q rate=- threads=8 #1"];
    assert_eq!(names, expected);
    let [max, half, other] = &plan.cells[..] else { panic!() };
    assert_eq!((max.members.len(), &max.identity.requests[..]), (2, "flow + z;on=2"));
    assert_eq!(half.identity.base.as_ref(), Some(&max.key));
    assert_eq!((half.branch, half.warmup()), (max.branch, Some(Nanos::from_secs(3))));
    assert_ne!(other.branch, max.branch);
    assert_eq!((other.members.len(), &other.trace[..]), (0, ""));
    assert_eq!(other.setting("speedup").as_deref(), Some("2"));
    let axes: Vec<&str> = plan.file.axes.iter().map(|axis| axis.name.as_str()).collect();
    assert_eq!(axes, ["run", "rate", "threads"]);
}

#[test]
fn what_listed_runs_cannot_mean_is_refused() {
    for (from, to, reason) in [
        ("[devices]", "[axes]\nspeedup=[1]\n[devices]", "do not go together"),
        ("50% of run 1", "50% of run 2", "is not known when this run begins"),
        ("50% of run 1", "50% of ran 1", "50% of ran 1"),
        ("rate='50%'", "rate='max'", "a run with these values already"),
        ("warmup='3s'", "warmup='soon'", "'soon' is no time"),
        ("speedup=2", "trace='t'", "a load, and flows besides"),
        ("threads=8}\nset={device='a'", "threads=8}\nunless='p99>1ms'\nset={device='a'", "no part"),
        ("rate='50%'}", "rate='50%'}\nunless='colour>1ms'", "colour"),
        ("set={device='a',", "sat={device='a',", "sat"),
    ] {
        let told = refused(&LISTED.replace(from, to));
        assert!(told.contains(reason), "{told}");
    }
}
