//! Checks of the kernel's changes to requests on their way to the device, and of its other users.

use std::fmt::Write as _;

use ioecho_trace::{Bytes, LateCause, Op, VerifyMode, units};

use super::{is_known, silent};
use crate::facts::{CountedFacts, DeviceFacts, EngineFacts};
use crate::judge::IN_FLIGHT_DEFAULT;
use crate::judge::checks::{REFUSED_SHARE, check, graded, share};
use crate::reached::{Reach, TargetReach};
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Grade};

/// The share of requests that may be merged, or cut although the device would take them whole:
/// blkreplay's manual, section 2.3, calls less than this a minor modification.
const ALTERED_SHARE: f64 = 0.01;
/// The share of requests cut although the device would take them whole, above which the load at the
/// device is another one, as with ten times as many of anything that is minor.
const CUT_SHARE: f64 = 0.1;
/// Merges up to this multiple of the recording's share belong to the load, and so do as many as are
/// minor.
const MERGED_LIKE: f64 = 2.0;
/// Further from the recording's share of merges, the device has another load than there.
const MERGED_UNLIKE: f64 = 0.1;
/// The share of submissions into a full queue above which the 99th percentile shows it.
const FULL_SHARE: f64 = 0.01;
/// The share of a device's requests or bytes that may come from others: the share that blkreplay's
/// manual allows to be dropped before a load is another load.
const OTHERS_SHARE: f64 = 0.05;
/// The same below a file system or a loop device, which add writes of their own.
const OTHERS_SHARE_BELOW: f64 = 0.25;
/// Fewer requests than this are normal reads of a device's partition table and signatures (udev,
/// blkid).
const OTHERS_REQUESTS: u64 = 100;
/// The same in bytes.
const OTHERS_BYTES: u64 = 4 << 20;
/// The bytes that a file system below writes itself for a flush of the run: a commit of its
/// journal, with at least a descriptor, a block of metadata and a commit block
/// (`fs/jbd2/commit.c`), of 4 KiB each, and another block of metadata.
const COMMIT_BYTES: u64 = 16 << 10;
/// The share of writes that need a block to be read first, above which the 99th percentile shows
/// it.
const MISALIGNED_SHARE: f64 = 0.01;

/// The result of a check on one device.
struct DeviceGrade {
    grade: Grade,
    measured: String,
    advice: &'static str,
}

impl DeviceGrade {
    fn nothing(why: impl Into<String>) -> Self {
        Self { grade: Grade::NotApplicable, measured: why.into(), advice: "" }
    }
}

/// Whether the devices below the run were observed, so that the checks of this file judge them.
pub(in crate::judge) fn is_observed(engine: &EngineFacts) -> bool {
    !engine.simulated && is_known(&engine.host)
}

/// Judges every target's device and reports the worst.
fn of_devices(
    name: &str,
    threshold: &str,
    figures: &RunFigures,
    engine: &EngineFacts,
    judge: impl Fn(&DeviceFacts, &TargetReach) -> DeviceGrade,
) -> Check {
    if !is_observed(engine) {
        return silent(name, engine);
    }
    let none = TargetReach::default();
    let found = engine.host.devices.iter().enumerate().map(|(number, device)| {
        let reach = figures.reached().target(number).unwrap_or(&none);
        (device, judge(device, reach))
    });
    // The first of equally bad devices.
    let worst = found.reduce(|a, b| if b.1.grade > a.1.grade { b } else { a });
    let Some((device, found)) = worst else { return silent(name, engine) };
    let measured = match engine.host.devices.len() {
        1 => found.measured,
        count => format!("{}: {} (the worst of {count} targets)", device.name, found.measured),
    };
    let threshold = if found.grade == Grade::NotApplicable { "" } else { threshold };
    check(name, found.grade, measured, threshold, found.advice)
}

/// The reason why a device's own counters are of no use.
fn uncounted(device: &DeviceFacts) -> DeviceGrade {
    DeviceGrade::nothing(if device.unknown.is_empty() {
        format!("the kernel counts nothing on {}", device.name)
    } else {
        device.unknown.clone()
    })
}

/// The reason for no judgement if the run's own part is unknown.
const LOST: &str = "results were lost, so nobody can tell which requests were the run's own";

