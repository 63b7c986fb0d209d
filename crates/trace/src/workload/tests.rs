use std::collections::BTreeMap;

use proptest::prelude::*;

use super::model::{Seek, Value, Workload};
use super::plan::{Asked, Leaf, LeafRate};
use super::*;
use crate::place::Place;

/// Files with the constructs that published ones have.
const FILES: [&str; 5] = [
    "* a comment\n\
     compratio=2\n\
     sd=default,openflags=o_direct,th=16\n\
     sd=s1,lun=/dev/one,size=10g\n\
     sd=s2,lun=/dev/two,size=10g,threads=4\n\
     wd=mix,sd=s*,rdpct=70,xfersize=(4k,60,64k,40)\n\
     wd=seq,sd=s1,seekpct=seq,xf=1m,rdpct=0,skew=20\n\
     rd=one,wd=(mix,seq),iorate=(100,max),el=10,in=1,forthreads=(1-4,d),warmup=5\n\
     rd=two,wd=mix,iorate=curve,curve=(50,100),elapsed=1m\n",
    "hd=default,user=root,shell=ssh\n\
     hd=h1,system=one.example\n\
     hd=h2, system=h2\n\
     fsd=default,depth=2,width=3,files=5,sizes=(64k,50,1m,50)\n\
     fsd=f1,anchor=/mnt/one\n\
     fwd=format,threads=4,xfersize=64k\n\
     fwd=w1,fsd=f1,host=h1,operation=read,fileio=(random,shared),fileselect=(poisson,5)\n\
     fwd=w2,fsd=f1,host=h2,rdpct=50,fileio=sequntial,threads=2\n\
     rd=r1,fwd=w*,fwdrate=max,format=(clean,only),elapsed=1h\n\
     rd=r2,fwd=(w1,w2,),fwdrate=100,foroperations=(create,read,delete)\n",
    "sd=s,lun=$lun,size=1g wd=no\n  wd=w,sd=s,rdpct=$read,\n  seekpct=eof,\n\
     rd=r,wd=w,iorate=max\neof\nnonsense\n",
    "sd=s,lun=/dev/x,size=100g,range=(50,150),offset=512,wd=w1,sd=s,stride=(4k,128k),\
     xfersize=(4k,64k,4k),wd=w2,sd=s,hotband=(10,20),wd=w3,sd=s,streams=4,rdpct=83.14,\
     rd=r,wd=w*,dist=(d,variable),iorate=(100,5,200,5)\n",
    "<title>Vdbench out/parmfile.html</title><pre>\n\n\
     sd=sd1,lun=/tmp/f%03d,count=(1,3),size=200m\n\
     rd=default,xfersize=8k,rdpct=100\n\
     rd=a,sd=sd*,seekpct=(0,100)\n\
     rd=b,sd=single,rhpct=50,hitarea=10m,dist=u,iorate=50\n",
];

fn reading(variables: &[(&str, &str)]) -> Reading {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Reading { variables: variables.collect(), debug_lines: false }
}

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<Description, Box<Faults>> {
    let input = Input { name: "a.vdb".to_owned(), bytes: text.as_bytes().to_vec() };
    let missing = |_: &str, name: &str| Err(format!("{name} is not there"));
    read(&[input], &reading(variables), &missing)
}

fn all_files() -> Vec<Description> {
    let with = |text: &&str| read_with(text, &[("lun", "/dev/v"), ("read", "25")][..]);
    let without = |text: &str| read_with(text, &[]);
    FILES
        .iter()
        .map(|text| if text.contains('$') { with(text) } else { without(text) })
        .map(|read| read.unwrap_or_else(|faults| panic!("{faults}")))
        .collect()
}

/// What is wrong with a text, or with the plan of its runs.
fn faults(text: &str) -> String {
    match read_with(text, &[]) {
        Err(faults) => faults.to_string(),
        Ok(read) => match Plan::new(&read.workload, Asked::default(), &|_| None) {
            Err(faults) => faults.to_string(),
            Ok(_) => panic!("{text}"),
        },
    }
}

