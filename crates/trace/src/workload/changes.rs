//! Changes to a whole workload before it is planned.
//!
//! A file that somebody else wrote for an array is to be tried on a laptop first: for seconds
//! instead of hours, on a hundredth of the space.

use super::model::{Extent, Sizes, Workload};
use super::runs::is_like;
use super::typed::THREADS_MAX;
use crate::units::Nanos;

/// The least size that shrinking leaves: enough for any loads of usual sizes.
const SIZE_MIN: u64 = 64 << 20;

/// The least size of a file that shrinking leaves.
const FILE_MIN: u64 = 1 << 20;

impl Workload {
    /// Overrules a setting of every run. Names are those of both languages.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let time = || value.parse::<Nanos>().map_err(|error| error.to_string());
        match key {
            "elapsed" | "duration" => {
                let time = time()?;
                if time <= Nanos::ZERO {
                    return Err("a run of no time measures nothing".to_owned());
                }
                for run in &mut self.runs {
                    run.duration = time;
                    run.interval = Nanos(run.interval.0.min(time.0));
                }
            }
            "warmup" => {
                let time = time()?;
                self.runs.iter_mut().for_each(|run| run.warmup = time);
            }
            "interval" => {
                let time = time()?;
                if time <= Nanos::ZERO {
                    return Err("an interval of no time holds nothing".to_owned());
                }
                self.runs.iter_mut().for_each(|run| run.interval = time);
            }
            "pause" => {
                let time = time()?;
                self.runs.iter_mut().for_each(|run| run.pause = time);
            }
            "threads" => {
                let threads: u64 = value.parse().map_err(|_| "it is a whole number".to_owned())?;
                if !(1..=THREADS_MAX).contains(&threads) {
                    return Err(format!("it lies between 1 and {THREADS_MAX}"));
                }
                self.storages.iter_mut().for_each(|storage| storage.threads = threads);
                self.works.iter_mut().for_each(|work| work.threads = None);
                self.file_works.iter_mut().for_each(|work| work.threads = threads);
                for run in &mut self.runs {
                    run.loops.retain(|it| it.key != "threads");
                }
            }
            _ => return Err("known are elapsed, warmup, interval, pause and threads".to_owned()),
        }
        Ok(())
    }

    /// Lets `target` stand in for the paths of storages of this name, perhaps with asterisks.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub fn put_instead(&mut self, name: &str, target: &str) -> Result<(), String> {
        let mut found = self.put_trees_instead(name, target)?;
        for storage in self.storages.iter_mut().filter(|storage| is_like(&storage.name, name)) {
            storage.instead = Some(target.to_owned());
            found = true;
        }
        if found {
            return Ok(());
        }
        let names = self.storages.iter().map(|it| it.name.as_str());
        let names = names.chain(self.trees.iter().map(|it| it.name.as_str()));
        let names: Vec<&str> = names.take(20).collect();
        Err(format!("there is no storage '{name}'; there are {}", names.join(", ")))
    }

    /// The same of trees, named by their names or anchors; only simulations stand in for them.
    fn put_trees_instead(&mut self, name: &str, target: &str) -> Result<bool, String> {
        let mut found = false;
        for tree in &mut self.trees {
            if !is_like(&tree.name, name) && !is_like(&tree.anchor, name) {
                continue;
            }
            let described = target.strip_prefix("sim:").or((target == "sim").then_some(""));
            let Some(described) = described else {
                return Err(format!("only sim or sim:… stands in for the tree '{}'", tree.name));
            };
            tree.instead = Some(described.to_owned());
            found = true;
        }
        Ok(found)
    }

    /// Divides the sizes of storages and files, the amounts of data that end runs and the numbers
    /// of files. Storages keep 64 MiB, trees a file in each directory, and files a mebibyte.
    pub fn shrink(&mut self, divisor: u64) {
        let divisor = divisor.max(1);
        for storage in &mut self.storages {
            if let Some(Extent::Bytes(size)) = &mut storage.size {
                *size = ((*size / divisor) & !4095).max(SIZE_MIN.min(*size));
            }
        }
        for tree in &mut self.trees {
            tree.sizes = match &tree.sizes {
                Sizes::Mix(mix) => {
                    let less = |(size, share): &(u64, f64)| {
                        (((size / divisor) & !4095).max(FILE_MIN.min(*size)), *share)
                    };
                    Sizes::Mix(mix.iter().map(less).collect())
                }
                range @ Sizes::Range { .. } => range.clone(),
            };
            tree.files = (tree.files / divisor).max(1.min(tree.files));
            tree.total = tree.total.map(|size| (size / divisor).max(1));
            tree.working_set = tree.working_set.map(|size| (size / divisor).max(1));
        }
        for one in self.runs.iter_mut().flat_map(|run| &mut run.loops) {
            one.values.iter_mut().for_each(|value| shrink_value(one.key, value, divisor));
            // What has become the same is the same run.
            let mut seen = Vec::new();
            one.values.retain(|value| {
                let is_new = !seen.contains(value);
                seen.extend(is_new.then(|| value.clone()));
                is_new
            });
        }
        for run in &mut self.runs {
            for size in run.data.iter_mut().flatten().filter(|size| **size >= 100) {
                *size = (*size / divisor).max(100);
            }
        }
    }
}

/// Divides a value of a loop that says how many files there are, or how large they are.
fn shrink_value(key: &str, value: &mut super::model::Value, divisor: u64) {
    use super::model::Value;

    const FILE_MIN: u64 = 1 << 20;
    match (key, value) {
        ("files", Value::Number(files)) => *files = (*files / divisor).max(1.min(*files)),
        ("total" | "working-set", Value::Size(size)) => *size = (*size / divisor).max(1),
        ("sizes", Value::Size(size)) => {
            *size = ((*size / divisor) & !4095).max(FILE_MIN.min(*size));
        }
        _ => {}
    }
}