/// The run's own part of the kernel's counters.
#[derive(Clone, Copy)]
struct Own {
    requests: u64,
    /// The number of pieces if cut as often as possible, including flushes, which the kernel counts
    /// as writes of zero length.
    pieces: u64,
    bytes: u64,
}

impl Own {
    fn of(device: &DeviceFacts, reach: &TargetReach, engine: &EngineFacts) -> Self {
        // The largest possible number of pieces, so that no request of the run is counted as
        // another program's.
        let limit = [device.request_max, device.request_max_scattered].into_iter().flatten().min();
        let cut = limit.map_or(0, |limit| reach.pieces_beyond(limit));
        let moved = reach.bytes();
        // Every write is read again (`--verify paranoia`), and the records do not contain these
        // reads.
        let verified = engine.verify.as_ref();
        let rereads = verified.is_some_and(|of| of.mode.contains(VerifyMode::Paranoia));
        let again = if rereads { reach.writes } else { Reach::default() };
        // The records also lack the reads of data before they were overwritten.
        let before = verified.map_or((0, 0), |v| (v.prereads, v.preread_bytes));
        let requests = reach.requests().saturating_add(again.requests).saturating_add(before.0);
        Self {
            requests,
            pieces: requests
                .saturating_add(cut.saturating_mul(1 + u64::from(rereads || before.0 > 0)))
                .saturating_add(reach.flushes),
            bytes: moved
                .saturating_add(reach.zeroes.bytes)
                .saturating_add(again.bytes)
                .saturating_add(before.1),
        }
    }
}

/// The requests and bytes that the device got from other programs.
fn others(counted: &CountedFacts, own: Own) -> (u64, u64) {
    let requests = counted.requests().saturating_add(counted.merges).saturating_sub(own.pieces);
    (requests, counted.bytes().saturating_sub(own.bytes))
}

/// Whether other programs' part is more than noise and more than this share.
fn is_busy(counted: &CountedFacts, (requests, bytes): (u64, u64), most: f64) -> bool {
    let all = counted.requests().saturating_add(counted.merges);
    (requests > OTHERS_REQUESTS && share(requests, all) > most)
        || (bytes > OTHERS_BYTES && share(bytes, counted.bytes()) > most)
}

/// Whether the kernel gave the device other requests than those of the load.
pub(super) fn scheduler(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let threshold = "no scheduler that delays; at most 1 % of the requests merged, or twice as \
                     many as recorded (suspect 10 points above these), or cut though the device \
                     takes them whole (suspect above 10 %)";
    of_devices("scheduler", threshold, figures, engine, |device, reach| {
        let Some(counted) = &device.counted else { return uncounted(device) };
        if engine.results_lost > 0 {
            return DeviceGrade::nothing(LOST);
        }
        let own = Own::of(device, reach, engine);
        let pieces = |limit: Option<u64>| limit.map_or(0, |limit| reach.pieces_beyond(limit));
        let forced = pieces(device.request_max_hardware);
        let avoidable = pieces(device.request_max).saturating_sub(forced);
        // Other programs' requests are merged too, and merges cannot be attributed. But requests
        // that the device did not get were merged.
        let disturbed = is_busy(counted, others(counted, own), OTHERS_SHARE);
        let missing = own.requests.saturating_sub(counted.requests());
        let merged = if disturbed { missing } else { counted.merges };
        let more = counted.requests().saturating_add(counted.merges);
        // Flushes are counted as writes of zero length and are not pieces of other requests. None
        // reaches a device whose cache counts as safe.
        let is_through = [&device.write_cache, &device.write_cache_after]
            .into_iter()
            .all(|state| state == "write through");
        let flushes = if is_through { 0 } else { reach.flushes };
        let more = more.saturating_sub(own.requests).saturating_sub(flushes);
        // Of a file, the file system's own requests are more too, and a request across the border
        // of two extents becomes two.
        let cut = forced.saturating_add(avoidable);
        let of_file = if device.is_file && !disturbed { more.saturating_sub(cut) } else { 0 };
        let cut = if disturbed || device.is_file { cut } else { more };
        let (before, after) = (&device.scheduler, &device.scheduler_after);
        let mut measured = format!(
            "{}: {} became {}, {merged} merged, cut {}",
            if before.is_empty() { "no scheduler" } else { before },
            units::counted(own.requests, "request"),
            counted.requests().saturating_sub(flushes),
            units::times(cut)
        );
        if let Some(limit) = device.request_max.filter(|_| forced.max(avoidable) > 0) {
            let _ = write!(measured, " at {} or less", Bytes(limit));
        }
        if of_file > 0 {
            let _ = write!(measured, ", {of_file} more of the file system or by its extents");
        }
        let there = engine.load.recording.as_ref().filter(|recording| recording.queued > 0);
        let there = there.map(|recording| share(recording.merged, recording.queued));
        if let Some(there) = there {
            let _ = write!(measured, "; in the recording {:.1} % were merged", there * 100.0);
        }
        let merged = merged_grade(share(merged, own.requests), there);
        let cut = cut_grade(share(avoidable, own.requests));
        let (grade, advice) = if before != after {
            let _ = write!(measured, "; changed to {after} during the run");
            (Grade::Suspect, "The scheduler was changed while the run went on: do it again.")
        } else if matches!(before.as_str(), "bfq" | "kyber" | "cfq") {
            (
                Grade::Suspect,
                "This scheduler reorders requests and lets some wait on purpose, and its latencies \
                 are taken for the device's. Write none into queue/scheduler in sysfs.",
            )
        } else if merged.max(cut) == Grade::Pass {
            (Grade::Pass, "")
        } else if cut >= merged {
            (
                cut,
                "The kernel cut requests that the device would take whole: write the value of \
                 queue/max_hw_sectors_kb into queue/max_sectors_kb.",
            )
        } else {
            (
                merged,
                "The kernel put neighbours together, as it does with any program's requests, so \
                 the device was given fewer and longer ones than the load has: read throughput in \
                 bytes, or write 2 into queue/nomerges and none into queue/scheduler.",
            )
        };
        DeviceGrade { grade, measured, advice }
    })
}

