//! What stands in for the storages of a workload.

use std::collections::BTreeMap;

use ioecho_run::simulated;
use ioecho_trace::workload::model::{Extent, Storage, Workload};

use crate::exit::{self, Coded};

/// Sizes of simulated devices are multiples of this.
const BLOCK: u64 = 4096;

/// Lets targets stand in for storages, as `--target NAME=TARGET` says.
pub(super) fn put(workload: &mut Workload, typed: &[String]) -> anyhow::Result<()> {
    for text in typed {
        let put = text
            .split_once('=')
            .ok_or_else(|| "it is written STORAGE=TARGET".to_owned())
            .and_then(|(name, target)| workload.put_instead(name, target));
        if let Err(reason) = put {
            return Err(Coded::error(exit::USAGE, format!("--target {text}: {reason}")));
        }
    }
    complete(&mut workload.storages);
    for tree in &workload.trees {
        if let Some(described) = tree.instead.as_deref().filter(|it| !it.is_empty())
            && let Err(error) = simulated::check(described)
        {
            return Err(Coded::error(exit::USAGE, format!("--target {}={error}", tree.name)));
        }
    }
    for storage in &workload.storages {
        if let Some(described) = storage.instead.as_deref().and_then(simulated::description)
            && let Err(error) = simulated::check(described)
        {
            return Err(Coded::error(exit::USAGE, format!("--target {}={error}", storage.name)));
        }
    }
    Ok(())
}

/// Completes the descriptions of simulated devices: each is as large as its storage, and devices
/// that would be alike get seeds of their own, so that they are several.
fn complete(storages: &mut [Storage]) {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for storage in storages.iter() {
        if let Some(Extent::Bytes(size)) = storage.size {
            let most = sizes.entry(storage.written_path().to_owned()).or_default();
            *most = (*most).max(size);
        }
    }
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for storage in storages.iter_mut() {
        let path = storage.written_path().to_owned();
        let Some(described) = storage.instead.as_deref().and_then(simulated::description) else {
            continue;
        };
        let has = |key: &str| described.split(',').any(|pair| pair.starts_with(key));
        let mut pairs: Vec<String> =
            described.split(',').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        if let Some(size) = sizes.get(&path).filter(|_| !has("size=") && !has("learnt=")) {
            pairs.push(format!("size={}", size.next_multiple_of(BLOCK)));
        }
        let text = format!("sim:{}", pairs.join(","));
        let paths = alike.entry(text.clone()).or_default();
        if !paths.contains(&path) {
            paths.push(path);
        }
        storage.instead = Some(text);
    }
    for storage in storages.iter_mut() {
        let Some(text) = &storage.instead else { continue };
        let Some(paths) = alike.get(text).filter(|paths| paths.len() > 1) else { continue };
        let number = paths.iter().position(|path| path == storage.written_path());
        let has_seed = text.contains(",seed=") || text.contains(":seed=");
        if let Some(number) = number.filter(|_| !has_seed) {
            let comma = if text.ends_with(':') { "" } else { "," };
            storage.instead = Some(format!("{text}{comma}seed={}", number + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::workload::{Input, Reading, read};

    use super::*;

    #[test]
    fn simulations_have_the_sizes_of_their_storages_and_differ() {
        let text = "sd=a,lun=/dev/x,size=1g\nsd=b,lun=/dev/y,size=1g\nsd=c,lun=/dev/x,size=2g\n\
                    sd=d,lun=/dev/z\nwd=w,sd=*\nrd=r,wd=w\n";
        let input = Input { name: "a.vdb".to_owned(), bytes: text.as_bytes().to_vec() };
        let nothing = |_: &str, _: &str| Err("nothing".to_owned());
        let mut description = read(&[input], &Reading::default(), &nothing).unwrap();
        let put = |workload: &mut Workload, typed: &[&str]| {
            put(workload, &typed.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
        };
        put(&mut description.workload, &["*=sim:units=2", "d=sim"]).unwrap();
        let targets: Vec<&str> = description.workload.storages.iter().map(Storage::path).collect();
        let size = |bytes: u64| format!("sim:units=2,size={bytes}");
        assert_eq!(targets, [&size(2 << 30), &size(1 << 30), &size(2 << 30), "sim:"]);
        put(&mut description.workload, &["a=sim:size=9G", "b=sim:size=9G"]).unwrap();
        let targets: Vec<&str> = description.workload.storages.iter().map(Storage::path).collect();
        assert_eq!(targets[..2], ["sim:size=9G,seed=1", "sim:size=9G,seed=2"]);
        assert!(put(&mut description.workload, &["q=sim"]).is_err());
        assert!(put(&mut description.workload, &["a=sim:colour=blue"]).is_err());
    }
}
