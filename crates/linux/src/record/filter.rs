//! Which events the kernel keeps for a recording, and which of them.
//!
//! Each event costs the load some hundred nanoseconds and the recorder 64 bytes or more, so
//! unneeded events are not even made: only the tracepoints that apply to the kind of device are
//! enabled, and a filter in the kernel keeps those of the recorded devices
//! (Documentation/trace/events.rst, section Event filtering).

use super::target::{Target, kernel_number};

/// Which tracepoints are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// What says what was asked for and how long it took: queued, merged, split, issued, requeued
    /// and completed.
    #[default]
    Needed,
    /// Also insertions into the scheduler's queue, remaps and merges of whole requests.
    All,
}

impl Events {
    /// Both choices.
    pub const CHOICES: [Self; 2] = [Self::Needed, Self::All];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::All => "all",
        }
    }
}

/// On which number and sectors a tracepoint comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    /// On bios: under the number that they were sent to.
    Bio,
    /// On bios, and tells no length.
    Split,
    /// On bios that end and are of no request: all of a device without a request queue; of others
    /// those that are refused before there is a request, such as one that must not wait.
    BioEnd,
    /// On requests: under the number of the disk.
    Request,
}

/// The tracepoints: name, where it comes, whether it is needed.
const TRACEPOINTS: [(&str, Comes, bool); 11] = [
    ("block_bio_queue", Comes::Bio, true),
    ("block_bio_backmerge", Comes::Bio, true),
    ("block_bio_frontmerge", Comes::Bio, true),
    ("block_split", Comes::Split, true),
    ("block_rq_issue", Comes::Request, true),
    ("block_rq_requeue", Comes::Request, true),
    ("block_rq_complete", Comes::Request, true),
    ("block_bio_complete", Comes::BioEnd, true),
    ("block_rq_insert", Comes::Request, false),
    ("block_rq_merge", Comes::Request, false),
    ("block_bio_remap", Comes::Bio, false),
];

/// The tracepoints to enable for these devices, each with its filter.
pub(super) fn chosen(targets: &[Target], events: Events) -> Vec<(&'static str, String)> {
    let wanted = TRACEPOINTS.iter().filter(|(.., needed)| *needed || events == Events::All);
    wanted
        .filter_map(|(name, comes, _)| {
            let terms: Vec<String> =
                targets.iter().flat_map(|target| terms(target, *comes)).collect();
            (!terms.is_empty()).then(|| (*name, terms.join(" || ")))
        })
        .collect()
}

/// What lies within, and flushes: they have no sectors, and nothing says of which partition they
/// are.
fn with_flushes(disk: &str, within: &str) -> String {
    format!("({disk} && (({within}) || nr_sector == 0))")
}

/// What the events of a target are known by.
fn terms(target: &Target, comes: Comes) -> Vec<String> {
    let is_number = |dev| format!("dev == {}", kernel_number(dev));
    let disk = is_number(target.disk_dev());
    let within = target.part().map(|(start, sectors)| {
        format!("sector >= {start} && sector < {}", start.saturating_add(sectors))
    });
    match comes {
        Comes::Request if target.is_bio_based() => Vec::new(),
        Comes::BioEnd if !target.is_bio_based() => {
            let any = terms(target, Comes::Bio).join(" || ");
            if any.is_empty() { Vec::new() } else { vec![format!("(({any}) && error != 0)")] }
        }
        Comes::Request => vec![match within {
            None => disk,
            Some(within) => with_flushes(&disk, &within),
        }],
        Comes::Bio | Comes::Split | Comes::BioEnd => {
            let own = target.queued_under().into_iter().map(is_number);
            let of_disk = within.map(|within| match comes {
                Comes::Split => format!("({disk} && {within})"),
                _ => with_flushes(&disk, &within),
            });
            own.chain(of_disk).collect()
        }
    }
}
