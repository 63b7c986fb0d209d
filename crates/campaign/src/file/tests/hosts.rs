//! Hosts of a file, and who replays there.

use super::{plan, refused};
use crate::plan::Cell;
use crate::value::Value;

const HOSTS: &str = "name='x'\nstart.skew='2ms'\n[hosts]\n\"n{08..10}\"={ssh='root@n{}'}\n\
    lab={launch=['ip','netns','exec','{host}']}\nhere={launch=[]}\n";

fn with(device: &str, replay: &str) -> String {
    format!("{HOSTS}[devices]\nd={device}\n[replay]\ndevice='d'\n{replay}")
}

#[test]
fn hosts_are_reached_by_ssh_or_any_other_command() {
    let file = plan(&with("{host='here',path='sim'}", "trace='t'\n")).file;
    let names: Vec<&str> = file.hosts.iter().map(|host| host.name.as_str()).collect();
    // In the order of their letters, as the table has them.
    assert_eq!(names.len(), 5);
    let launch = |name: &str| file.host(name).unwrap().launch.join(" ");
    assert!(launch("n08").starts_with("ssh ") && launch("n08").ends_with(" root@n08"));
    assert!(file.host("n10").unwrap().is_shell && !file.host("lab").unwrap().is_shell);
    assert_eq!((launch("lab").as_str(), launch("here").as_str()), ("ip netns exec lab", ""));
    assert_eq!(file.start_skew, ioecho_trace::Nanos::from_millis(2));
}

#[test]
fn loads_are_dealt_in_turn_and_the_first_hosts_take_part() {
    let device = "{host=['n{08..10}','lab'],path='/dev/{host}'}";
    let replay = "trace=['w{1..2}-{host}','x']\n[axes]\ntargets-max=[1,4]\n";
    let plan = plan(&with(device, replay));
    let [one, all] = &plan.cells[..] else { panic!() };
    assert_eq!((one.hosts.len(), all.hosts.len()), (1, 4));
    let told: Vec<String> =
        all.hosts.iter().map(|it| format!("{} {} {}", it.host, it.target, it.trace)).collect();
    assert_eq!(
        told,
        ["n08 /dev/n08 w1-n08", "n09 /dev/n09 w2-n09", "n10 /dev/n10 x", "lab /dev/lab w1-lab"]
    );
    assert_eq!(one.identity.device, "there:n08:/dev/n08");
    assert_ne!(one.key, all.key);
    // A device that proves itself is the same wherever it is reached from.
    let device = "{host=['n08'],path='/dev/sda',serial='S1'}";
    let proven = super::plan(&with(device, "trace='t'\n"));
    assert_eq!(proven.cells[0].identity.device, "there:S1");
}

#[test]
fn a_host_has_settings_of_its_own_which_overrule_those_of_its_device() {
    let hosts = HOSTS.replace("ssh='root@n{}'", "ssh='root@n{}',set={in-flight-max='{}'}");
    let replay = "trace='t'\nspeedup=2\n[axes]\nread-only=[true,false]\n";
    let device = "{host=['n{08..09}','here'],path='sim',set={in-flight-max=7,speedup=3}}";
    let text = format!("{hosts}[devices]\nd={device}\n[replay]\ndevice='d'\n{replay}");
    let plan = plan(&text);
    let cell = &plan.cells[0];
    let own: Vec<_> = cell.hosts.iter().map(|it| it.set.get("in-flight-max").cloned()).collect();
    let one = |text: &str| Some(Value::One(text.to_owned()));
    assert_eq!(own, [one("08"), one("09"), None]);
    assert_eq!(cell.identity.replay["in-flight-max"], Value::One("7".to_owned()));
    assert_eq!(cell.identity.replay["speedup"], Value::One("3".to_owned()));
    let other = text.replace("in-flight-max='{}'", "in-flight-max='1{}'");
    assert_ne!(super::plan(&other).cells[0].key, cell.key, "they decide the result");
    let alone = text.replace("['n{08..09}','here']", "'n08'");
    assert_eq!(super::plan(&alone).cells[0].setting("in-flight-max").as_deref(), Some("08"));
    // Axes and rules overrule them.
    let ruled = format!("{text}[[rule]]\nwhen='read-only = true'\nset={{in-flight-max=1}}\n");
    let plan = super::plan(&ruled);
    let ruled = |cell: &Cell| cell.hosts.iter().all(|member| member.set.is_empty());
    assert_eq!(plan.cells.iter().filter(|cell| ruled(cell)).count(), 1);
    let device = text.replace("in-flight-max='{}'", "trace='x'");
    assert!(refused(&device).contains("trace is the same on all hosts"), "{}", refused(&device));
    let rule = "[[rule]]\nwhen='in-flight-max = 108'\nset={trace='y'}\n";
    assert!(refused(&format!("{other}{rule}")).contains("another on n08 alone"));
}

#[test]
fn what_no_host_can_be_is_refused() {
    let hosts = |text: &str| format!("name='x'\n[hosts]\n{text}\n[devices]\nd='sim'\n");
    for (text, told) in [
        ("a={}", "no way to it"),
        ("a={ssh='h',launch=[]}", "or two"),
        ("a={ssh='-oProxyCommand=x'}", "no host for ssh"),
        ("a={ssh='h x'}", "no host for ssh"),
        ("'../a'={launch=[]}", "no name of a host"),
        ("'a b'={launch=[]}", "no name of a host"),
        ("'a{1..2}{1..2}'={launch=[]}", "no name of hosts"),
        ("a={launch=['x','{number}']}", "no name 'number'"),
        ("a={launch=[],directory='cache'}", "no place on every host"),
        ("a={port=1}", "no key of a host 'port'"),
    ] {
        assert!(refused(&hosts(text)).contains(told), "{text}: {}", refused(&hosts(text)));
    }
    let parallel = with("'sim'", "trace='t'\n").replace("[hosts]", "parallel='host'\n[hosts]");
    assert!(refused(&parallel).contains("'d' has no host"), "{}", refused(&parallel));
    for (device, replay, told) in [
        ("{host='n11',path='sim'}", "trace='t'\n", "no host 'n11'"),
        ("{host=['lab','lab'],path='sim'}", "trace='t'\n", "stands here twice"),
        ("'sim'", "trace=['a','b']\n", "for several hosts"),
        ("'sim'", "trace='t'\ntargets-max=2\n", "needs a device on several hosts"),
        ("{host='lab',path='sim'}", "trace='t'\ntargets-max=0\n", "no number of hosts"),
    ] {
        let text = with(device, replay);
        assert!(refused(&text).contains(told), "{told}: {}", refused(&text));
    }
}