fn plan_of(workload: &Workload, look: impl FnOnce(&Plan<'_>)) {
    let asked = Asked { seed: 7, ..Asked::default() };
    let plan = Plan::new(workload, asked, &|_| Some(1 << 40));
    look(&plan.unwrap_or_else(|faults| panic!("{faults}")));
}

#[test]
fn loops_come_in_the_order_in_which_they_stand_and_rates_are_the_innermost() {
    let read = &all_files()[0];
    plan_of(&read.workload, |plan| {
        let told: Vec<String> = plan.leaves().map(|leaf| leaf.told()).collect();
        assert_eq!(
            told,
            [
                "threads=1 rate=100",
                "threads=1 rate=max",
                "threads=2 rate=100",
                "threads=2 rate=max",
                "threads=4 rate=100",
                "threads=4 rate=max",
                "rate=max",
                "rate=50% of run 7",
                "rate=100% of run 7",
            ]
        );
        assert_eq!((plan.count(), plan.time().as_secs_f64()), (9, 6.0 * 15.0 + 180.0));
        let first = plan.leaves().next().unwrap();
        let lines: Vec<&str> = first.flows.iter().map(|flow| flow.line.as_str()).collect();
        assert!(
            lines[0].starts_with(
                "gen:random?read=70&size=4k:60,64k:40&area=10485756k&offset=4k&rate=40&dist=poisson\
             &duration=15s&seed="
            ),
            "{}",
            lines[0]
        );
        assert!(
            lines[2].starts_with(
                "gen:sequential?read=0&size=1M&area=10239M&offset=1M&rate=20&dist=poisson"
            ),
            "{}",
            lines[2]
        );
        // Both loads of s1 share its places where they are as fast as they can be.
        let last = plan.leaves().nth(5).unwrap();
        let places: Vec<u64> = last.flows.iter().map(|flow| flow.in_flight).collect();
        assert_eq!(places, [2, 4, 2]);
        assert!(last.flows.iter().all(|flow| flow.is_closed && flow.line.contains("endless=yes")));
    });
}

#[test]
fn every_line_of_a_plan_is_one_that_a_generator_takes() {
    let mut lines = 0;
    for read in all_files() {
        plan_of(&read.workload, |plan| {
            for flow in plan.leaves().flat_map(|leaf| leaf.flows) {
                if flow.is_whole {
                    let opened = crate::generate::open(std::path::Path::new(&flow.line));
                    let error = opened.err().map(|error| error.to_string());
                    assert_eq!(error, None, "{}", flow.line);
                    lines += 1;
                }
            }
        });
    }
    assert!(lines > 20, "{lines}");
}

#[test]
fn a_seed_belongs_to_its_run_its_loops_and_its_flow_and_not_to_the_rate() {
    let read = &all_files()[0];
    plan_of(&read.workload, |plan| {
        let seed = |run: usize, flow: usize| {
            let leaf = plan.leaves().nth(run).unwrap();
            leaf.flows[flow].line.rsplit_once("seed=").unwrap().1.to_owned()
        };
        assert_eq!(seed(0, 0), seed(1, 0));
        assert_ne!(seed(0, 0), seed(2, 0));
        assert_ne!(seed(0, 0), seed(0, 1));
        assert_ne!(seed(0, 0), seed(6, 0));
    });
}

/// A run without the places where it is defined, which are others in another file.
fn anywhere(mut leaf: Leaf) -> Leaf {
    let nowhere = Place::outside("");
    let of_files = leaf.files.iter_mut().flat_map(|it| it.flows.iter_mut().chain(&mut it.makes));
    leaf.flows.iter_mut().chain(of_files).for_each(|flow| flow.place = nowhere.clone());
    Leaf { place: nowhere, ..leaf }
}

#[test]
fn the_own_form_means_the_same_as_the_file_it_was_made_of() {
    for read in all_files() {
        let toml = read.to_toml();
        let input = Input { name: "a.toml".to_owned(), bytes: toml.clone().into_bytes() };
        assert_eq!(recognised(&input.bytes), Some(Form::Toml));
        let missing = |_: &str, name: &str| Err(format!("{name} is not there"));
        let again = super::read(&[input], &Reading::default(), &missing)
            .unwrap_or_else(|faults| panic!("{toml}\n{faults}"));
        plan_of(&read.workload, |one| {
            plan_of(&again.workload, |other| {
                let (one, other): (Vec<_>, Vec<_>) =
                    (one.leaves().map(anywhere).collect(), other.leaves().map(anywhere).collect());
                assert_eq!(one, other, "{toml}");
            });
        });
        assert_eq!(read.workload.general, again.workload.general);
        // What is written once is not changed by writing it again.
        assert_eq!(again.to_toml(), toml);
    }
}

#[test]
fn the_example_of_the_own_form_is_understood() {
    let text = "compress = 2\n\
        [storage.disk]\npath = \"/dev/sdb\"\nsize = \"10g\"\n\
        [flow.oltp]\non = \"disk\"\nsize = \"4k:60,8k:40\"\nread = 70\n\
        [flow.batch]\non = \"disk\"\nfrom = \"night.parquet\"\n\
        [tree.mail]\nanchor = \"/mnt/x\"\nfiles = 1000\nsizes = \"16k\"\n\
        [flow.mail]\non = \"mail\"\nops = [\"delete\", \"create\"]\n\
        [[run]]\nflows = [\"oltp\", \"batch\"]\nrate = \"curve\"\n\
        for = { threads = [8, 32], read = [0, 100] }\nduration = \"60s\"\n\
        [[run]]\nname = \"mail\"\nflows = \"mail\"\nrate = 100\n";
    let read = read_with(text, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let run = &read.workload.runs[0];
    assert_eq!((run.loops[0].key, &run.loops[1].values[1]), ("threads", &Value::Decimal(100.0)));
    assert_eq!((run.works.len(), read.workload.runs[1].file_works.len()), (2, 1));
    plan_of(&read.workload, |plan| {
        assert_eq!(plan.count(), 4 * 7 + 1);
        assert_eq!(plan.leaves().next().unwrap().flows[1].line, "night.parquet");
    });
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place_its_line_and_the_remedy() {
    let told = faults(
        "sd=sd1,lun=/dev/x,thread=4\n\
         wd=wd1,sd=sd1,rdpct=x,colour=blue\n\
         rd=rd1,wd=wd1,iorate=max,elapsed=120,dedupratio=3\n\
         rd=rd2,wd=wd9,iorate=max\n",
    );
    assert_eq!(
        told,
        "a.vdb:2:21: 'x' is no percentage\n  \
         wd=wd1,sd=sd1,rdpct=x,colour=blue\n  \
         = help: write it like 70 or 12.5\n\
         a.vdb:2:23: wd has no 'colour'\n  \
         wd=wd1,sd=sd1,rdpct=x,colour=blue\n  \
         = help: no section has it; docs/workloads.md lists all keywords\n\
         a.vdb:3:38: rd has no 'dedupratio'\n  \
         rd=rd1,wd=wd1,iorate=max,elapsed=120,dedupratio=3\n  \
         = help: it is a general parameter; put it on a line before sd=\n\
         a.vdb:4:11: there is no wd 'wd9'\n  \
         rd=rd2,wd=wd9,iorate=max\n  \
         = help: did you mean 'wd1'?"
    );
}

/// Wrong files, each with the places and a word of each reason, and whether it is impossible rather
/// than wrongly written.
const WRONG: &[(&str, &str, bool)] = &[
    ("sd=a,lun=/x\nwd=w,sd=a\n", "a.vdb: there is no rd", false),
    ("sd=a,lun=$x\nwd=w,sd=a\nrd=r,wd=w\n", "a.vdb:1:10: the variable 'x' has no value", false),
    ("include=other\nrd=r,sd=s\n", "a.vdb:1:9: other is not there", false),
    ("sd=a\nwd=w,sd=a\nrd=r,wd=w\n", "a.vdb:1:1: the sd 'a' has no lun", false),
    ("sd=a,lun=/x,lun\nrd=r,sd=a\n", "a.vdb:1:13: 'lun' is no key=value", false),
    ("sd=a,lun=\nrd=r,sd=a\n", "a.vdb:1:6: 'lun' has no value", false),
    ("sd=a,lun=/x,range=(1,2\nrd=r,sd=a\n", "a.vdb:1:19: the bracket is not closed", false),
    ("sd=a,lun=/x,range=(1, 2)\nrd=r,sd=a\n", "a.vdb:1:22: a blank begins a comment", false),
    ("sd=a,lun=/x,range=(1,2)x\nrd=r,sd=a\n", "a.vdb:1:19: 'x' stands behind", false),
    ("sd=a,lun=/x\nsd=a,lun=/y\nrd=r,sd=a\n", "a.vdb:2:1: there are two sd", false),
    ("sd=a,lun=/x,size=big\nrd=r,sd=a\n", "a.vdb:1:18: 'big' is no size", false),
    ("sd=a,lun=/x,openflags=fast\nrd=r,sd=a\n", "a.vdb:1:23: 'fast' is none of", false),
    ("sd=a,lun=/x,resetlun=5\nrd=r,sd=a\n", "a.vdb:1:13: resetlun= is not possible", false),
    ("sd=a,lun=/x,host=h\nrd=r,sd=a\n", "a.vdb:1:1: there is no hd 'h'", false),
    ("sd=a,lun=/x\nrd=r,sd=b*\n", "a.vdb:2:9: there is no sd 'b*'", false),
    ("sd=a,lun=/x\nwd=w\nrd=r,wd=w\n", "a.vdb:2:1: the wd 'w' names no sd", false),
    ("sd=a,lun=/x\nrd=r,elapsed=5\n", "a.vdb:2:1: the rd 'r' names no wd", false),
    ("sd=a,lun=/x\nrd=r,sd=a,elapsed=soon\n", "a.vdb:2:19: 'soon' is no span of time", false),
    ("sd=a,lun=/x\nrd=r,sd=a,fwdrate=5\n", "a.vdb:2:11: fwdrate does not go with", false),
    ("sd=a,lun=/x\nrd=r,sd=a,forthreads=(1-8)\n", "a.vdb:2:23: the range '1-8' has no", false),
    ("sd=a,lun=/x\nwd=w,sd=a,xfersize=(4k,50,8k)x\nrd=r,wd=w\n", "a.vdb:2:20: 'x' stands", false),
    ("sd=a,lun=/x\nwd=w,sd=a,xfersize=(4k,1,8k,2,3)\nrd=r,wd=w\n", "a.vdb:2:11: xfersize", false),
    ("sd=a,lun=/x\nwd=w,sd=a,wd=v\nrd=r,wd=q\n", "a.vdb:3:9: there is no wd 'q'", false),
    ("sd=a,lun=/x,th=5,th=6\nrd=r,sd=a\n", "a.vdb:1:18: 'threads' stands twice", false),
    ("hd=h,clients=5\nsd=a,lun=/x\nrd=r,sd=a\n", "a.vdb:1:6: clients= is not", false),
    ("sd=a,lun=/x\nwd=w,sd=a,user=c\nrd=r,wd=w\n", "a.vdb:2:11: user= is not possible", false),
    ("fsd=f,depth=1\nfwd=w,fsd=f\nrd=r,fwd=w\n", "a.vdb:1:1: the fsd 'f' has no anchor", false),
    ("fsd=f,anchor=/f\nfwd=w,fsd=f,file=x\nrd=r,fwd=w\n", "a.vdb:2:13: fwd has no 'file'", false),
    ("sd=$host,lun=/x\nrd=r,sd=a\n", "a.vdb:1:1: the line is repeated for every host", false),
    ("sd=a,lun=/x\nwd=w,sd=a,rdpct=150\nrd=r,wd=w\n", "a.vdb:2:17: rdpct=150 is not", true),
    ("sd=a,lun=/x,threads=0\nrd=r,sd=a\n", "a.vdb:1:21: threads=0 is not possible", true),
    ("sd=a,lun=/x,align=1536\nrd=r,sd=a\n", "a.vdb:1:19: align=1536 is not possible", true),
    ("sd=a,lun=/x,range=(60,20)\nrd=r,sd=a\n", "a.vdb:1:20: range=(60,20) is not", true),
    ("sd=a,lun=/x\nwd=w,sd=a,xf=(4k,50,8k,20)\nrd=r,wd=w\n", "a.vdb:2:15: the shares", true),
    ("sd=a,lun=/x\nwd=w,sd=a,xf=100\nrd=r,wd=w\n", "a.vdb:2:14: xfersize holds a length", true),
    ("sd=a,lun=/x\nrd=r,sd=a,elapsed=0\n", "a.vdb:2:11: a run of no time", true),
    ("sd=a,lun=/x\nrd=r,sd=a,iorate=0\n", "a.vdb:2:18: a rate of iorate", true),
    ("sd=a,lun=/x\nrd=r,sd=a,forthreads=(1-9999999,1)\n", "a.vdb:2:23: the range", true),
    (
        "fsd=f,anchor=/a\nfsd=g,anchor=/a/b\nfwd=w,fsd=*\nrd=r,fwd=w\n",
        "a.vdb:2:1: the anchor",
        true,
    ),
    ("sd=a,lun=/x,size=200%\nrd=r,sd=a\n", "a.vdb:1:18: size=200% is not possible", true),
    ("compratio=0.5\nsd=a,lun=/x\nrd=r,sd=a\n", "a.vdb:1:11: compratio=0.5 is not", true),
    ("dedupratio=1001\nsd=a,lun=/x\nrd=r,sd=a\n", "a.vdb:1:12: dedupratio=1001 is", true),
    ("sd=a,lun=\"/x\nrd=r,sd=a\n", "a.vdb:1:10: the quotation mark \" is not closed", false),
    ("sd=a,lun=/x,size='1g\nrd=r,sd=a\n", "a.vdb:1:18: the quotation mark ' is", false),
    ("fsd=f,anchor=/f\nfwd=w,fsd=f,stopafter=0\nrd=r,fwd=w\n", "a.vdb:2:23: stopafter=0 is", true),
    ("fsd=f,anchor=/f\nfwd=w,fsd=f,stopafter=x\nrd=r,fwd=w\n", "a.vdb:2:23: 'x' is no", false),
    ("fsd=f,anchor=/f,files=0\nfwd=w,fsd=f\nrd=r,fwd=w\n", "a.vdb:1:23: files=0 is not", true),
    ("include=\"other\nrd=r,sd=s\n", "a.vdb:1:9: the quotation mark \" is not", false),
];

#[test]
fn a_wrong_file_is_refused_at_the_place_where_it_is_wrong() {
    for (text, expected, is_impossible) in WRONG {
        let faults = read_with(text, &[]).err().unwrap_or_else(|| panic!("{text}"));
        let told = faults.to_string();
        assert!(told.lines().any(|line| line.starts_with(expected)), "{text}{told}");
        assert!(told.contains("  = help: "), "{told}");
        assert_eq!(faults.kind() == FaultKind::Impossible, *is_impossible, "{told}");
    }
    assert!(WRONG.len() >= 40, "{}", WRONG.len());
}

#[test]
fn what_a_curve_needs_is_told_where_there_is_none_and_the_help_of_sizes_has_all_forms() {
    let text = "sd=a,lun=/x,size=1g\nrd=default,stopcurve=5\nrd=r,sd=a,iorate=max,curve=(10,50)\n\
        rd=s,sd=a,iorate=100\nrd=t,sd=a,iorate=(curve,100),curve=(10,50)\n";
    let read = read_with(text, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let told: Vec<String> =
        read.workload.told.iter().map(|it| format!("{}: {}", it.place, it.what)).collect();
    let expected = [
        "a.vdb:3:22: curve= counts for nothing in 'r': only iorate=curve needs it",
        "a.vdb:2:12: stopcurve= counts for nothing in 'r': only iorate=curve needs it",
    ];
    assert_eq!(told, expected);
    let told = faults("sd=a,lun=/x\nwd=w,sd=a,xfersize=(4k,64k)\nrd=r,wd=w\n");
    assert!(told.contains("xfersize=(4k,60,8k,40), or xfersize=(4k,64k,4k)"), "{told}");
}

#[test]
fn what_counts_for_nothing_is_told_and_a_name_counts_where_it_is_used() {
    let text = "debug=86\nhd=default,jvms=1\n sd=a,lun=/x,size=1g threads=4\n\
        wd=w,sd=nowhere\nrd=r,wd=w,sd=a\n";
    let read = read_with(text, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let told: Vec<String> =
        read.workload.told.iter().map(|it| format!("{}: {}", it.place, it.what)).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].starts_with("a.vdb:3:2: indented lines count"));
    assert_eq!(told[1], "a.vdb:3:21: 'threads=4' stands behind a blank and is a comment");
    assert!(told[2].starts_with("a.vdb:1:1: debug= counts for nothing"));
}

#[test]
fn variables_includes_hosts_and_counts_are_put_in() {
    let text = "hd=h1,system=a\nhd=h2,system=b\nsd=$host,host=$host,lun=/dev/$disk,size=#hosts\n\
        include=rest\nrd=r,wd=w\n";
    let input = Input { name: "d/a.vdb".to_owned(), bytes: text.as_bytes().to_vec() };
    let open = |by: &str, name: &str| {
        assert_eq!((by, name), ("d/a.vdb", "rest"));
        Ok(Input { name: "d/rest".to_owned(), bytes: b"wd=w,sd=h*,seekpct=eof\n".to_vec() })
    };
    let read = read(&[input], &reading(&[("disk", "sdq")]), &open);
    let workload = read.unwrap_or_else(|faults| panic!("{faults}")).workload;
    let names: Vec<&str> = workload.storages.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["h1", "h2"]);
    assert_eq!(workload.storages[0].paths, [(Some("h1".to_owned()), "/dev/sdq".to_owned())]);
    assert_eq!(workload.works[0].seek, Seek::Once);
    let counted = &all_files()[4].workload;
    let paths: Vec<&str> = counted.storages.iter().map(model::Storage::path).collect();
    assert_eq!(paths, ["/tmp/f001", "/tmp/f002", "/tmp/f003"]);
    plan_of(counted, |plan| {
        // Each storage by itself: 'single'.
        let rates: Vec<LeafRate> = plan.leaves().skip(2).map(|leaf| leaf.rate).collect();
        assert_eq!(rates, vec![LeafRate::Fixed(50.0); 3]);
    });
}

#[test]
fn an_include_that_includes_itself_ends() {
    let input = Input { name: "a".to_owned(), bytes: b"include=a\ninclude=a\n".to_vec() };
    let open = |_: &str, _: &str| {
        Ok(Input { name: "a".to_owned(), bytes: b"include=a\ninclude=a\n".to_vec() })
    };
    let faults = read(&[input], &Reading::default(), &open).unwrap_err().to_string();
    assert!(faults.contains("more than 16 deep"), "{faults}");
}

#[test]
fn traces_and_campaigns_are_not_taken_for_workloads() {
    for text in ["time,offset\n1,2\n", "0.5 R 8 16\n", "name = \"x\"\n[devices.d]\n", "", "\0sd=a"]
    {
        assert_eq!(recognised(text.as_bytes()), None, "{text}");
    }
    for text in FILES {
        assert_eq!(recognised(text.as_bytes()), Some(Form::Vdbench));
    }
}

/// Reads a text in every way, and walks a part of its plan.
fn survives(bytes: &[u8]) {
    let missing = |_: &str, name: &str| Err(format!("{name} is not there"));
    let value = |name: &str| (name.to_owned(), "50".to_owned());
    let has_variables = bytes.contains(&b'$');
    let names = if has_variables { &["lun", "read"][..] } else { &[] };
    let variables: BTreeMap<_, _> = names.iter().map(|name| value(name)).collect();
    let reading = Reading { variables, debug_lines: bytes.len().is_multiple_of(2) };
    let input = Input { name: "x".to_owned(), bytes: bytes.to_vec() };
    match read(&[input], &reading, &missing) {
        Err(faults) => assert!(!faults.is_empty() && !faults.to_string().is_empty()),
        Ok(read) => {
            let _ = read.to_toml();
            let plan = Plan::new(&read.workload, Asked::default(), &|_| Some(1 << 40));
            if let Ok(plan) = plan {
                assert!(plan.leaves().take(20).count() <= plan.count());
            }
        }
    }
}

#[test]
fn no_truncation_of_a_file_makes_it_panic() {
    let own: Vec<String> = all_files().iter().map(Description::to_toml).collect();
    for text in FILES.iter().map(|text| text.as_bytes()).chain(own.iter().map(String::as_bytes)) {
        for end in 0..text.len() {
            survives(&text[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Five files, two thousand times each: ten thousand mutations.
    #[test]
    fn no_mutation_of_a_file_makes_it_panic(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6
        ),
        words in prop::sample::select(vec![
            ",", "=", "(", ")", "\"", "$x", "!host", "#hosts", "-", "d", "%", "rd=", "sd=*", "eof",
            "99999999999999999999", "0", "-1", "1-1000000000,1", "default", "\n", " ", "*",
            "[[run]]",
        ]),
    ) {
        for text in FILES {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte, how) in &changes {
                let at = at.index(bytes.len().max(1)).min(bytes.len());
                match how {
                    0 if at < bytes.len() => bytes[at] = *byte,
                    1 if at < bytes.len() => _ = bytes.remove(at),
                    2 => bytes.truncate(at),
                    _ => _ = bytes.splice(at..at, words.bytes()),
                }
            }
            survives(&bytes);
        }
    }
}

/// Published files, where `IOECHO_DATA` says they are: cut off anywhere, and changed.
#[test]
fn no_published_file_cut_off_or_changed_makes_it_panic() {
    let Some(directory) = ioecho_fixture::recording("vdbench-parmfiles") else { return };
    let mut number = 1_u64;
    let mut random = || {
        number = crate::generate::random::scramble(number);
        number as usize
    };
    for entry in std::fs::read_dir(directory).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        survives(&bytes);
        for _ in 0..100 {
            survives(&bytes[..random() % (bytes.len() + 1)]);
            let mut changed = bytes.clone();
            for _ in 0..3 {
                let at = random() % changed.len().max(1);
                match (random() % 3, changed.get_mut(at)) {
                    (0, Some(byte)) => *byte = b"=,()\"$!#*-0d\n "[random() % 14],
                    (1, Some(_)) => _ = changed.remove(at),
                    (_, Some(_)) => changed.insert(at, b"=,()\"$!#*-0d\n "[random() % 14]),
                    (_, None) => {}
                }
            }
            survives(&changed);
        }
    }
}

/// The storages of a flow, what it has of each, and its line up to the first setting that says
/// when.
type Joined = (Vec<String>, Vec<(u64, u64)>, String);

/// The only flow of the first run.
fn joined(text: &str) -> Result<Joined, String> {
    let read = read_with(text, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let asked = Asked { seed: 7, ..Asked::default() };
    let sizes =
        |storage: &model::Storage| Some(if storage.name == "a" { 1 << 30 } else { 1 << 20 });
    let plan = Plan::new(&read.workload, asked, &sizes).map_err(|faults| faults.to_string())?;
    read.check_runs(&plan, &sizes, false).map_err(|faults| faults.to_string())?;
    let leaf = plan.leaves().next().unwrap();
    let [flow] = &leaf.flows[..] else { panic!("{:?}", leaf.flows) };
    let line = flow.line.split("&endless").next().unwrap_or_default().to_owned();
    Ok((flow.storages.clone(), flow.parts.clone(), line))
}

#[test]
fn storages_that_are_one_volume_have_one_load_over_all_of_them() {
    let head = "concatenatesds=yes\nsd=a,lun=/dev/a\nsd=b,lun=b,size=1000000\nsd=c,lun=/dev/c\n";
    let of = |work: &str| joined(&format!("{head}wd=w,sd=*,{work}\nrd=r,wd=w,iorate=max\n"));
    let names = |names: &str| names.chars().map(String::from).collect::<Vec<_>>();
    // Of devices the first block is spared; what is left of a storage is whole blocks.
    let (storages, parts, line) = of("xfersize=8k").unwrap();
    assert_eq!(storages, names("abc"));
    let (a, b, c) = ((1 << 30) - 8192, 122 * 8192, (1 << 20) - 8192);
    assert_eq!(parts, [(8192, a), (0, b), (8192, c)]);
    assert_eq!(line, "gen:random?size=8k&area=1048568k+976k+1016k");
    // A range is one of the whole volume, and may leave storages out.
    let (storages, parts, _) = of("xfersize=8k,range=(1g,1025m)").unwrap();
    assert_eq!(storages, names("bc"));
    let begin = (1_u64 << 30) - a;
    assert_eq!(parts, [(begin, b - begin), (8192, (1 << 20) - (b - begin))]);
    for (text, reason) in [
        (of("stride=(4k,8k),range=(50,150)"), "its range ends beyond the storages"),
        (of("xfersize=1m"), "its part of b has 0, and it needs 1M"),
        (joined(&format!("{head}wd=w,sd=*\nrd=r,wd=w,foroffset=512\n")), "is shifted (offset=)"),
        (
            joined(&format!("validate=yes\n{head}wd=w,sd=*\nrd=r,wd=w\n")),
            "a.vdb:6:1: 'w@a+b+c' has several storages as one volume: nothing is verified",
        ),
    ] {
        let told = text.unwrap_err();
        assert!(told.contains(reason), "{told}");
    }
}

/// The lines of the flows of all runs, and what is told of them.
fn on_trees(load: &str, run: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let text = format!("fsd=f,anchor=/f,files=4\nfwd=w,fsd=f,{load}\nrd=r,fwd=w,{run}\n");
    let read = read_with(&text, &[]).map_err(|faults| faults.to_string())?;
    let plan = Plan::new(&read.workload, Asked::default(), &|_| None);
    let plan = plan.map_err(|faults| faults.to_string())?;
    let told = read.check_runs(&plan, &|_| None, false).map_err(|faults| faults.to_string())?;
    let lines = plan.leaves().flat_map(|leaf| leaf.files).flat_map(|file| file.flows);
    let line = |line: &str| line.split("&seed").next().unwrap_or_default().to_owned();
    let lines = lines.map(|flow| line(&flow.line)).collect();
    let told = told.iter().chain(&plan.told).map(|it| format!("{}: {}", it.place, it.what));
    Ok((lines, told.collect()))
}

#[test]
fn a_share_of_reads_is_that_of_a_load_that_reads_or_writes() {
    let half = "files:mixed?size=4k&read=50";
    let cells = ["files:write?size=4k", half, "files:read?size=4k"];
    for operation in ["", "operation=read,", "operation=write,"] {
        let looped = on_trees(&format!("{operation}rdpct=70"), "forrdpct=(0,50,100)").unwrap();
        assert_eq!(looped, (cells.map(str::to_owned).to_vec(), Vec::new()), "{operation}");
        let single = on_trees(&format!("{operation}rdpct=50"), "elapsed=5").unwrap();
        assert_eq!(single, (vec![half.to_owned()], Vec::new()), "{operation}");
    }
    for (load, run) in [
        ("operation=(read,write),rdpct=50", "elapsed=5"),
        ("operation=(read,write)", "forrdpct=50"),
        ("rdpct=50", "operations=(write,getattr)"),
    ] {
        let told = on_trees(load, run).unwrap_err();
        assert!(told.starts_with("a.vdb:2:1: 'w' has a share of reads"), "{load} {run} {told}");
    }
    let (lines, told) = on_trees("rdpct=50", "foroperations=(read,getattr)").unwrap();
    assert_eq!(lines, [half, "files:getattr"]);
    assert_eq!(told, ["a.vdb:3:1: 'w' reads and writes by its share of reads in all of its loops"]);
}

#[test]
fn what_no_operation_of_a_load_has_a_use_for_is_told_and_a_loop_over_it_refused() {
    let load = "operation=getattr,rdpct=30,xfersize=8k,fileio=random,stopafter=5,fileselect=random";
    let (lines, told) = on_trees(load, "forrdpct=20").unwrap();
    assert_eq!(lines, ["files:getattr?select=random"]);
    let nothing = |column: usize, key: &str| {
        format!("a.vdb:2:{column}: {key}= counts for nothing in 'w': it is no setting of getattr")
    };
    let expected = [
        nothing(31, "rdpct"),
        nothing(40, "xfersizes"),
        nothing(52, "fileio"),
        nothing(66, "stopafter"),
        "a.vdb:3:1: the loop over 'read' changes nothing: no load of the run reads or writes"
            .to_owned(),
    ];
    assert_eq!(told, expected);
    for run in ["forrdpct=(0,50)", "forxfersize=(4k,8k)", "forseekpct=(0,100)"] {
        let told = on_trees("operation=getattr", run).unwrap_err();
        assert!(told.starts_with("a.vdb:3:1: the loop over '"), "{told}");
    }
    let told = faults("sd=a,lun=/x,size=1g\nrd=r,sd=a,fordepth=(1,2)\n");
    assert!(told.starts_with("a.vdb:2:1: the loop over 'depth' changes nothing"), "{told}");
}

#[test]
fn a_tree_that_cannot_be_is_refused_where_it_is_described() {
    let with = |tree: &str, run: &str| {
        faults(&format!("fsd=f,anchor=/f,{tree}\nfwd=w,fsd=f\nrd=r,fwd=w{run}\n"))
    };
    for (tree, run, expected) in [
        ("files=1000000000", "", "a.vdb:1:1: the tree 'f' is not possible: it has more than 2684"),
        ("depth=64,width=2", "", "a.vdb:1:1: the tree 'f' is not possible: it has more than 6710"),
        ("size=4611686018427387904", "", "a.vdb:1:1: the tree 'f' is not possible: its files"),
        ("files=2", ",fordepth=(1,64),forwidth=(1,2)", "a.vdb:3:1: the tree 'f' is not possible"),
        ("files=2", ",forfiles=(0,1)", "a.vdb:3:12: forfiles=0 is not possible"),
    ] {
        let told = with(tree, run);
        assert!(told.starts_with(expected), "{told}");
        assert!(!told.contains("threads"), "{told}");
    }
    let toml = |tree: &str, flow: &str, run: &str| {
        faults(&format!(
            "[tree.f]\n{tree}\n[flow.w]\non = \"f\"\n{flow}\n[[run]]\nflows = \"w\"\n{run}\n"
        ))
    };
    let told = toml("anchor = \"\"", "", "");
    assert!(told.starts_with("a.vdb:2:10: anchor is an empty name"), "{told}");
    let told = toml("anchor = \"/f\"", "ops = []", "for = { threads = [] }");
    assert!(told.starts_with("a.vdb:5:7: 'ops' has no value"), "{told}");
    assert!(told.contains("a.vdb:8:19: 'threads' has no value"), "{told}");
}
