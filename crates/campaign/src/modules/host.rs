//! `host`: settings of the host that decide how quickly it issues and answers.
//!
//! A processor that saves power answers an interrupt later, and a page cache that is full of the
//! last run's data answers for the device. Both are put right, and back.

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Result, Volume};
use crate::ledger::Ledger;
use crate::ledger::line::Form;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "host",
    keys: Keys::These(&["governor", "drop-caches", "irqs", "irq-affinity"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Host::read(given)?)),
};

const PROCESSORS: &str = "/sys/devices/system/cpu";
const DROP: &str = "/proc/sys/vm/drop_caches";

struct Host {
    governor: Option<String>,
    drops_caches: bool,
    /// Words of the interrupts' names, and the processors that shall serve them.
    irqs: Vec<String>,
    affinity: Option<String>,
    limit: std::time::Duration,
}

impl Host {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let host = Self {
            governor: given.text("governor")?.map(str::to_owned),
            drops_caches: given.switch("drop-caches")?.unwrap_or(false),
            irqs: given.list("irqs")?.unwrap_or_default(),
            affinity: given.text("irq-affinity")?.map(str::to_owned),
            limit: given.limit()?,
        };
        if host.irqs.is_empty() == host.affinity.is_some() {
            let help = "write irqs = [\"nvme0\"] and irq-affinity = \"0-3\"";
            return Err(Wrong::new("irqs", "irqs and irq-affinity belong together", help));
        }
        if host.governor.is_none() && !host.drops_caches && host.affinity.is_none() {
            let help = "write governor, drop-caches or irqs";
            return Err(Wrong::new("governor", "nothing is set here", help));
        }
        Ok(host)
    }

    /// The files that are set, and their values.
    fn files(&self, ground: &dyn Ground) -> Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        if let Some(governor) = &self.governor {
            for name in ground.list(PROCESSORS)? {
                let file = format!("{PROCESSORS}/{name}/cpufreq/scaling_governor");
                if ground.exists(&file) {
                    files.push((file, governor.clone()));
                }
            }
            if files.is_empty() {
                let text = "the processors of this host have no governor";
                return Err(Fault::Lacking(text.to_owned()));
            }
        }
        if let Some(affinity) = &self.affinity {
            let text = ground.read("/proc/interrupts")?.unwrap_or_default();
            let numbers = interrupts(&text, &self.irqs);
            if numbers.is_empty() {
                let text = format!("no interrupt is called {}", self.irqs.join(" or "));
                return Err(Fault::Lacking(text));
            }
            let file = |number: &u32| format!("/proc/irq/{number}/smp_affinity_list");
            files.extend(numbers.iter().map(|number| (file(number), affinity.clone())));
        }
        Ok(files)
    }

    fn drop(&self) -> Command {
        let script = format!("sync && echo 3 > {DROP}");
        Command::new(["sh", "-c", &script]).within(self.limit)
    }
}

/// The numbers of the interrupts whose names have one of these words.
fn interrupts(text: &str, words: &[String]) -> Vec<u32> {
    let number = |line: &str| {
        let (number, rest) = line.trim_start().split_once(':')?;
        let mut names = rest.split([' ', ',', '-', '@']).filter(|name| !name.is_empty());
        let is_it = names.any(|name| {
            words.iter().any(|word| {
                // `nvme0` names `nvme0q1` as well.
                let queue = name.strip_prefix(word.as_str());
                queue.is_some_and(|rest| rest.is_empty() || rest.starts_with('q'))
            })
        });
        is_it.then(|| number.parse().ok())?
    };
    text.lines().filter_map(number).collect()
}

impl Module for Host {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let files = self.files(ground)?;
        let mut does: Vec<String> =
            files.iter().map(|(file, value)| format!("{file} = {value}")).collect();
        if self.drops_caches {
            does.push(self.drop().to_string());
        }
        Ok(Outlook { does, volumes: on.to_vec(), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        for (file, value) in self.files(ledger.ground())? {
            ledger.set(&file, &Form::Plain, &value, None)?;
        }
        if self.drops_caches {
            // What was in the cache is on the disk, so nothing is lost and nothing is to be undone.
            ledger.ran(&self.drop(), None, serde_json::Value::Null)?;
        }
        Ok(on.to_vec())
    }

    fn verify(&self, ground: &dyn Ground, _: &[Volume]) -> Result<()> {
        for (file, value) in self.files(ground)? {
            let now = ground.read(&file)?.unwrap_or_default();
            if now.trim() != value {
                return Err(Fault::Failed(format!("{file} is {}, not {value}", now.trim())));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_found_by_its_name() {
        let text = "           CPU0       CPU1\n  24:   0   0  PCI-MSIX-0000:00:04.0   0-edge      \
                    nvme0q0\n  25:  7   0  PCI-MSI 1-edge  nvme0q1\n  26: 1 1 PCI-MSI nvme01q1\n \
                    30: 1 1 PCI-MSI ahci[0000:00]\nNMI:  0  0  Non-maskable interrupts\n";
        let words = |word: &str| vec![word.to_owned()];
        assert_eq!(interrupts(text, &words("nvme0")), [24, 25]);
        assert_eq!(interrupts(text, &words("nvme0q1")), [25]);
        assert_eq!(interrupts(text, &words("nvme")), Vec::<u32>::new());
    }
}
