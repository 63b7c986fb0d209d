use super::*;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;

pub(crate) const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Zstd, Codec::Xz, Codec::Bzip2];

/// `bytes` as one gzip member.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    pack(bytes, Codec::Gzip)
}

/// `bytes` packed, as one member, frame or stream.
pub(crate) fn pack(bytes: &[u8], codec: Codec) -> Vec<u8> {
    match codec {
        Codec::Plain => bytes.to_vec(),
        Codec::Gzip => {
            let fast = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), fast);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Bzip2 => {
            let fast = bzip2::Compression::fast();
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), fast);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn text() -> Vec<u8> {
    lines(200_000)
}

fn lines(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|n| format!("{} ; {n}\n", n.wrapping_mul(2_654_435_761)).into_bytes())
        .collect()
}

fn drained(mut stream: impl Read) -> (Vec<u8>, Option<io::Error>) {
    let mut out = Vec::new();
    let error = stream.read_to_end(&mut out).err();
    (out, error)
}

pub(super) fn decoded(packed: &[u8]) -> (Vec<u8>, Option<io::Error>) {
    drained(Decoder::new(packed, Codec::of_first_bytes(packed)))
}

/// Takes every member of an archive.
fn all() -> Choice {
    Box::new(|_, _| Ok(true))
}

/// The unpacked bytes, through every step that a file passes, and the error.
fn unpacked(packed: &[u8]) -> (Vec<u8>, Option<io::Error>) {
    let packed = io::Cursor::new(packed.to_vec());
    drained(unpack(Peeked::new(packed, PEEK_BYTES), all()).unwrap().stream)
}

#[test]
fn a_stream_is_unpacked_by_what_it_holds_and_members_follow_each_other() {
    let text = text();
    assert_eq!(unpacked(&text).0, text);
    for codec in CODECS {
        let mut members = pack(&text[..1000], codec);
        members.extend(pack(&text[1000..], codec));
        for (out, error) in [decoded(&members), unpacked(&members)] {
            assert!(error.is_none(), "{codec:?}: {error:?}");
            assert!(out == text, "{codec:?}: {} of {}", out.len(), text.len());
        }
        assert!(unpacked(&pack(b"", codec)).0.is_empty(), "{codec:?}");
    }
    // A frame that a parallel zstd puts in front.
    let mut skipped = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    skipped.extend(pack(&text, Codec::Zstd));
    assert_eq!(unpacked(&skipped).0, text);
}

#[test]
fn a_cut_stream_gives_what_it_held_and_then_says_that_it_is_cut() {
    let text = text();
    for codec in CODECS {
        let packed = pack(&text, codec);
        for cut in [packed.len() / 2, packed.len() - 9, packed.len() - 1] {
            for (out, error) in [decoded(&packed[..cut]), unpacked(&packed[..cut])] {
                assert!(text.starts_with(&out), "{codec:?}");
                assert!(out.len() > text.len() / 4, "{codec:?}: {}", out.len());
                let damage = damage(&error.unwrap()).unwrap();
                assert!(damage.contains("breaks off"), "{damage}");
                assert!(damage.contains(codec.name()), "{damage}");
            }
        }
    }
}

#[test]
fn a_corrupt_stream_is_not_taken_for_a_disk_that_cannot_be_read() {
    for codec in CODECS {
        let mut packed = pack(&text(), codec);
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0xff);
        let (out, error) = unpacked(&packed);
        assert!(!out.is_empty(), "{codec:?}");
        let damage = damage(&error.unwrap()).unwrap();
        assert!(damage.contains("corrupt") && damage.contains(codec.name()), "{damage}");
    }
    assert!(damage(&io::Error::from_raw_os_error(22)).is_none());
}

/// Gives `bytes` and then an error of the file system.
struct Failing<'a>(&'a [u8], io::ErrorKind);