/// What the share of merged requests means, if in the recording this share was merged. Neighbours
/// that Linux puts together are normal on any system; what was recorded tells how many are.
pub(super) fn merged_grade(merged: f64, recorded: Option<f64>) -> Grade {
    let like =
        recorded.map_or(ALTERED_SHARE, |there| (there * MERGED_LIKE).max(there + ALTERED_SHARE));
    let is_unlike = recorded.is_some_and(|there| merged > like.max(there + MERGED_UNLIKE));
    match merged {
        _ if is_unlike => Grade::Suspect,
        merged if merged > like => Grade::Limited,
        _ => Grade::Pass,
    }
}

/// The same of the share that was cut though the device would have taken it whole.
fn cut_grade(cut: f64) -> Grade {
    match cut {
        cut if cut > CUT_SHARE => Grade::Suspect,
        cut if cut > ALTERED_SHARE => Grade::Limited,
        _ => Grade::Pass,
    }
}

/// Whether requests waited in a queue of the host before the device got them.
pub(super) fn queue_depth(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let threshold = "at most 1 % of the requests held back by the cap or issued into a full queue";
    if let Some(check) = simulated_cap(threshold, figures, engine) {
        return check;
    }
    of_devices("queue-depth", threshold, figures, engine, |device, reach| {
        let issued = reach.submissions();
        if issued == 0 {
            return DeviceGrade::nothing("nothing was issued");
        }
        let cap = u64::from(engine.in_flight_max);
        let held = share(figures.late(LateCause::InFlightCap).requests, figures.issued());
        let slow = share(engine.slow_submissions, figures.issued());
        let limit = device.queue_limit.filter(|limit| *limit > 0);
        let full = limit.map_or(0.0, |limit| share(reach.deeper_than(limit), issued));
        let queue = limit
            .map_or_else(|| "no known limit".to_owned(), |limit| units::counted(limit, "place"));
        let measured = format!(
            "queue of {queue}, cap {cap}, at most {} in flight; {:.2} % of the requests issued \
             into a full queue, {:.2} % held back by the cap, {:.2} % of the hand-overs slow",
            reach.deepest(),
            full * 100.0,
            held * 100.0,
            slow * 100.0
        );
        // A busy host makes hand-overs slow by itself; the device makes them slow only when its
        // queue is full.
        let was_full = limit.is_none_or(|limit| reach.deepest() >= limit);
        let places = limit.unwrap_or(u64::from(IN_FLIGHT_DEFAULT));
        let cap_is_less = cap > 0 && cap < places;
        let (grade, advice) = if held > FULL_SHARE && cap_is_less {
            (Grade::Suspect, CAP_MEASURED)
        } else if full > FULL_SHARE && !engine.has_due_instants() {
            (
                Grade::Suspect,
                "More was in flight than the device's queue takes, so service times count the \
                 waiting in the host's queue. Lower the cap on what is in flight to what it takes.",
            )
        } else if held.max(full) > FULL_SHARE || (was_full && slow > FULL_SHARE) {
            (
                Grade::Limited,
                "The device's queue was full: that is the finding. Service times count the waiting \
                 in the host's queue; read response times.",
            )
        } else {
            (Grade::Pass, "")
        };
        DeviceGrade { grade, measured, advice }
    })
}

