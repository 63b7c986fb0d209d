//! Concatenated packed streams, and the zeros after the last.
//!
//! Both gzip and bzip2 files may have several members, as `cat` makes them. Programs that write to
//! a tape or in blocks of a fixed size fill the last block with zeros, which `gzip` ignores (gzip's
//! manual: "trailing zero bytes are ignored"). A decoder for many members would take them for a
//! broken member.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;

/// The decoder of one member.
pub(super) trait Member: Read {
    /// The packed stream.
    type Packed: BufRead;
    /// Begins a member.
    fn begin(packed: Self::Packed) -> Self;
    /// The packed stream; it stands at the end of the member once the member has ended.
    fn packed(&self) -> &Self::Packed;
    /// The packed stream, to read on.
    fn packed_mut(&mut self) -> &mut Self::Packed;
    /// The packed stream, owned.
    fn into_packed(self) -> Self::Packed;
}

/// A member of a gzip file.
pub(super) type Gzip<R> = GzDecoder<R>;

/// A stream of a bzip2 file.
pub(super) type Bzip2<R> = BzDecoder<R>;

macro_rules! member {
    ($decoder:ident) => {
        impl<R: BufRead> Member for $decoder<R> {
            type Packed = R;
            fn begin(packed: R) -> Self {
                Self::new(packed)
            }
            fn packed(&self) -> &R {
                self.get_ref()
            }
            fn packed_mut(&mut self) -> &mut R {
                self.get_mut()
            }
            fn into_packed(self) -> R {
                self.into_inner()
            }
        }
    };
}
member!(GzDecoder);
member!(BzDecoder);

/// Unpacks all members.
pub(super) struct Chain<M> {
    /// The current member; `None` only while it is replaced by the next.
    member: Option<M>,
}

impl<M: Member> Chain<M> {
    /// Unpacks `packed`, which begins with a member.
    pub(super) fn new(packed: M::Packed) -> Self {
        Self { member: Some(M::begin(packed)) }
    }

    /// The packed stream.
    pub(super) fn packed(&self) -> Option<&M::Packed> {
        self.member.as_ref().map(M::packed)
    }

    /// The packed stream, owned.
    pub(super) fn into_packed(self) -> Option<M::Packed> {
        self.member.map(M::into_packed)
    }
}

impl<M: Member> Read for Chain<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() || is_zero_to_end(member.packed_mut())? {
                return Ok(count);
            }
            self.member = self.member.take().map(|member| M::begin(member.into_packed()));
        }
        Ok(0)
    }
}

/// Skips zeros; returns whether only zeros were left.
fn is_zero_to_end<R: BufRead>(packed: &mut R) -> io::Result<bool> {
    loop {
        let ahead = packed.fill_buf()?;
        if ahead.is_empty() {
            return Ok(true);
        }
        let zeros = ahead.iter().take_while(|byte| **byte == 0).count();
        let is_all = zeros == ahead.len();
        packed.consume(zeros);
        if !is_all {
            return Ok(false);
        }
    }
}
