use std::collections::HashSet;
use std::io::Write;

use super::*;
use ioecho_trace::{Bytes, Flags, Op};

fn io(request: u64, offset: u64, length: usize) -> Io {
    Io {
        tag: 0,
        request,
        scheduled: Nanos(77),
        op: Op::Write,
        flags: Flags::empty(),
        offset: Bytes(offset),
        length: Bytes(length as u64),
    }
}

fn filled(fill: Fill, request: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut buffer = vec![0xAA; length];
    Pattern::with_fill(9, 3, fill).fill(&io(request, offset, length), &mut buffer);
    buffer
}

#[test]
fn every_sector_says_who_wrote_it_and_where_to() {
    for random in [0, 10, 49, 50, 99, 100] {
        let data = filled(Fill { random, ..Fill::UNIQUE }, 4, 8192, 4096);
        for (index, sector) in data.chunks(512).enumerate() {
            let stamp = Stamp {
                run: 9,
                target: 3,
                position: 8192 + index as u64 * 512,
                request: 4,
                scheduled: Nanos(77),
                index: index as u32,
                random,
                shared: false,
            };
            assert_eq!(read_stamp(sector), Some(stamp));
            assert_eq!(expected_sector(&stamp), *sector);
        }
    }
}

#[test]
fn sectors_of_version_1_are_still_read() {
    let mut sector = [0x5A; 512];
    sector[..8].copy_from_slice(b"IOECHO\0\x01");
    for (at, word) in [(8, 7_u64), (16, 4096), (24, 12), (32, 99), (40, 3 << 32)] {
        sector[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32c::crc32c(&sector);
    sector[40..44].copy_from_slice(&crc.to_le_bytes());
    let stamp = read_stamp(&sector).unwrap();
    assert_eq!((stamp.run, stamp.position, stamp.request), (7, 4096, 12));
    assert_eq!((stamp.scheduled, stamp.index), (Nanos(99), 3));
    sector[100] ^= 1;
    assert_eq!(read_stamp(&sector), None);
}

#[test]
fn any_flipped_bit_is_noticed() {
    for random in [0, 100] {
        let sector = filled(Fill { random, ..Fill::UNIQUE }, 2, 0, 512);
        for bit in 0..512 * 8 {
            let mut damaged = sector.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_stamp(&damaged), None, "bit {bit}");
        }
    }
}

#[test]
fn the_byte_stream_is_a_format_and_does_not_change() {
    let streams = [0, 30, 100]
        .map(|random| crc32c::crc32c(&filled(Fill { random, ..Fill::UNIQUE }, 2, 4096, 8192)));
    assert_eq!(streams, [1_413_737_653, 4_198_445_068, 1_932_708_831]);
}

#[test]
fn no_two_sectors_are_equal_and_no_stretch_comes_again() {
    let mut words = HashSet::new();
    for request in 0..64 {
        for sector in filled(Fill::default(), request, request % 8 * 4096, 64 << 10).chunks(512) {
            for word in sector[HEADER_BYTES..].chunks_exact(8) {
                assert!(words.insert(word.to_vec()));
            }
        }
    }
}

/// Four MiB of writes of this size to places all over a target.
fn image(fill: Fill, length: usize) -> Vec<u8> {
    let mut pattern = Pattern::with_fill(0x1234_5678_9ABC_DEF0, 0, fill);
    let mut random = SplitMix64(1);
    let mut image = vec![0; 4 << 20];
    for (request, buffer) in image.chunks_mut(length).enumerate() {
        let offset = random.below(1 << 24) * 4096;
        let io =
            Io { scheduled: Nanos(request as i64 * 20_011), ..io(request as u64, offset, length) };
        pattern.fill(&io, buffer);
    }
    image
}

/// What zstd, lz4 and gzip leave of the data, in percent.
fn compressed(data: &[u8]) -> [f64; 3] {
    let zstd = zstd::bulk::compress(data, 3).unwrap().len();
    let lz4 = lz4_flex::block::compress(data).len();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(data).unwrap();
    let gzip = gzip.finish().unwrap().len();
    [zstd, lz4, gzip].map(|length| length as f64 * 100.0 / data.len() as f64)
}

#[test]
fn what_is_left_after_compression_is_what_was_asked_for() {
    for length in [4 << 10, 64 << 10] {
        for random in (0..=100).step_by(10) {
            let fill = Fill { random, ..Fill::UNIQUE };
            // A header cannot be compressed to nothing.
            let tolerance = if random == 0 { 5.0 } else { 2.0 };
            for (name, left) in
                ["zstd", "lz4", "gzip"].into_iter().zip(compressed(&image(fill, length)))
            {
                let error = left - f64::from(random);
                assert!(error.abs() <= tolerance, "{name}, {length}: {random} became {left:.1}");
            }
        }
    }
}

#[test]
fn as_many_blocks_are_equal_as_were_asked_for() {
    for (dedup, length) in [(1.0, 4096), (1.5, 4096), (2.0, 65536), (4.0, 16384), (10.0, 4096)] {
        let mut pattern = Pattern::with_fill(5, 0, Fill { random: 100, dedup, ..Fill::UNIQUE });
        let (mut blocks, mut distinct) = (0, HashSet::new());
        let mut buffer = vec![0; length];
        // Three times round: contents come again when 1024 others were written.
        let bytes = (3.0 * 1024.0 * dedup) as u64 * 4096;
        for request in 0..bytes / length as u64 {
            pattern.fill(&io(request, request * length as u64, length), &mut buffer);
            blocks += length / 4096;
            distinct.extend(buffer.chunks(4096).map(crc32c::crc32c));
        }
        let found = blocks as f64 / distinct.len() as f64;
        assert!((found / dedup - 1.0).abs() < 0.05, "asked for {dedup}, found {found}");
    }
}

#[test]
fn blocks_larger_than_writes_are_equal_too_whatever_their_parts_are() {
    let unit = 256_u64 << 10;
    for (dedup, length) in [(1.5, 4096), (2.0, 65536), (4.0, 1 << 20)] {
        let mut pattern = Pattern::with_fill(5, 0, Fill { dedup, unit, ..Fill::UNIQUE });
        // Twice round, from the end to the beginning.
        let mut image = vec![0; (2.0 * 64.0 * dedup) as usize * unit as usize];
        for (number, part) in image.chunks_mut(length).enumerate().rev() {
            pattern.fill(&io(number as u64 * 3, (number * length) as u64, length), part);
        }
        let blocks: Vec<u32> = image.chunks(unit as usize).map(crc32c::crc32c).collect();
        let distinct: HashSet<&u32> = blocks.iter().collect();
        let found = blocks.len() as f64 / distinct.len() as f64;
        assert!((found / dedup - 1.0).abs() < 0.01, "asked for {dedup}, found {found}");
        // No part of such a block comes again within it.
        let parts: HashSet<u32> = image[..unit as usize].chunks(4096).map(crc32c::crc32c).collect();
        assert_eq!(parts.len() as u64, unit / 4096);
    }
}

#[test]
fn a_shared_block_says_so_and_what_is_no_whole_block_is_not_shared() {
    let data = filled(Fill { random: 100, dedup: 2.0, ..Fill::UNIQUE }, 4, 3584, 4096 + 1024);
    let stamps: Vec<Stamp> = data.chunks(512).map(|sector| read_stamp(sector).unwrap()).collect();
    let shared: Vec<bool> = stamps.iter().map(|stamp| stamp.shared).collect();
    assert_eq!(shared, [false, true, true, true, true, true, true, true, true, false]);
    assert_eq!((stamps[0].position, stamps[9].position), (3584, 3584 + 9 * 512));
}
