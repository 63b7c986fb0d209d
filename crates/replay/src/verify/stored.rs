//! The state of a verifier, kept between two runs of a family.
//!
//! A run that goes on from others must know what they wrote. From their records that takes as long
//! as reading all of them; what they come to is one entry for each sector that they touched. So a
//! run leaves its state when it ends, and the next one begins with that.
//!
//! Layout, numbers of eight bytes, little-endian: 16 bytes `IOECHO-VERSIONS1`; how many runs the
//! line has, of each its number, its target, its youngest request; of each what its requests
//! without a record may have done (in order or not, what they may have left, how many stretches,
//! of each the first and the last); how many sets, of each how many alternatives and those; then
//! stretches of sectors with one entry, the first sector, how many, the entry; a zero; the CRC-32C
//! of all before.

use std::io::{self, Read, Write};

use super::entry::Legal;
use super::origins::{LINE_MAX, Member, Origins};
use super::sets::{Alternatives, Sets};
use super::unrecorded::{Erasing, GAPS_MAX, Unrecorded};
use super::{PART_SECTORS, Verifier, VerifyConfig, VersionTable};

const MAGIC: &[u8; 16] = b"IOECHO-VERSIONS1";

/// Writes numbers, and sums them up.
pub(super) struct Writing<'w> {
    out: &'w mut dyn Write,
    crc: u32,
}

impl<'w> Writing<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, crc: 0 }
    }

    /// Ends it with the sum of all.
    pub(super) fn finish(self) -> io::Result<()> {
        self.out.write_all(&u64::from(self.crc).to_le_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.out.write_all(bytes)
    }

    pub(super) fn number(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }
}

/// Reads numbers, and sums them up.
pub(super) struct Reading<'r> {
    input: &'r mut dyn Read,
    crc: u32,
}

impl<'r> Reading<'r> {
    pub(super) fn new(input: &'r mut dyn Read) -> Self {
        Self { input, crc: 0 }
    }

    /// Whether all that was read is what was written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let crc = u64::from(self.crc);
        if self.number()? == crc { Ok(()) } else { Err(wrong()) }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes);
        Ok(bytes)
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A number that is at most `most`.
    pub(super) fn count(&mut self, most: u64) -> io::Result<u64> {
        let number = self.number()?;
        if number <= most { Ok(number) } else { Err(wrong()) }
    }
}

pub(super) fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not hold what a verifier leaves")
}

impl Verifier {
    /// Writes down what the target may hold now. Nothing may be in flight.
    ///
    /// # Errors
    ///
    /// If the table cannot be read or `out` cannot be written.
    pub fn store(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut writing = Writing::new(out);
        writing.bytes(MAGIC)?;
        let line = self.origins.line();
        writing.number(line.len() as u64)?;
        for Member { run, target, highest } in line {
            for number in [*run, u64::from(*target), *highest] {
                writing.number(number)?;
            }
        }
        for unrecorded in &self.unrecorded {
            let gaps = unrecorded.gaps();
            let erasing = unrecorded.erasing() as u64;
            for number in [u64::from(unrecorded.is_in_order()), erasing, gaps.len() as u64] {
                writing.number(number)?;
            }
            for (first, last) in gaps {
                writing.number(*first)?;
                writing.number(*last)?;
            }
        }
        let sets = self.sets.all();
        writing.number(sets.len() as u64)?;
        for set in sets {
            writing.number(set.as_slice().len() as u64)?;
            for legal in set.as_slice() {
                writing.number(legal.encode())?;
            }
        }
        self.store_table(&mut writing)?;
        writing.number(0)?;
        writing.finish()
    }

    fn store_table(&mut self, writing: &mut Writing<'_>) -> io::Result<()> {
        let mut entries = vec![0; PART_SECTORS];
        let mut from = 0;
        while let Some((mut first, end)) = self.table.touched_from(from)? {
            while first < end {
                let count = ((end - first) as usize).min(PART_SECTORS);
                self.table.get(first, &mut entries[..count])?;
                for stretch in entries[..count].chunk_by(|a, b| a == b) {
                    // A count of zero ends the list, so it comes first.
                    for number in [stretch.len() as u64, first, stretch[0]] {
                        writing.number(number)?;
                    }
                    first += stretch.len() as u64;
                }
            }
            from = end;
        }
        Ok(())
    }

