//! What an agent says, without ever waiting for a campaign that has gone.
//!
//! A network that is gone takes what is written until its buffers are full, and then the writer
//! waits, for a quarter of an hour or for ever. A replay must be stopped and a device put back all
//! the same. So nothing is written before there is room, and nothing waits once the campaign is
//! taken for lost.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use ioecho_campaign::protocol::{FromAgent, line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::Asked;

const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The agent's way to the campaign.
pub(super) struct Voice {
    to: Mutex<File>,
    asked: Arc<Asked>,
}

impl Voice {
    pub(super) fn new(to: File, asked: Arc<Asked>) -> io::Result<Self> {
        fcntl_setfl(&to, fcntl_getfl(&to)? | OFlags::NONBLOCK)?;
        Ok(Self { to: Mutex::new(to), asked })
    }

    /// Says something; whether it could be said.
    pub(super) fn say(&self, message: &FromAgent) -> bool {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut to, &line(message)).is_ok()
    }

    /// Says something unless somebody else is just saying something.
    pub(super) fn say_if_quiet(&self, message: &FromAgent) {
        if let Ok(mut to) = self.to.try_lock() {
            let _ = self.write(&mut to, &line(message));
        }
    }

    fn write(&self, to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match to.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.asked.to_leave() {
                        return Err(error);
                    }
                    poll(&mut [PollFd::new(to, PollFlags::OUT)], Some(&LOOK_EVERY))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
