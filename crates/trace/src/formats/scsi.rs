//! Operations of SCSI commands.
//!
//! Recorders of virtual machines keep the operation code of the command and the length of its data.
//! A read is one of four codes, by how many bits its address has. Besides reads and writes there
//! are commands that have no range, and some whose range stands in data that was not recorded.
//!
//! Source: the T10 committee's list of codes ("SCSI Operation Codes", op-num.txt), SCSI Block
//! Commands 4, annex E, and SCSI Primary Commands 5.

use super::import::Fault;
use crate::header::{NoteKind, Notes, Topic};
use crate::request::Op;
use crate::units::SECTOR;

const NO_DATA: &str = "SCSI commands that neither read nor write";
const NO_RANGE: &str = "UNMAP commands whose ranges were not recorded";
const WRITE_SAME: Topic<'static> =
    NoteKind::Assumed.of("WRITE SAME commands, taken for writes of zeroes of the recorded length");
const UNMAP: Topic<'static> =
    NoteKind::Assumed.of("UNMAP commands, taken for discards of the recorded range");

/// The meaning of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A request with this operation.
    Request(Op),
    /// Frees ranges. The recorded length is that of a range, or that of the list of ranges.
    Unmap,
    /// Writes the same block over a range. The recorded length is that of the data, or of the
    /// range.
    WriteSame,
    /// A command of the standard that moves no data of the user.
    Other,
    /// An operation code that is not in the standard.
    Unknown,
}

impl Command {
    /// The command with the operation code `code`.
    pub const fn of(code: u64) -> Self {
        match code {
            // READ (6), (10), (12), (16).
            0x08 | 0x28 | 0xa8 | 0x88 => Self::Request(Op::Read),
            // WRITE (6), (10), (12), (16), WRITE AND VERIFY (10), (12), (16), WRITE ATOMIC (16).
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x9c => Self::Request(Op::Write),
            // SYNCHRONIZE CACHE (10), (16).
            0x35 | 0x91 => Self::Request(Op::Flush),
            0x42 => Self::Unmap,
            // WRITE SAME (10), (16): hypervisors zero with it.
            0x41 | 0x93 => Self::WriteSame,
            // TEST UNIT READY, REQUEST SENSE, FORMAT UNIT, INQUIRY, MODE SELECT, RESERVE, RELEASE,
            // MODE SENSE, START STOP UNIT, diagnostics, READ CAPACITY, VERIFY, PRE-FETCH, buffers,
            // LOG, PERSISTENT RESERVE, COMPARE AND WRITE, SERVICE ACTION IN, REPORT LUNS,
            // maintenance.
            0x00
            | 0x03
            | 0x04
            | 0x12
            | 0x15..=0x1e
            | 0x25
            | 0x2f
            | 0x34
            | 0x37
            | 0x3b..=0x3f
            | 0x4c
            | 0x4d
            | 0x55..=0x5f
            | 0x7f
            | 0x83..=0x87
            | 0x89
            | 0x8c
            | 0x8d
            | 0x8f
            | 0x90
            | 0x94
            | 0x95
            | 0x9b
            | 0x9e
            | 0x9f..=0xa4
            | 0xaf
            | 0xb7 => Self::Other,
            _ => Self::Unknown,
        }
    }

    /// Whether the command reads, writes or frees data on the disk.
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Request(_) | Self::Unmap | Self::WriteSame)
    }

    /// The operation of a command recorded with `length` bytes. Guesses are counted in `guesses`; a
    /// command that is no request is a fault.
    #[inline]
    pub fn op(self, length: u64, guesses: &mut Notes) -> Result<Op, Fault> {
        match self {
            Self::Request(op) => Ok(op),
            _ => self.extraordinary(length, guesses),
        }
    }

    #[cold]
    fn extraordinary(self, length: u64, guesses: &mut Notes) -> Result<Op, Fault> {
        match self {
            Self::Request(op) => Ok(op),
            // A length that is not whole blocks is that of the list of ranges.
            Self::Unmap if length.is_multiple_of(SECTOR) && length > 0 => {
                guesses.add(UNMAP, 1, None);
                Ok(Op::Discard)
            }
            Self::Unmap => {
                let reason = "the ranges stand in data that was not recorded";
                Err(Fault::lost(1, NO_RANGE, reason))
            }
            Self::WriteSame => {
                guesses.add(WRITE_SAME, 1, None);
                Ok(Op::WriteZeroes)
            }
            Self::Other | Self::Unknown => {
                let reason = "the command neither reads nor writes the disk";
                Err(Fault::lost(1, NO_DATA, reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_requests_by_their_code() {
        for (codes, op) in [
            (&[0x08, 0x28, 0xa8, 0x88][..], Op::Read),
            (&[0x0a, 0x2a, 0xaa, 0x8a, 0x2e, 0xae, 0x8e, 0x9c], Op::Write),
            (&[0x35, 0x91], Op::Flush),
            (&[0x42], Op::Discard),
            (&[0x41, 0x93], Op::WriteZeroes),
        ] {
            for code in codes {
                let command = Command::of(*code);
                assert!(command.is_request());
                assert_eq!(command.op(1024, &mut Notes::default()), Ok(op), "{code:#x}");
            }
        }
        for code in [0x00, 0x12, 0x25, 0xa0, 0xff, 0x128] {
            let command = Command::of(code);
            let fault = command.op(1024, &mut Notes::default()).unwrap_err();
            assert!(!command.is_request() && fault.loss.words == NO_DATA, "{code:#x}");
        }
        assert_eq!((Command::of(0x12), Command::of(0x128)), (Command::Other, Command::Unknown));
    }

    #[test]
    fn ranges_that_were_not_recorded_are_not_made_up_and_guesses_are_counted() {
        let mut guesses = Notes::default();
        for length in [24, 0, 513] {
            assert_eq!(Command::Unmap.op(length, &mut guesses).unwrap_err().loss.words, NO_RANGE);
        }
        assert!(guesses.is_empty());
        assert!(Command::Unmap.op(512, &mut guesses).is_ok());
        assert!(Command::WriteSame.op(512, &mut guesses).is_ok());
        assert_eq!((guesses.count_of(UNMAP), guesses.count_of(WRITE_SAME)), (1, 1));
    }
}
