//! Vdbench's arguments and reports, as scripts use them that know nothing but their columns.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::Command;

use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

const DEVICE: &str = "*=sim:model=const,units=4,service=1ms,bandwidth=1T";

/// One load at a rate, then two loads as fast as possible, each with two clients: the first does
/// 2,000 requests a second, and the other a third of that, because of its share.
const FILE: &str = "sd=sd1,lun=/dev/none,size=1g,threads=4\n\
    wd=wd1,sd=sd1,rdpct=100,xfersize=4k,skew=75\nwd=wd2,sd=sd1,rdpct=0,xfersize=8k,skew=25\n\
    rd=slow,wd=wd1,iorate=500,elapsed=3,interval=1\n\
    rd=full,wd=(wd1,wd2),iorate=max,elapsed=3,interval=1,warmup=1\n";

fn vdbench(home: &TempDir, line: &str) -> (i32, String) {
    let words: Vec<&str> = ["vdbench"].into_iter().chain(line.split(' ')).collect();
    let output = ioecho(home.path(), &words);
    (output.status.code().unwrap(), said(&output))
}

/// What awk makes of a file.
fn awk(program: &str, file: &Path) -> String {
    let output = Command::new("awk").arg(program).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_script_that_knows_only_the_names_of_columns_reads_the_reports() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("a.vdb"), FILE).unwrap();
    let line = format!("-f a.vdb -o out -m 2 --target {DEVICE} --seed 1 --quiet");
    let (code, told) = vdbench(&home, &line);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("-m counts for nothing here"), "{told}");
    let out = home.path().join("out");
    // The columns of averages, found by their names.
    let averages = "/ tod |^tod /{for(i=1;i<=NF;i++)at[$i]=i} \
        at[\"Run\"]&&$at[\"Interval\"]~/^avg/{print $at[\"Run\"],$at[\"Interval\"],\
        $at[\"reqrate\"],$at[\"rate\"],$at[\"resp\"],$at[\"read%\"]}";
    let found = awk(averages, &out.join("flatfile.html"));
    let lines: Vec<Vec<&str>> = found.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 2, "{found}");
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert_eq!(lines[0][..3], ["slow", "avg_2-3", "500"]);
    assert!((number(lines[0][3]) - 500.0).abs() < 50.0 && number(lines[0][4]) >= 1.0, "{found}");
    assert_eq!(lines[1][..3], ["full", "avg_2-4", "9999988"]);
    assert!((number(lines[1][3]) - 2667.0).abs() < 27.0, "{found}");
    assert!((number(lines[1][5]) - 75.0).abs() < 1.0, "{found}");
    // They are the figures of the run itself.
    let rows = awk("$3==\"full\"&&$4!~/avg/{sum+=$6} END{print sum}", &out.join("flatfile.html"));
    let status = ioecho(home.path(), &["campaign", "report", "out", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["counts"]["done"], 2);
    assert!((number(&rows) - 10_667.0).abs() < 107.0, "{rows}");
    // Of the table of intervals the second line of names says which column it is.
    let rates = "$1==\"rate\"{for(i=1;i<=NF;i++)if($i==\"rate\")at=i+2} at&&$2~/^avg/{print $at}";
    for (name, most) in [("summary", 2667.0), ("totals", 2667.0), ("sd1", 2667.0), ("wd1", 2000.0)]
    {
        let found = awk(rates, &out.join(format!("{name}.html")));
        let last = number(found.lines().last().unwrap());
        assert!((last - most).abs() < most / 100.0, "{name}: {found}");
    }
    let skew = awk("$1==\"wd2\"{print $(NF-2),$(NF-1)}", &out.join("skew.html"));
    let (asked, observed) = skew.split_once(' ').unwrap();
    assert_eq!(asked, "25.00%");
    assert!((number(observed.trim_end_matches('%')) - 25.0).abs() < 0.5, "{skew}");
    // Every measured request of both runs is in one bin: 2 s at 500, 3 s at 2,667.
    let bins = awk(
        "/^Reads and writes/{on=1} /^Reads:|^Writes:/{on=0} on&&$2==\"&lt;\"{n+=$4} \
        END{print n}",
        &out.join("histogram.html"),
    );
    assert!((number(&bins) - 9_000.0).abs() < 150.0, "{bins}");
    for name in ["sd1.histogram", "wd1.histogram", "wd2.histogram", "wd2"] {
        assert!(out.join(format!("{name}.html")).exists(), "{name}");
    }
    let texts =
        fs::read_dir(&out).unwrap().filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    assert!(texts.into_iter().all(|text| !text.contains("NaN")));
}

#[test]
fn storages_that_are_one_volume_have_a_report_each() {
    let home = TempDir::new().unwrap();
    let text = "concatenatesds=yes\nsd=a,lun=/dev/a,size=30m\nsd=b,lun=/dev/b,size=10m\n\
        wd=w,sd=*,xfersize=4k\nrd=r,wd=w,iorate=max,elapsed=2,interval=1,threads=8\n";
    fs::write(home.path().join("a.vdb"), text).unwrap();
    let line = format!("-f a.vdb -o out --target {DEVICE} --seed 1 --quiet");
    let (code, told) = vdbench(&home, &line);
    assert_eq!(code, 0, "{told}");
    let rates = "$1==\"rate\"{for(i=1;i<=NF;i++)if($i==\"rate\")at=i+2} at&&$2~/^avg/{print $at}";
    let [a, b, w, all] = ["a", "b", "w", "summary"].map(|name| {
        let found = awk(rates, &home.path().join("out").join(format!("{name}.html")));
        found.lines().last().unwrap().parse::<f64>().unwrap()
    });
    assert!(
        all > 1000.0 && (a + b - all).abs() < 1.0 && (w - all).abs() < 1.0,
        "{a} {b} {w} {all}"
    );
    assert!((a / b - 3.0).abs() < 0.3, "{a} {b}");
}

