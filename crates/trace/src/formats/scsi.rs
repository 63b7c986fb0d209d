//! What SCSI commands ask for.
//!
//! Recorders of virtual machines keep the operation code of the command. A read is one of six
//! codes, by how many bits its address has. Codes are those of the T10 committee's list ("SCSI
//! Operation Codes", op-num.txt).

use crate::request::Op;

/// What the command with operation code `code` does to the medium; `None` if it neither reads nor
/// changes data, such as an inquiry.
pub const fn op(code: u8) -> Option<Op> {
    match code {
        // READ(6), (10), (12), (16).
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        // WRITE(6), (10), (12), (16); WRITE AND VERIFY(10), (12), (16).
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        // SYNCHRONIZE CACHE(10), (16).
        0x35 | 0x91 => Some(Op::Flush),
        // UNMAP.
        0x42 => Some(Op::Discard),
        // WRITE SAME(10), (16): hypervisors zero with it.
        0x41 | 0x93 => Some(Op::WriteZeroes),
        _ => None,
    }
}
