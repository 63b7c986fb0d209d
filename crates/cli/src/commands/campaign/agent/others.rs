//! What an agent does for other hosts, which build on what it has set up: it takes part in their
//! replays, and goes last.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::ground::Fault;
use ioecho_campaign::protocol::{FromAgent, LEFT_AFTER_S};
use ioecho_linux::OpenDirectory;

use super::replaying::{BEGUN_ALREADY, until};
use super::voice::Voice;
use super::{Asked, Told};
use crate::commands::campaign::setting_up::Host;

/// The file in a spool by which a later agent says that it is there. It undoes what this one
/// leaves, in the order in which its campaign asks for it.
pub(super) const WANTED: &str = "wanted";

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a campaign must have been gone before what others stand on is taken down: they notice
/// after so long that it is silent, and take as long at most to take down theirs.
const OTHERS_WITHIN: Duration = Duration::from_secs(2 * LEFT_AFTER_S);

/// Does what is due beside the replays of other hosts, until they have ended.
pub(super) fn attend(
    host: Option<&Host<'static>>,
    voice: &Voice,
    asked: &Asked,
    starts: &mpsc::Receiver<Told>,
) -> Result<FromAgent, Fault> {
    // What was told for another replay is not for this one.
    while starts.try_recv().is_ok() {}
    voice.say(&FromAgent::Armed);
    let at_ns = instant(voice, asked, starts)?;
    let begun = Instant::now() + until(at_ns);
    let (mut from, mut fault) = (0.0, None);
    while fault.is_none() && !asked.rest.load(Relaxed) && !asked.to_stop() {
        let span = from..begun.elapsed().as_secs_f64();
        from = span.end;
        fault = host.and_then(|host| host.beside(&span).err());
        if starts.try_recv().is_ok() {
            fault.get_or_insert_with(|| Fault::Failed(BEGUN_ALREADY.to_owned()));
        }
        thread::sleep(LOOK_EVERY);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let ended = host.map_or(Ok(()), |host| host.ended(seconds));
    match fault.or(ended.err()) {
        _ if asked.to_stop() => Err(Fault::Stopped),
        Some(fault) => Err(fault),
        None => Ok(FromAgent::Done { seconds, said: String::new(), files: Vec::new() }),
    }
}

/// The instant that stands once it is settled.
fn instant(voice: &Voice, asked: &Asked, starts: &mpsc::Receiver<Told>) -> Result<i64, Fault> {
    let mut taken: Option<Told> = None;
    loop {
        match starts.recv_timeout(LOOK_EVERY) {
            Ok(told) => {
                let in_time = !until(told.settled_ns).is_zero();
                taken = in_time.then_some(told);
                voice.say(&FromAgent::Heard { at_ns: told.at_ns, in_time });
            }
            Err(mpsc::RecvTimeoutError::Timeout) if !asked.to_stop() => {}
            Err(_) => return Err(Fault::Stopped),
        }
        if let Some(told) = taken
            && until(told.settled_ns).is_zero()
        {
            return Ok(told.at_ns);
        }
    }
}

/// Waits until other hosts have had time to take down what stands on this one; whether it is this
/// agent that then takes down what it has set up.
pub(super) fn have_gone(asked: &Asked, spool: &OpenDirectory) -> bool {
    let begun = Instant::now();
    // A host that shuts down does not wait.
    while begun.elapsed() < OTHERS_WITHIN && !asked.signalled.is_asked() {
        if spool.path().join(WANTED).exists() {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}