impl Read for Failing<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(self.1.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn a_disk_that_cannot_be_read_is_not_taken_for_a_corrupt_stream() {
    for codec in CODECS {
        let packed = pack(&text(), codec);
        // Codecs report a truncated stream with the second kind.
        for kind in [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof] {
            let failing = Failing(&packed[..packed.len() / 2], kind);
            let error = drained(Decoder::new(failing, codec)).1.unwrap();
            assert_eq!((error.kind(), damage(&error)), (kind, None), "{codec:?}");
        }
    }
}

#[test]
fn a_stream_that_wants_more_memory_than_the_bound_says_so_with_its_remedy() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(29).unwrap();
    encoder.write_all(&text()).unwrap();
    let zstd = encoder.finish().unwrap();
    // Headers alone: a stream, and a block whose dictionary is said to have 1 GiB (the .xz file
    // format, sections 2.1.1 and 3.1; LZMA2 codes that size by 36).
    let mut xz = pack(b"x", Codec::Xz);
    xz[16] = 36;
    let header_end = 12 + (usize::from(xz[12]) + 1) * 4;
    let crc = crc32(&xz[12..header_end - 4]);
    xz[header_end - 4..header_end].copy_from_slice(&crc.to_le_bytes());
    for packed in [zstd, xz] {
        let error = unpacked(&packed).1.unwrap();
        let text = damage(&error).unwrap();
        assert!(text.contains("needs more than 256 MiB"), "{text}");
        assert!(remedy(&error).contains("unpack it first"));
    }
}

/// CRC-32 as gzip and xz have it, a bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        }
    }
    !crc
}

#[test]
fn first_bytes_are_read_twice_and_an_error_behind_them_keeps_its_place() {
    let packed = gzip(&text());
    let cut = &packed[..packed.len() / 2];
    let mut peeked = Peeked::new(Decoder::new(cut, Codec::Gzip), usize::MAX);
    let head = peeked.first_bytes().to_vec();
    let mut out = Vec::new();
    assert!(peeked.read_to_end(&mut out).is_err());
    assert_eq!(out, head);
}

#[test]
fn how_much_of_the_file_was_used_is_known_behind_every_codec() {
    let text = text();
    for codec in CODECS {
        let packed = pack(&text, codec);
        let bytes = packed.len() as u64;
        let packed = Peeked::new(io::Cursor::new(packed), PEEK_BYTES);
        let Unpacked { mut stream, is_stored, .. } = unpack(packed, all()).unwrap();
        assert!(!is_stored);
        let mut half = vec![0; text.len() / 2];
        stream.read_exact(&mut half).unwrap();
        let used = stream.position();
        assert!(used > bytes / 4 && used < bytes, "{codec:?}: {used} of {bytes}");
        stream.read_to_end(&mut half).unwrap();
        assert_eq!(stream.position(), bytes, "{codec:?}");
    }
}

/// A stream without end whose life is watched.
struct Endless(Arc<AtomicBool>);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        into.fill(b'x');
        Ok(into.len())
    }
}

