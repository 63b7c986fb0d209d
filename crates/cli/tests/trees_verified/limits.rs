//! What is told once, and what cannot be told of trees: names of another kind, and a run that was
//! killed before it looked.

use std::fs;

use ioecho_replay::journal::JOURNAL_HEADER_BYTES;

use super::*;

#[test]
fn a_directory_in_place_of_a_file_is_told_once_and_the_next_run_goes_on_from_there() {
    let home = Home::new();
    home.makes();
    let path = "vdb.1_1.dir/vdb.2_1.dir/vdb_f0003.file";
    let place = home.path("anchor").join(path);
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    let once = BTreeMap::from([(path.to_owned(), vec!["wrong-kind".to_owned()])]);
    let read = ["read=files:read?size=16k&once=yes;threads=1;requests=5"];
    let (code, told) = home.does(&Home::line("found", &read, &["--verify=final"]));
    assert_eq!(code, 15, "{told}");
    let json = fs::read(home.path("found/verify.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(names(&json["targets"][0]), once);
    home.replays("later", &read, &["--verify=final"]);
    home.is_intact();
    // The records of all runs tell it once, too.
    fs::remove_file(home.path("family/names-0.state")).unwrap();
    let (code, told, found) = home.verifies();
    assert_eq!((code, names(&found)), (15, once), "{told}");
}

#[test]
fn a_run_that_was_killed_before_it_looked_at_its_tree_says_so_and_what_to_do() {
    let home = Home::new();
    let make = "--flow=make=files:format?do=mkdir,fill&size=4k;threads=1";
    let line = ["replay", "-q", "--output=run", "--target=tree:tree?files=9", "--verify=reads"];
    let line: Vec<String> = line.into_iter().chain([make]).map(str::to_owned).collect();
    home.goes(&line);
    // What such a kill leaves: a journal and a ring with nothing in them.
    let begin = home.path("run/names-0.begin");
    fs::remove_file(&begin).unwrap();
    let verify = ["verify", "run", "-q"].map(str::to_owned);
    let (code, told) = home.does(&verify);
    assert!(code == 3 && told.contains("names-0.begin") && told.contains("put that"), "{told}");
    let journal = fs::File::options().write(true).open(home.path("run/requests.journal"));
    journal.unwrap().set_len(JOURNAL_HEADER_BYTES as u64).unwrap();
    let (code, told) = home.does(&verify);
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("it changed no file") && told.contains("do that run again"), "{told}");
    // One that did not verify had no record to begin with.
    let line = ["replay", "-q", "--output=other", "--target=tree:tree-of-other?files=9"];
    let line: Vec<String> = line.into_iter().chain([make]).map(str::to_owned).collect();
    home.goes(&line);
    let (code, told) = home.does(&["verify", "other", "-q"].map(str::to_owned));
    assert!(code == 3 && told.contains("--verify"), "{told}");
}
