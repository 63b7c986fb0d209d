//! The ring's table of registered buffers.
//!
//! For every direct request the kernel looks up the pages of its buffer and pins them, a good part
//! of the request's cost. Registered buffers are pinned once. But pinned memory is limited for
//! ordinary users (`RLIMIT_MEMLOCK`), and the growing table is younger than `io_uring`: so plain
//! buffers are used if registering fails, and the run's facts say so.

use io_uring::IoUring;
use rustix::io::Errno;

use super::buffers::CHUNK;

/// The most places of a table (`IORING_MAX_REG_BUFFERS`, `io_uring/rsrc.c`).
const PLACES_MAX: usize = 1 << 14;

/// Places beyond those of whole chunks: the pool's last piece of memory is cut smaller.
const PLACES_SPARE: usize = 64;

/// What of the pool's memory stands in the table.
#[derive(Debug)]
pub(super) struct Registered {
    places: u16,
    used: u16,
    /// Why no more is registered.
    ended: Option<String>,
}

impl Registered {
    /// An empty table for a pool of so many bytes, if it is `wanted`.
    pub(super) fn new(ring: &IoUring, wanted: bool, memory_max: u64) -> Self {
        let places = (memory_max as usize / CHUNK + PLACES_SPARE).min(PLACES_MAX) as u16;
        let table = Self { places, used: 0, ended: None };
        if !wanted {
            return Self { ended: Some("not asked for".to_owned()), ..table };
        }
        match ring.submitter().register_buffers_sparse(u32::from(places)) {
            Ok(()) => table,
            Err(error) => Self { ended: Some(reason(&error)), ..table },
        }
    }

    /// Registers a piece of memory and answers its place. After the first refusal no other is
    /// tried: each costs a system call.
    ///
    /// The memory is mapped. If it is unmapped one day the kernel keeps its pages until the ring is
    /// gone.
    pub(super) fn add(&mut self, ring: &IoUring, address: *mut u8, length: usize) -> Option<u16> {
        if self.ended.is_some() || self.used == self.places {
            return None;
        }
        let memory = libc::iovec { iov_base: address.cast(), iov_len: length };
        let place = u32::from(self.used);
        // SAFETY: the range is mapped, and no request names the place before this has succeeded.
        // The kernel holds the pages themselves, so that later changes of the mapping cannot make
        // it write elsewhere.
        match unsafe { ring.submitter().register_buffers_update(place, &[memory], None) } {
            Ok(()) => {
                self.used += 1;
                Some(self.used - 1)
            }
            Err(error) => {
                self.ended = Some(reason(&error));
                None
            }
        }
    }

    /// For the run's facts.
    pub(super) fn describe(&self) -> String {
        match (&self.ended, self.used) {
            (None, _) => "registered buffers".to_owned(),
            (Some(reason), 0) => format!("buffers not registered ({reason})"),
            (Some(reason), _) => format!("buffers registered in part ({reason})"),
        }
    }
}

fn reason(error: &std::io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOMEM | Errno::PERM) => "RLIMIT_MEMLOCK is used up".to_owned(),
        Some(Errno::INVAL) => "the kernel is older than 5.19".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_explained() {
        let told = |errno: Errno| reason(&errno.into());
        assert_eq!(told(Errno::NOMEM), "RLIMIT_MEMLOCK is used up");
        assert_eq!(told(Errno::INVAL), "the kernel is older than 5.19");
        assert!(told(Errno::IO).contains("os error 5"));
    }
}