const CAP_MEASURED: &str = "The cap held requests back though the device had places left: the cap \
                            was measured. Raise it.";

/// A simulated device has a place for every request, so requests that wait for a place only wait
/// for the cap.
fn simulated_cap(threshold: &str, figures: &RunFigures, engine: &EngineFacts) -> Option<Check> {
    let cap = engine.in_flight_max;
    let held = share(figures.late(LateCause::InFlightCap).requests, figures.issued());
    let is_low = engine.simulated && (1..IN_FLIGHT_DEFAULT).contains(&cap);
    (is_low && held > FULL_SHARE).then(|| {
        let measured = format!(
            "simulated, cap {cap}; {:.2} % of the requests held back by the cap",
            held * 100.0
        );
        check("queue-depth", Grade::Suspect, measured, threshold, CAP_MEASURED)
    })
}

/// Whether the device had other users.
pub(super) fn other_load(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let threshold = "at most 5 % of the device's requests and bytes by others (25 % below a file \
                     system or a loop device)";
    of_devices("other-load", threshold, figures, engine, |device, reach| {
        let Some(counted) = &device.counted else { return uncounted(device) };
        if engine.results_lost > 0 {
            return DeviceGrade::nothing(LOST);
        }
        let own = Own::of(device, reach, engine);
        let (requests, bytes) = others(counted, own);
        let most = if device.is_file { OTHERS_SHARE_BELOW } else { OTHERS_SHARE };
        let all = counted.requests().saturating_add(counted.merges);
        let mut busy = is_busy(counted, (requests, bytes), most);
        let mut measured = if requests == 0 && bytes == 0 {
            format!("{}: nothing by others", device.name)
        } else {
            format!(
                "{}: {} ({:.1} %) and {} ({:.1} %) by others",
                device.name,
                units::counted(requests, "request"),
                share(requests, all) * 100.0,
                Bytes(bytes),
                share(bytes, counted.bytes()) * 100.0
            )
        };
        for layer in &device.layers {
            let Some(below) = &layer.counted else { continue };
            let (requests, bytes) = if layer.is_disk {
                others(below, own)
            } else {
                // A page cache changes the number of requests, so below it only bytes can be
                // compared.
                let flushes = if layer.is_below_file { reach.flushes } else { 0 };
                let journal = flushes.saturating_mul(COMMIT_BYTES);
                (0, below.bytes().saturating_sub(own.bytes).saturating_sub(journal))
            };
            let most = if layer.is_disk { OTHERS_SHARE } else { OTHERS_SHARE_BELOW };
            busy |= is_busy(below, (requests, bytes), most);
            let _ = write!(
                measured,
                "; on {} {} ({:.1} %) more",
                layer.name,
                Bytes(bytes),
                share(bytes, below.bytes()) * 100.0
            );
        }
        if reach.flushes > 0 && device.layers.iter().any(|layer| layer.is_below_file) {
            let _ = write!(
                measured,
                ", besides up to {} that a journal may have written for {}",
                Bytes(reach.flushes.saturating_mul(COMMIT_BYTES)),
                units::counted_in(reach.flushes, "flush", "flushes")
            );
        }
        DeviceGrade {
            grade: if busy { Grade::Suspect } else { Grade::Pass },
            measured,
            advice: "The device worked for others during the run, and their requests stood in the \
                     same queue. Stop them, or take a device of its own; results belong on another \
                     disk (-o), and what a fill wrote must have reached the disk (sync).",
        }
    })
}

