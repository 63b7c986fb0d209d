//! Numbers in binary records.

/// A record whose fields are read by their place.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a record of a little-endian machine.
    #[inline]
    pub(super) const fn little(bytes: &'a [u8]) -> Self {
        Self { bytes, big_endian: false }
    }

    /// The fields of a record in either byte order.
    #[inline]
    pub(super) const fn of(bytes: &'a [u8], big_endian: bool) -> Self {
        Self { bytes, big_endian }
    }

    /// The bytes from `at` on; zeroes where the record has fewer.
    #[inline]
    fn chunk<const N: usize>(self, at: usize) -> [u8; N] {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    /// The byte at `at`.
    #[inline]
    pub(super) fn u8(self, at: usize) -> u8 {
        self.chunk::<1>(at)[0]
    }

    /// The 16 bits at `at`.
    #[inline]
    pub(super) fn u16(self, at: usize) -> u16 {
        let bytes = self.chunk(at);
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// The 32 bits at `at`.
    #[inline]
    pub(super) fn u32(self, at: usize) -> u32 {
        let bytes = self.chunk(at);
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// The 64 bits at `at`.
    #[inline]
    pub(super) fn u64(self, at: usize) -> u64 {
        let bytes = self.chunk(at);
        if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}
