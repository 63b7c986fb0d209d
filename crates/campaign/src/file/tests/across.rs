//! Stacks that go across hosts.

use super::{plan, refused};
use crate::stack::levels;

const SAN: &str = "name='san'\n[hosts]\nsan={ssh='root@san'}\nother={launch=[]}\n\
    \"n{01..10}\"={ssh='root@n{}'}\n[devices]\n\
    pool={host='san',path='/dev/md0',uuid='9c1e77a0'}\n[replay]\ndevice='pool'\n\
    trace=['web-{01..10}.load.gz']\n[axes]\ntargets-max=[1,2,5,10]\n";

fn with(entries: &str) -> String {
    format!("{SAN}{entries}")
}

const TARGET: &str = "[[stack]]\nmodule='lvm'\ncount=10\nsize='80G'\n\
    [[stack]]\nmodule='iscsi-target'\nportal='10.0.0.1'\n";

const INITIATOR: &str = "[[stack]]\nmodule='iscsi-initiator'\nhosts=['n{01..10}']\n";

#[test]
fn a_target_on_one_host_is_for_initiators_on_others() {
    let plan = plan(&with(&format!("{TARGET}{INITIATOR}[[stack]]\nmodule='fill'\n")));
    assert_eq!(plan.cells.len(), 4);
    let cell = plan.cells.iter().find(|cell| cell.setting("targets-max").unwrap() == "2").unwrap();
    let told: Vec<String> =
        cell.hosts.iter().map(|it| format!("{} {}", it.host, it.trace)).collect();
    assert_eq!(told, ["n01 web-01.load.gz", "n02 web-02.load.gz"]);
    let parts: Vec<Vec<&str>> = levels(&cell.identity.stack)
        .iter()
        .map(|part| part.iter().map(|placed| placed.name.as_str()).collect())
        .collect();
    assert_eq!(parts, [vec!["lvm", "iscsi-target"], vec!["iscsi-initiator", "fill"]]);
    assert_eq!(cell.levels[0][0].host, "san");
    // Each host has its volume, whoever else takes part.
    assert_eq!(cell.levels[1].len(), 10);
    assert_eq!(cell.in_hand().count(), 11);
    assert_eq!(cell.identity.device, "there:9c1e77a0 by 2");
    assert_eq!((plan.file.rank("san"), plan.file.rank("n01")), (0, 3));
    assert!(plan.cells[0].shares_a_host(&plan.cells[1]));
}

#[test]
fn without_the_initiator_the_load_is_on_the_hosts_of_the_device() {
    let layers = "where=['here','there']\n[layers.there]\n[layers.here]\n\
        stack.iscsi-target.enable=false\nstack.iscsi-initiator.enable=false\n";
    let text = with(&format!("{TARGET}{INITIATOR}"));
    let text = text.replace("targets-max=[1,2,5,10]\n", layers);
    let plan = plan(&text);
    let hosts: Vec<usize> = plan.cells.iter().map(|cell| cell.hosts.len()).collect();
    assert!(hosts == [1, 10] || hosts == [10, 1], "{hosts:?}");
    // What stands on the initiators may stand on what the other cell changes.
    assert!(plan.cells.iter().all(|cell| cell.in_hand().count() == 11));
}

#[test]
fn what_hosts_do_not_get_from_each_other_is_refused_at_its_place() {
    let (lvm, initiator) = ("[[stack]]\nmodule='lvm'\n", INITIATOR);
    let target = |more: &str| format!("[[stack]]\nmodule='iscsi-target'\n{more}{initiator}");
    let nvme = |more: &str| {
        let hosts = initiator.replace("iscsi", "nvme");
        format!("[[stack]]\nmodule='nvme-target'\n{more}{hosts}")
    };
    for (entries, told) in [
        (initiator.to_owned(), "nothing hands pool over to other hosts"),
        (format!("{lvm}{initiator}"), "other hosts do not see the volumes of lvm"),
        (target(""), "iscsi-target: other hosts reach it by an address"),
        (nvme(""), "nvme-target: loop is within one host"),
        (nvme("transport='tcp'\n"), "nvme-target: other hosts reach it by an address"),
        (
            nvme("transport='tcp'\nportal='10.0.0.1'\n").replace("nvme-initiator", "fill"),
            "fill takes in nothing of nvme-target",
        ),
        (
            target("portal='10.0.0.1'\n").replace("'n{01..10}'", "'san'"),
            "san has a part of the stack below",
        ),
        (target("portal='10.0.0.1'\n").replace("n{01..10}", "n11"), "no host 'n11'"),
        (target("portal='10.0.0.1'\n").replace("hosts=", "host="), "'host'"),
    ] {
        let told_us = refused(&with(&entries));
        assert!(told_us.contains(told) && told_us.contains(".toml:"), "{told}: {told_us}");
    }
    let text = with(&target("portal='10.0.0.1'\n"));
    let here = text.replace("host='san',", "").replace("[axes]\ntargets-max=[1,2,5,10]\n", "");
    assert!(refused(&here).contains("'pool' has none"), "{}", refused(&here));
    let finish = text.replace("name='san'", "name='san'\non-controller-loss='finish'");
    assert!(refused(&finish).contains("leave out on-controller-loss"), "{}", refused(&finish));
}