#[test]
fn the_same_command_measures_anew_and_what_is_unknown_is_refused() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("a.vdb"), FILE).unwrap();
    let line = format!("-f a.vdb -o out -e 1 -w 0 -r full --target {DEVICE} --quiet");
    let cells = || fs::read_dir(home.path().join("out/cells")).unwrap().count();
    for expected in [1, 2] {
        let (code, told) = vdbench(&home, &line);
        assert_eq!((code, cells()), (0, expected), "{told}");
    }
    let (code, told) = vdbench(&home, "-f a.vdb -s");
    assert_eq!((code, told.contains("2 runs, at most")), (0, true), "{told}");
    assert!(!home.path().join("output").exists());
    for (line, reason) in [
        ("-f a.vdb -q", "none of Vdbench's arguments"),
        ("-f a.vdb -jx", "nobody knows 'x'"),
        ("-f a.vdb --colour", "unexpected argument"),
        ("-f a.vdb", "is not on this host"),
    ] {
        let (code, told) = vdbench(&home, line);
        assert_eq!((code, told.contains(reason)), (2, true), "{line}: {told}");
    }
    // The guard stays.
    fs::write(home.path().join("file"), vec![7_u8; 64 << 20]).unwrap();
    fs::write(home.path().join("w.vdb"), "sd=s,lun=file\nwd=w,sd=s,rdpct=0\nrd=r,wd=w\n").unwrap();
    let (code, told) = vdbench(&home, "-f w.vdb");
    assert_eq!((code, told.contains("--destroy file")), (6, true), "{told}");
}

#[test]
fn help_behind_other_words_is_help_and_refused_behind_wrong_ones() {
    let home = TempDir::new().unwrap();
    let output = ioecho(home.path(), &["vdbench", "-f", "a.vdb", "--destroy", "s", "--help"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("Usage: ioecho vdbench"), "{}", said(&output));
    let output = ioecho(home.path(), &["vdbench", "-f", "a.vdb", "--nonsense", "--help"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn reports_of_a_format_have_the_intervals_that_it_took() {
    let home = TempDir::new().unwrap();
    let file = "fsd=fsd1,anchor=/nowhere,depth=1,width=2,files=5,size=4k\n\
        fwd=f,fsd=fsd1,operation=read,xfersize=4k,threads=2\n\
        rd=one,fwd=f,fwdrate=max,format=yes,elapsed=3,interval=1\n";
    fs::write(home.path().join("a.vdb"), file).unwrap();
    let line = "-f a.vdb -o out --target fsd1=sim --seed 7 --quiet";
    let (code, text) = vdbench(&home, line);
    assert_eq!(code, 0, "{text}");
    let flat = fs::read_to_string(home.path().join("out/flatfile.html")).unwrap();
    let rows = flat.lines().filter_map(|line| {
        let mut columns = line.split_whitespace().skip(2);
        let is_one = columns.next() == Some("one");
        columns.next().and_then(|number| number.parse::<u32>().ok()).filter(|_| is_one)
    });
    // The tree is made within the first second.
    assert_eq!(rows.collect::<Vec<_>>(), [1, 1, 2, 3]);
}

#[test]
fn runs_on_files_have_the_columns_of_their_operations_and_others_do_not() {
    let home = TempDir::new().unwrap();
    let file = "fsd=fsd1,anchor=/nowhere,depth=1,width=2,files=5,size=4k\n\
        fwd=f,fsd=fsd1,operation=getattr,threads=1\n\
        rd=one,fwd=f,fwdrate=200,format=yes,elapsed=3,interval=1\n";
    fs::write(home.path().join("a.vdb"), file).unwrap();
    let (code, text) = vdbench(&home, "-f a.vdb -o out --target fsd1=sim --seed 7 --quiet");
    assert_eq!(code, 0, "{text}");
    let flat = home.path().join("out/flatfile.html");
    let of_average = "/^tod /{for(i=1;i<=NF;i++)at[$i]=i;n=NF} $at[\"Interval\"]~/^avg_2-3/\
        {print $at[\"Getattr_rate\"],$at[\"Getattr_rate_max\"],$at[\"Getattr_rate_std\"],\
        $at[\"Create_rate\"],(n==NF),$34}";
    let found = awk(of_average, &flat);
    let values: Vec<&str> = found.split(' ').collect();
    let number = |at: usize| values[at].parse::<f64>().unwrap();
    assert!((number(0) - 200.0).abs() < 40.0, "{found}");
    assert!(number(1) >= number(0) && number(2) < 60.0, "{found}");
    // Behind the columns of raw runs, which stay where they were.
    assert_eq!(values[3..], ["0", "1", "n/a"], "{found}");
    let created = "/^tod /{for(i=1;i<=NF;i++)at[$i]=i} $at[\"Interval\"]==\"avg_1-1\"\
        {print ($at[\"Create_rate\"]>0),($at[\"Mkdir_rate\"]>0),$at[\"Getattr_rate\"]}";
    assert_eq!(awk(created, &flat), "1 1 0");
    let histogram = fs::read_to_string(home.path().join("out/f.histogram.html")).unwrap();
    assert!(histogram.contains("\ngetattr:\n") && !histogram.contains("Reads"), "{histogram}");
    // A file without runs on files has the columns that it always had.
    fs::write(home.path().join("b.vdb"), FILE).unwrap();
    let line = format!("-f b.vdb -o raw -r slow --target {DEVICE} --quiet");
    let (code, text) = vdbench(&home, &line);
    assert_eq!(code, 0, "{text}");
    assert_eq!(awk("/^tod /{print NF}", &home.path().join("raw/flatfile.html")), "34");
}