/// Whether writes fit the blocks of the storage.
pub(super) fn alignment(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let threshold = "the target begins at a block; at most 1 % of the writes not in whole blocks";
    of_devices("alignment", threshold, figures, engine, |device, reach| {
        let writes = reach.writes.requests;
        if device.block == 0 {
            return uncounted(device);
        }
        if writes == 0 {
            return DeviceGrade::nothing("the load wrote nothing");
        }
        let block = Bytes(device.block);
        if device.partition_start % device.block != 0 {
            return DeviceGrade {
                grade: Grade::Suspect,
                measured: format!(
                    "the target begins at byte {}, in the middle of a block of {block} ({})",
                    device.partition_start, device.block_of
                ),
                advice: "Every write touches a block more than it should, which is read first. \
                         Make the partition (or the loop device) anew at a multiple of 1 MiB.",
            };
        }
        let misaligned = reach.misaligned_writes(device.block);
        let part = share(misaligned, writes);
        let mut measured = format!(
            "{misaligned} of {} ({:.2} %) not in whole blocks of {block} ({})",
            units::counted(writes, "write"),
            part * 100.0,
            device.block_of
        );
        if device.optimal > device.block {
            let partial = reach.misaligned_writes(device.optimal);
            let _ = write!(
                measured,
                ", {:.1} % not in the {} that the device likes best",
                share(partial, writes) * 100.0,
                Bytes(device.optimal)
            );
        }
        DeviceGrade {
            grade: if part <= MISALIGNED_SHARE { Grade::Pass } else { Grade::Limited },
            measured,
            advice: "The load has writes that are smaller than this storage's blocks, or lie \
                     across them. For each of these a block is read first, which costs a disk a \
                     turn and a flash device a page: that is what this load costs on this storage. \
                     On storage with blocks like the recorded ones it costs less.",
        }
    })
}

/// The operations without data that some devices cannot do.
pub(in crate::judge) const DURABLE: [Op; 3] = [Op::Flush, Op::Discard, Op::WriteZeroes];

/// Whether flushes and discards had their effect.
pub(super) fn durability(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let threshold = "no flush, forced write or discard lost (invalid above 1 % of the requests)";
    of_devices("durability", threshold, figures, engine, |device, reach| {
        let lost: u64 = DURABLE.into_iter().map(|op| figures.unsupported(op)).sum();
        let durable = reach.flushes.saturating_add(reach.forced);
        if durable.saturating_add(reach.discards.requests).saturating_add(lost) == 0 {
            return DeviceGrade::nothing("the load has no flush, no forced write and no discard");
        }
        let cache = &device.write_cache;
        let mut measured = format!(
            "{}, {}, {}; {lost} could not be done",
            units::counted_in(reach.flushes, "flush", "flushes"),
            units::counted(reach.forced, "forced write"),
            units::counted(reach.discards.requests, "discard")
        );
        if !cache.is_empty() {
            let _ = write!(measured, "; cache {cache}");
        }
        let through = |state: &str| state == "write through";
        let is_through = through(cache) || through(&device.write_cache_after);
        let seen = device.counted.map(|counted| counted.flushes);
        if let Some(seen) = seen.filter(|_| !device.is_file) {
            let _ = {
                let seen = units::counted_in(seen, "flush", "flushes");
                write!(measured, ", {seen} reached the device")
            };
        }
        let needs_flush = reach.flushes > 0 || (reach.forced > 0 && device.fua != Some(true));
        let unseen = !device.is_file && !is_through && seen == Some(0) && needs_flush;
        let (grade, advice) = if lost > 0 {
            (
                graded(share(lost, figures.recorded()), 0.0, REFUSED_SHARE),
                "The target cannot do these requests, so their cost is missing from the figures \
                 and what was to be freed is not. Use a target that can, or leave them out of the \
                 load.",
            )
        } else if durable > 0 && is_through && device.is_volatile == Some(true) {
            (
                Grade::Suspect,
                "The kernel was told that this device has no volatile cache, and it has one: \
                 flushes cost nothing because they do nothing. Write 'write back' into \
                 queue/write_cache in sysfs.",
            )
        } else if durable > 0 && unseen {
            (
                Grade::Suspect,
                "Not one flush reached the device: a layer between drops them, and their cost is \
                 missing from the figures.",
            )
        } else {
            (Grade::Pass, "")
        };
        DeviceGrade { grade, measured, advice }
    })
}