    /// The verifier that was written down, with its versions in `table`, which is empty, of a
    /// target of so many sectors. [`Verifier::go_on`] makes it one of the next run.
    ///
    /// # Errors
    ///
    /// If that cannot be read, is not whole, or the table cannot be written; the table is of no use
    /// then.
    pub fn restore(
        mut table: Box<dyn VersionTable + Send>,
        sectors: u64,
        input: &mut dyn Read,
    ) -> io::Result<Self> {
        let mut reading = Reading::new(input);
        if reading.bytes::<16>()? != *MAGIC {
            return Err(wrong());
        }
        let count = reading.count(LINE_MAX as u64)?;
        let mut line = Vec::new();
        for _ in 0..count {
            let run = reading.number()?;
            let target = reading.count(u64::from(u16::MAX))? as u16;
            line.push(Member { run, target, highest: reading.number()? });
        }
        let Some(last) = line.last() else { return Err(wrong()) };
        let config = VerifyConfig { run: last.run, target: last.target, isolated: true };
        let mut unrecorded = Vec::new();
        for generation in 0..count {
            let in_order = reading.count(1)? == 1;
            let erasing = match reading.count(2)? {
                0 => Erasing::Nothing,
                1 => Erasing::Zeroes,
                _ => Erasing::Anything,
            };
            let mut of_run = Unrecorded::new(generation, in_order);
            of_run.may_leave(erasing);
            for _ in 0..reading.count(GAPS_MAX as u64)? {
                let first = reading.number()?;
                of_run.add(first, reading.number()?);
            }
            unrecorded.push(of_run);
        }
        let mut sets = Sets::new();
        for _ in 0..reading.count(Sets::MAX as u64)? {
            let mut set = Alternatives::none();
            for _ in 0..reading.count(Alternatives::MAX as u64)? {
                set.add(Legal::decode(reading.number()?));
            }
            sets.push(set);
        }
        loop {
            let count = reading.count(sectors)?;
            if count == 0 {
                break;
            }
            let (first, entry) = (reading.number()?, reading.number()?);
            if entry == 0 || first.checked_add(count).is_none_or(|end| end > sectors) {
                return Err(wrong());
            }
            table.set(first, count, entry)?;
        }
        reading.finish()?;
        let origins = Origins::of_line(line);
        Ok(Self { sets, origins, unrecorded, ..Self::new(config, table, None) })
    }

    /// The numbers of the runs whose writes it knows, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = u64> {
        self.origins.line().iter().map(|member| member.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::MemoryTable;
    use crate::verify::rebuild::{After, Change, DurableBefore, Rebuild};
    use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

    fn written() -> Verifier {
        let config = VerifyConfig { run: 7, target: 1, isolated: true };
        let table = Box::new(MemoryTable::default());
        let mut rebuild = Rebuild::new(config, table, After::Kill, DurableBefore::default());
        for request in 0..200 {
            rebuild.record(request, false);
            rebuild.apply(&Change {
                request,
                op: if request == 9 { Op::Discard } else { Op::Write },
                flags: Flags::empty(),
                offset: Bytes(request % 77 * 5120),
                length: Bytes(4096),
                submitted: Nanos(request as i64 * 2),
                completed: Some(Nanos(request as i64 * 2 + 1)),
                outcome: if request % 5 == 4 { Outcome::Error(5) } else { Outcome::Ok },
            });
        }
        rebuild.finish(true).go_on(VerifyConfig { run: 8, target: 0, isolated: false }, None)
    }

    fn restored(bytes: &[u8], sectors: u64) -> io::Result<Verifier> {
        Verifier::restore(Box::new(MemoryTable::default()), sectors, &mut &*bytes)
    }

    #[test]
    fn what_was_stored_comes_back_to_the_last_bit() {
        let mut before = Vec::new();
        written().store(&mut before).unwrap();
        let mut back = restored(&before, 1000).unwrap();
        assert_eq!(back.runs().collect::<Vec<_>>(), [7, 8]);
        let mut again = Vec::new();
        back.store(&mut again).unwrap();
        assert!(again == before, "{} and {} bytes", again.len(), before.len());
    }

    #[test]
    fn what_is_not_whole_or_of_a_larger_target_is_refused() {
        let mut bytes = Vec::new();
        written().store(&mut bytes).unwrap();
        assert!(restored(&bytes, 700).is_err(), "it has sectors behind the end");
        for at in 0..bytes.len() {
            assert!(restored(&bytes[..at], 1000).is_err(), "cut at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(restored(&flipped, 1000).is_err(), "flipped at {at}");
        }
    }
}