impl Positioned for Endless {
    fn position(&self) -> u64 {
        7
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn the_thread_ends_when_nobody_reads_any_more() {
    for bytes in [0, 1, 3 << 20] {
        let gone = Arc::new(AtomicBool::new(false));
        let mut ahead = Ahead::new(Endless(Arc::clone(&gone))).unwrap();
        ahead.read_exact(&mut vec![0; bytes]).unwrap();
        drop(ahead);
        // Does not measure time; only ends the test if it hangs.
        let deadline = Instant::now() + Duration::from_mins(1);
        while !gone.load(Ordering::SeqCst) {
            assert!(Instant::now() < deadline, "the thread lives on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn an_error_is_met_once_and_nothing_follows() {
    struct Broken(bool);
    impl Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(io::Error::other("broken"));
            }
            into[..3].copy_from_slice(b"abc");
            Ok(3)
        }
    }
    impl Positioned for Broken {
        fn position(&self) -> u64 {
            3
        }
    }
    let mut ahead = Ahead::new(Broken(false)).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(ahead.read(&mut bytes).unwrap(), 3);
    assert_eq!(ahead.read(&mut bytes).unwrap_err().to_string(), "broken");
    assert_eq!(ahead.read(&mut bytes).unwrap(), 0);
    assert_eq!(ahead.position(), 3);
}

/// A header of a tar archive and its content.
pub(crate) fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..136].copy_from_slice(format!("{:011o} ", content.len()).as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = block.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[test]
fn an_archive_reads_as_what_its_members_hold() {
    let long = "d/".repeat(60) + "x.csv";
    let mut tar = Vec::new();
    tar.extend(member("traces/", b'5', b""));
    tar.extend(member("traces/a.csv", b'0', b"1,2\n3,4"));
    tar.extend(member("traces/empty", b'0', b""));
    tar.extend(member("traces/link", b'2', b""));
    tar.extend(member("././@LongLink", b'L', long.as_bytes()));
    tar.extend(member(&long[..99], b'0', b"5,6\n"));
    tar.extend(member("traces/._b.csv", b'0', b"resource fork"));
    tar.extend(member("x/PaxHeader", b'x', b"18 path=x/._c.csv\n"));
    tar.extend(member("c.csv", 0, b"resource fork"));
    tar.extend(member("b.csv.gz", b'0', &gzip(b"7,8\n")));
    tar.extend(member("b.csv.xz", b'0', &pack(b"9,10", Codec::Xz)));
    tar.extend([0; 1024]);
    let expected = "1,2\n3,4\n5,6\n7,8\n9,10\n";
    for codec in [Codec::Plain, Codec::Gzip, Codec::Zstd] {
        let (out, error) = unpacked(&pack(&tar, codec));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    // An archive whose end is missing is read all the same, as tar does.
    assert_eq!(unpacked(&tar[..tar.len() - 1024]).0, expected.as_bytes());
}

#[test]
fn nothing_is_put_between_binary_members() {
    let tar = [member("a", b'0', &[1, 0, 2]), member("b", b'0', &[3]), vec![0; 1024]].concat();
    assert_eq!(unpacked(&tar).0, [1, 0, 2, 3, b'\n']);
}

#[test]
fn a_broken_archive_gives_what_it_held_and_says_what_is_wrong() {
    let mut tar = [member("a", b'0', b"1,2\n"), member("b", b'0', b"3,4\n")].concat();
    let (out, error) = unpacked(&tar[..tar.len() - 510]);
    assert_eq!(out, b"1,2\n3,");
    assert!(damage(&error.unwrap()).unwrap().contains("tar archive breaks off"));
    tar[1024] = b'x';
    let (out, error) = unpacked(&tar);
    assert_eq!(out, b"1,2\n");
    assert!(damage(&error.unwrap()).unwrap().contains("checksum"));
}

#[test]
fn archives_one_behind_the_other_are_one() {
    let tar = |name, text| [member(name, b'0', text), vec![0; 10_240 - 1024]].concat();
    let (one, other) = (tar("a", b"1,2\n"), tar("b", b"3,4\n"));
    for codec in [Codec::Plain, Codec::Gzip] {
        let both = [pack(&one, codec), pack(&other, codec)].concat();
        let (out, error) = unpacked(&both);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(out, b"1,2\n3,4\n");
        // Zeros of any number, a block or not, are the filling of a tape.
        assert!(unpacked(&[&one[..], &[0; 700]].concat()).1.is_none());
    }
    for behind in [&b"prose"[..], &[1; 512]] {
        let (out, error) = unpacked(&[&one, behind].concat());
        assert_eq!(out, b"1,2\n");
        let damage = damage(&error.unwrap()).unwrap();
        assert!(damage.contains("behind the end of the tar archive"), "{damage}");
    }
}

#[test]
fn an_archive_in_an_archive_is_read_as_one_with_it() {
    let inner = [member("in/a", b'0', b"1,2\n3,4\n"), vec![0; 10_240 - 1024]].concat();
    for codec in [Codec::Plain, Codec::Gzip, Codec::Xz] {
        let tar = [
            member("before", b'0', b"0,0\n"),
            member("in.tar", b'0', &pack(&inner, codec)),
            member("behind", b'0', b"5,6\n"),
            vec![0; 1024],
        ]
        .concat();
        let around = [member("tar.tar", b'0', &tar), vec![0; 1024]].concat();
        for bytes in [tar, around] {
            let (out, error) = unpacked(&bytes);
            assert!(error.is_none(), "{codec:?}: {error:?}");
            assert_eq!(String::from_utf8(out).unwrap(), "0,0\n1,2\n3,4\n5,6\n", "{codec:?}");
            let packed = Peeked::new(io::Cursor::new(bytes.clone()), PEEK_BYTES);
            let mut stream = unpack(packed, all()).unwrap().stream;
            io::copy(&mut stream, &mut io::sink()).unwrap();
            assert_eq!(stream.position(), bytes.len() as u64, "{codec:?}");
        }
    }
    // An archive that is cut short reports it and gives its content up to there.
    let cut = [member("in.tar", b'0', &inner[..512 + 6]), vec![0; 1024]].concat();
    let (out, error) = unpacked(&cut);
    assert_eq!(out, b"1,2\n3,");
    assert!(damage(&error.unwrap()).unwrap().contains("breaks off"));
}

#[test]
fn archives_that_lie_in_each_other_without_end_are_told_as_such() {
    let mut tar = member("x", b'0', b"1,2\n");
    for _ in 0..6 {
        tar = member("in.tar", b'0', &tar);
    }
    let damage = damage(&unpacked(&tar).1.unwrap()).unwrap();
    assert!(damage.contains("without end"), "{damage}");
}

#[test]
fn zeros_behind_a_packed_file_are_no_damage_and_anything_else_is() {
    let text = text();
    // The .xz file format, section 2.2, has padding of multiples of four bytes.
    for (codec, zeros) in [(Codec::Gzip, 700), (Codec::Bzip2, 300_000), (Codec::Xz, 512)] {
        let padded = [pack(&text, codec), vec![0; zeros]].concat();
        for (out, error) in [decoded(&padded), unpacked(&padded)] {
            assert!(error.is_none() && out == text, "{codec:?}: {error:?}");
        }
        let (out, error) = unpacked(&[&padded[..], b"something"].concat());
        assert!(out == text && damage(&error.unwrap()).is_some(), "{codec:?}");
    }
}

#[test]
fn members_that_are_not_chosen_are_passed_over_and_looking_through_unpacks_no_more_than_it_shows() {
    let text = text();
    let gzip = gzip(&text);
    let tar = [
        member("LICENCE", b'0', b"all rights"),
        member("x/a.gz", b'0', &gzip),
        member("b", b'0', b"1,2\n"),
        vec![0; 1024],
    ]
    .concat();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let choice = || -> Choice {
        let seen = Arc::clone(&seen);
        Box::new(move |name, first_bytes| {
            seen.lock().unwrap().push((name.to_owned(), first_bytes.len()));
            Ok(name == "b")
        })
    };
    let unpacked = unpack(Peeked::new(io::Cursor::new(tar.clone()), PEEK_BYTES), choice()).unwrap();
    assert!(unpacked.is_archive);
    assert_eq!(drained(unpacked.stream).0, b"1,2\n");
    look_through(io::Cursor::new(pack(&tar, Codec::Xz)), choice()).unwrap();
    look_through(io::Cursor::new(text), choice()).unwrap();
    let once = [("LICENCE", 10), ("x/a.gz", PEEK_BYTES), ("b", 4)];
    let once = once.map(|(name, bytes)| (name.to_owned(), bytes));
    assert_eq!(*seen.lock().unwrap(), [once.clone(), once].concat());
}

#[test]
fn every_name_packs_with_its_codec_and_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let text = text();
    for (name, codec) in
        [("x", Codec::Plain), ("x.GZ", Codec::Gzip), ("x.zst", Codec::Zstd), ("x.xz", Codec::Xz)]
            .into_iter()
            .chain([("x.bz2", Codec::Bzip2)])
    {
        let path = directory.path().join(name);
        assert_eq!(Codec::of_name(&path), codec);
        let mut encoder = Encoder::new(PartialFile::create(&path).unwrap(), codec);
        encoder.write_all(&text).unwrap();
        encoder.finish().unwrap();
        let packed = std::fs::read(&path).unwrap();
        assert_eq!(Codec::of_first_bytes(&packed), codec);
        assert!(unpacked(&packed).0 == text, "{name}");
    }
}

proptest! {
    #[test]
    fn any_bytes_behind_a_magic_number_end_or_fail(
        magic in 0_usize..6, bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        cut in 0_usize..3000,
    ) {
        let start = match magic {
            4 => member("x", b'0', &bytes),
            5 => Vec::new(),
            _ => pack(&[], CODECS[magic])[..8].to_vec(),
        };
        let mut file = [start, bytes].concat();
        file.truncate(cut);
        let (out, _) = unpacked(&file);
        prop_assert!(out.len() < 1 << 20);
    }

    #[test]
    fn a_packed_file_with_a_byte_changed_gives_nothing_that_was_not_there(
        codec in 0_usize..4, at in any::<proptest::sample::Index>(), change in 1_u8..,
    ) {
        let text = &lines(200)[..];
        let mut packed = pack(text, CODECS[codec]);
        let at = at.index(packed.len());
        packed[at] ^= change;
        let (out, error) = unpacked(&packed);
        // Names and times in a gzip header are not summed, so the change may be without effect.
        prop_assert!(error.is_some() || out == text || out == packed);
    }
}
