//! The formats, one file each, and the choice among them.
//!
//! A format is recognised by the file's content, not by its name, because recordings get renamed.
//! Only an output's format is chosen by name.
//!
//! A further format is a module with a [`Format`] (and a [`Writable`]) and its line in [`FORMATS`]
//! (and [`WRITABLE`](write::WRITABLE)).

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::compression::{self, Peeked, Positioned, Unpacked};
use crate::encoding;
use crate::error::TraceError;
use crate::generate;
use crate::stream::{Labelled, Opened, Source};
use crate::text;
use crate::wording::Wording;

pub mod alibaba;
pub mod biosnoop;
pub mod blkparse;
pub mod blkreplay;
pub mod blktrace;
pub mod btreplay;
pub mod cachesim;
pub mod cloudphysics;
pub mod csv;
pub mod described;
pub mod diskmon;
pub mod disksim;
pub mod doubts;
pub mod etw;
mod fields;
pub mod fio;
pub mod fio_latency;
pub mod fiu;
#[cfg(test)]
pub(crate) mod from_bytes;
pub mod ftrace;
pub mod hfplayer;
pub mod huaicheng;
mod idle;
pub mod import;
pub mod k5cloud;
pub mod members;
pub mod msr;
pub mod native;
mod numbers;
mod options;
pub mod perfetto;
#[cfg(test)]
mod reading;
pub mod recording;
pub mod scsi;
pub mod smreplay;
pub mod spc;
pub mod strace;
pub mod systor;
pub mod tectonic;
pub mod tencent;
pub mod thesios;
pub mod vdbench;
pub mod vscsi;
pub mod wall_clock;
pub mod write;

pub use self::described::{Description, DescriptionError, Separator, Words};
pub use self::import::WholeSeconds;
pub use self::members::Several;
pub use self::options::{IssueEvent, ReadOptions};
pub use self::write::{Writable, create};
pub use crate::order::Order;

use self::doubts::questioned;
use self::members::Members;

/// The number of first bytes, after decompression, that are inspected to recognise a file.
const LOOK_BYTES: usize = compression::PEEK_BYTES;

/// A format that can be read.
#[derive(Debug)]
pub struct Format {
    /// The name of the format for `--format`.
    pub name: &'static str,
    /// The description of the format, in a line.
    pub title: &'static str,
    /// The way in which several files of the format in one archive combine.
    pub several: Several,
    /// Whether a file that begins with these bytes, unpacked, is of this format.
    pub recognise: fn(first_bytes: &[u8]) -> bool,
    /// Begins to read a file of this format.
    pub open: fn(Opening<'_>) -> Opened,
}

/// Every format, in the order in which a file is tried. First come those with a magic number, then
/// records without one, which are judged by their content. Text comes last, the most distinctive
/// lines first, because a few columns of numbers fit many formats.
pub const FORMATS: &[Format] = &[
    native::FORMAT,
    blktrace::FORMAT,
    recording::FORMAT,
    cachesim::LCS,
    vdbench::FORMAT,
    btreplay::FORMAT,
    vscsi::FORMAT,
    cachesim::ORACLE_GENERAL,
    cachesim::ORACLE_GENERAL_OPNS,
    cachesim::IQIBH,
    cachesim::IQI,
    hfplayer::FORMAT,
    csv::FORMAT,
    blkreplay::FORMAT,
    fio::FORMAT,
    blkparse::FORMAT,
    ftrace::FORMAT,
    strace::FORMAT,
    etw::FORMAT,
    biosnoop::FORMAT,
    diskmon::FORMAT,
    fio_latency::FORMAT,
    thesios::FORMAT,
    msr::FORMAT,
    systor::FORMAT,
    spc::FORMAT,
    k5cloud::FORMAT,
    alibaba::FORMAT,
    fiu::FORMAT,
    tencent::FORMAT,
    cloudphysics::FORMAT,
    huaicheng::FORMAT,
    tectonic::FORMAT,
    disksim::FORMAT,
    smreplay::FORMAT,
];

/// The format of this name, or a sentence with the names that are known.
pub fn by_name(name: &str) -> Result<&'static Format, String> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        format!("there is no format '{name}'; known are {}", names.join(", "))
    })
}

/// A file, unpacked, whose first bytes can be looked at.
pub type Stream = Peeked<Box<dyn Positioned + Send>>;

/// A file that a format begins to read.
pub struct Opening<'a> {
    /// The content of the file, unpacked.
    pub stream: Stream,
    /// The path of the file, for messages. Formats that must jump about open it again, if it is
    /// `seekable`.
    pub path: &'a Path,
    /// Whether the path can be opened once more and read without unpacking: a regular file that is
    /// not packed.
    pub seekable: bool,
    /// The user's options for reading.
    pub options: &'a ReadOptions,
}

impl Opening<'_> {
    /// Refuses a file that is not `seekable`.
    pub fn demand_seekable(&self) -> Result<(), TraceError> {
        if self.seekable {
            return Ok(());
        }
        let (reason, remedy) = if self.path.is_file() {
            (
                "this is a Parquet file inside a compressed file or an archive, and is read from \
                 its end",
                "unpack it first; it is compressed as it is",
            )
        } else {
            (
                "a Parquet file is read from its end, which a pipe does not have",
                "put it into a file and name that",
            )
        };
        Err(TraceError::Unusable {
            path: self.path.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.into(),
        })
    }
}

/// Opens the trace at `path`, whatever its format. `-` is the standard input, and a path that
/// begins with `gen:` describes a load that is [generated](crate::generate). A prefix `dev` of
/// files `dev.blktrace.N` names the recording that they make up.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    if path == Path::new("-") {
        return recognise(io::stdin(), Path::new("standard input"), options, false);
    }
    if generate::is_line(path) {
        idle::refuse(options, "a generated load", path)?;
        return generate::open(path);
    }
    let read_error = |error| TraceError::read(path, error);
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && blktrace::is_prefix(path) => {
            idle::refuse(options, blktrace::FORMAT.name, path)?;
            return Ok(questioned(blktrace::open(path, options)?));
        }
        Err(error) => return Err(read_error(error)),
    };
    if metadata.is_dir() {
        if recording::is_directory(path) {
            idle::refuse(options, recording::FORMAT.name, path)?;
            return Ok(questioned(recording::open(path, options)?));
        }
        if blktrace::is_prefix(path) {
            idle::refuse(options, blktrace::FORMAT.name, path)?;
            return Ok(questioned(blktrace::open(path, options)?));
        }
        return Err(TraceError::Unusable {
            path: path.to_owned(),
            reason: "this is a directory".to_owned(),
            remedy: "name a trace file in it".into(),
        });
    }
    let file = File::open(path).map_err(read_error)?;
    recognise(file, path, options, metadata.is_file())
}

/// Prepares the content of a file for recognition, without a byte order mark.
fn peeked(unpacked: Box<dyn Positioned + Send>) -> Stream {
    let mut stream = Peeked::new(unpacked, LOOK_BYTES);
    if encoding::is_marked(stream.first_bytes()) {
        stream.pass_over(encoding::MARK.len());
    }
    stream
}

/// Chooses the format by the first bytes of `file`.
fn recognise<R: Read + Send + 'static>(
    file: R,
    path: &Path,
    options: &ReadOptions,
    regular: bool,
) -> Result<Box<dyn Source>, TraceError> {
    let mut packed = Peeked::new(file, LOOK_BYTES);
    if let Some(error) = packed.take_error() {
        return Err(TraceError::read(path, error));
    }
    if packed.first_bytes().is_empty() {
        // A processor without events has an empty file; only its name shows its recording.
        if regular && blktrace::is_per_cpu(path) {
            idle::refuse(options, blktrace::FORMAT.name, path)?;
            return Ok(questioned(blktrace::open(path, options)?));
        }
        return Err(TraceError::Empty { path: path.to_owned() });
    }
    let described = options.described.as_ref().map(|_| &described::FORMAT);
    let asked = described.or(options.format);
    let members = Members::new(asked);
    let Unpacked { stream, is_stored, is_archive } =
        compression::unpack(packed, members.choice()).map_err(|e| TraceError::read(path, e))?;
    let seekable = regular && is_stored;
    let mut stream = peeked(stream);
    if let Some(encoding) = encoding::utf16(stream.first_bytes()) {
        return Err(TraceError::Unusable {
            path: path.to_owned(),
            reason: "this is UTF-16 text".to_owned(),
            remedy: format!("turn it into UTF-8: `iconv -f {encoding} -t UTF-8 FILE`").into(),
        });
    }
    let is_empty = stream.first_bytes().is_empty() && stream.is_sound();
    if is_empty && regular && blktrace::is_per_cpu(path) {
        return Ok(questioned(blktrace::open(path, options)?));
    }
    if is_archive {
        return open_archive(stream, path, options, regular, asked, members);
    }
    if let Some(refusal) = wrapped(stream.first_bytes(), path).filter(|_| asked.is_none()) {
        return Err(refusal);
    }
    let format =
        asked.or_else(|| FORMATS.iter().find(|format| (format.recognise)(stream.first_bytes())));
    if let Some(format) = format
        && !stream.first_bytes().is_empty()
    {
        idle::refuse(options, format.name, path)?;
        let source = (format.open)(Opening { stream, path, seekable, options })?;
        // The clock of a native file was checked when it was made.
        let is_native = format.name == native::FORMAT.name;
        return Ok(if is_native { source } else { questioned(source) });
    }
    Err(unrecognised(&mut stream, path))
}

/// Begins to read an archive; `stream` gives the content of the chosen `members`.
fn open_archive(
    mut stream: Stream,
    path: &Path,
    options: &ReadOptions,
    regular: bool,
    asked: Option<&'static Format>,
    members: Members,
) -> Result<Box<dyn Source>, TraceError> {
    // A pipe can be read only once: a second member shows while it is read.
    let ahead = if regular { Members::look_ahead(path, asked) } else { Ok(members.clone()) };
    let ahead = ahead.map_err(|error| TraceError::read(path, error))?;
    if let Some(refusal) = ahead.refusal(path).or_else(|| members.refusal(path)) {
        return Err(refusal);
    }
    let Some(format) = members.format().filter(|_| !stream.first_bytes().is_empty()) else {
        let nothing = members.nothing(path).filter(|_| stream.is_sound());
        return Err(nothing.unwrap_or_else(|| unrecognised(&mut stream, path)));
    };
    let mut options = options.clone();
    if format.several == Several::ByTime && (ahead.taken() > 1 || !regular) {
        options.order = Order::Whole;
    }
    let source = (format.open)(Opening { stream, path, seekable: false, options: &options })?;
    Ok(questioned(Box::new(Labelled::new(source, members))))
}

/// First bytes of files packed in unsupported ways, and the programs that unpack them.
const PACKED: [(&[u8], &str, &str); 7] = [
    (b"PK\x03\x04", "zip", "unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x FILE"),
    (b"Rar!\x1a\x07", "RAR", "unrar x FILE"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d FILE"),
    (b"\x89LZO\0\r\n\x1a\n", "lzop", "lzop -d FILE"),
    (b"\x1f\x9d", "compress", "uncompress FILE"),
    (b"\xff\x06\0\0sNaPpY", "snappy", "snzip -d FILE"),
];

/// First bytes of the files of recorders whose printed text is read, and the commands that print it
/// (trace-cmd.dat(5), "INITIAL FORMAT"; perf.data-file-format.txt, "header").
const UNPRINTED: [(&[u8], &str, &str); 2] = [
    (b"\x17\x08\x44tracing", "trace-cmd", "trace-cmd report -t FILE > FILE.txt"),
    (b"PERFILE2", "perf", "perf script --ns -i FILE > FILE.txt"),
];

/// The refusal of a file that holds a trace in a way that is not read. It comes before any format,
/// for what is packed without compression looks like its content (`zip -0`).
fn wrapped(first_bytes: &[u8], path: &Path) -> Option<TraceError> {
    let is_it = |(magic, ..): &&(&[u8], &str, &str)| first_bytes.starts_with(magic);
    let packed = PACKED.iter().find(is_it).map(|(_, name, command)| {
        let reason = format!("this is packed as {name}, which is not unpacked here");
        (reason, format!("unpack it: `{command}`"))
    });
    let unprinted = UNPRINTED.iter().find(is_it).map(|(_, name, command)| {
        let reason = format!("this is {name}'s own file, of which only the printed text is read");
        (reason, format!("print it: `{command}`"))
    });
    let (reason, remedy) = packed.or(unprinted)?;
    Some(TraceError::Unusable { path: path.to_owned(), reason, remedy: remedy.into() })
}

/// The end of a remedy: the option that reads a file of unknown format all the same.
fn forced() -> Wording {
    Wording::from("`")
        .set("format", "NAME")
        .text("` forces a format (docs/import.md lists them), and ")
        .setting("columns")
        .text(" or ")
        .setting("pattern")
        .text(" describes any other text")
}

/// The error for a `stream` of unknown format.
fn unrecognised(stream: &mut Stream, path: &Path) -> TraceError {
    let path = path.to_owned();
    if let Some(error) = stream.take_error() {
        return match compression::damage(&error) {
            Some(damage) => TraceError::Unusable {
                path,
                reason: format!("nothing in it can be read: {damage}"),
                remedy: compression::remedy(&error).into(),
            },
            None => TraceError::read(&path, error),
        };
    }
    let first_bytes = stream.first_bytes();
    if first_bytes.is_empty() {
        return TraceError::Empty { path };
    }
    TraceError::Unrecognised {
        path,
        begins: format!("'{}'", text::shown(&first_bytes[..first_bytes.len().min(48)])),
        remedy: Wording::from("if it is a trace, ").and(forced()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::tests::gzip;
    use crate::stream::copy;
    use crate::{Batch, Header, Op};

    const LOAD: &str = "prose\n0.000000000 ; 8 ; 8 ; R ; 0.0 ; 0.0\n";

    fn opened(name: &str, bytes: &[u8]) -> Result<Box<dyn Source>, TraceError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        open(&path, &ReadOptions::default())
    }

    fn refusal(name: &str, bytes: &[u8]) -> TraceError {
        opened(name, bytes).err().unwrap()
    }

    #[test]
    fn a_format_is_known_by_content_whatever_the_name() {
        for name in ["x.parquet", "x.csv", "x"] {
            for bytes in [LOAD.as_bytes(), &gzip(LOAD.as_bytes())] {
                assert_eq!(opened(name, bytes).unwrap().header().format, blkreplay::LOAD);
            }
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_with_what_it_is() {
        assert!(matches!(refusal("x", b""), TraceError::Empty { .. }));
        assert!(matches!(refusal("x", &gzip(b"")), TraceError::Empty { .. }));
        let error = refusal("x", b"time,lba\n1,2\n");
        assert!(matches!(error, TraceError::Unrecognised { .. }));
        assert!(error.to_string().contains("'time,lba"), "{error}");
        let error = refusal("x", &gzip(b"PAR1 and so on"));
        assert!(error.to_string().contains("unpack it"), "{error}");
        let error = refusal("x", b"PAR1 and so on");
        assert!(error.to_string().contains("damaged or cut short"), "{error}");
        let error = refusal("x", &gzip(LOAD.as_bytes())[..12]);
        assert!(error.to_string().contains("breaks off"), "{error}");
        let mut late = b"a line of prose\n".repeat(LOOK_BYTES / 10);
        late.extend(LOAD.as_bytes());
        assert!(matches!(refusal("x", &late), TraceError::Unrecognised { .. }));
    }

    #[test]
    fn what_is_packed_in_another_way_is_told_with_what_unpacks_it() {
        for (magic, name, remedy) in PACKED.into_iter().chain(UNPRINTED) {
            let error = refusal("x", &[magic, &[0; 40]].concat()).to_string();
            assert!(error.contains(name) && error.contains(remedy), "{error}");
            // A trace that is packed without compression stands there as it is.
            let error = refusal("x", &[magic, b"\0x\n", LOAD.as_bytes()].concat()).to_string();
            assert!(error.contains(name) && error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_told_of_every_format_but_the_native_one() {
        let mut text = b"0,R,0,512,5\n".to_vec();
        (0..9).for_each(|n| text.extend(format!("0,R,0,512,157780800000000{n}\n").as_bytes()));
        let mut source = opened("x", &text).unwrap();
        reading::drain(&mut *source);
        assert_eq!(source.header().guesses.count_of(doubts::APART), 1);
        assert_eq!(source.header().guesses.count_of(doubts::DATE), 1);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.parquet");
        let mut source = opened("x", &text).unwrap();
        let sink = create(&path, source.header()).unwrap();
        copy(&mut *source, sink).unwrap();
        let mut native = open(&path, &ReadOptions::default()).unwrap();
        reading::drain(&mut *native);
        assert_eq!(native.header().guesses.count_of(doubts::APART), 1);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_and_text_of_sixteen_bits_is_told() {
        for text in [
            "0,R,126703661056,4096,1577808000000046\n1,W,19496058880,77824,1577808000000426\n",
            "0,21741712,24576,R,0.000774\n",
            "0.0 0 100 8 1\n",
            "0\t0.000000\t0.00018333\t0\tWrite\t6364136\t8\n",
            "fio version 3 iolog\n1 /d add\n1 /d open\n2 /d read 0 4096\n",
            "#ELAPSED_USECS.D,OP.I,LBA.I,NBLKS.I\n5,0,8,8\n",
            "issue_ns,op,offset_bytes,length_bytes\n0,read,0,512\n",
            LOAD,
        ] {
            let mut requests = Vec::new();
            for bytes in [text.to_owned(), format!("\u{feff}{text}")] {
                for bytes in [gzip(bytes.as_bytes()), bytes.into_bytes()] {
                    let mut source = opened("x", &bytes).unwrap();
                    let mut batch = Batch::default();
                    assert!(source.next_batch(&mut batch).unwrap());
                    let header = source.header();
                    assert!(header.losses.is_empty(), "{text} {header:?}");
                    requests.push((header.format.clone(), batch));
                }
            }
            assert!(requests.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
            let wide: Vec<u8> =
                format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
            let error = refusal("x", &wide).to_string();
            assert!(error.contains("UTF-16 text") && error.contains("iconv -f UTF-16 -t UTF-8"));
        }
    }

    #[test]
    fn a_missing_file_and_a_directory_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let options = ReadOptions::default();
        let missing = open(&directory.path().join("x"), &options).err().unwrap();
        assert!(missing.is_io() && missing.to_string().contains("No such file"), "{missing}");
        let error = open(directory.path(), &options).err().unwrap().to_string();
        assert!(error.contains("this is a directory"), "{error}");
    }

    #[test]
    fn an_output_is_chosen_by_name_and_an_unknown_one_lists_the_known() {
        let directory = tempfile::tempdir().unwrap();
        let header = Header::default();
        for name in ["x.parquet", "x.load", "X.LOAD.GZ"] {
            assert!(create(&directory.path().join(name), &header).is_ok());
        }
        for name in ["x", "x.text", ".parquet", "load.gz"] {
            let error = create(&directory.path().join(name), &header).err().unwrap();
            assert!(matches!(error, TraceError::UnknownOutput { .. }));
            assert!(error.to_string().contains("NAME.load "), "{error}");
        }
        let error = create(Path::new("/nowhere/x.load"), &header).err().unwrap();
        assert!(error.is_io());
    }

    #[test]
    fn published_loads_are_read_to_the_last_request_and_survive_conversion() {
        // Counted with `zcat | awk -F';' 'NF==6 && $1 ~ /^ *[0-9.]+ *$/'`: requests, reads,
        // sectors, the last start.
        for (name, requests, reads, sectors, last) in [
            ("linux-mysql.load.gz", 80_794, 7_187, 2_313_256, 3_599_890_074_831),
            ("windows-mssql.load.gz", 42_976, 2_528, 2_065_622, 3_062_338_015_914),
        ] {
            let Some(path) = ioecho_fixture::recording(name) else { return };
            let directory = tempfile::tempdir().unwrap();
            let native = directory.path().join("x.parquet");
            let load = directory.path().join("x.load.gz");
            for (from, to) in [(&path, &native), (&native, &load)] {
                let mut source = open(from, &ReadOptions::default()).unwrap();
                let sink = create(to, source.header()).unwrap();
                let (copied, written) = copy(&mut source, sink).unwrap();
                assert_eq!(copied, requests);
                assert!(written.lost.is_empty() && source.header().losses.is_empty());
                assert!(source.header().guesses.is_empty());
                assert_eq!(source.header().license.as_deref(), Some("GNU all-permissive"));
            }
            for path in [&path, &native, &load] {
                let mut source = open(path, &ReadOptions::default()).unwrap();
                let mut batch = Batch::default();
                let mut found = (0, 0, 0, 0);
                while source.next_batch(&mut batch).unwrap() {
                    found.0 += batch.len() as u64;
                    found.1 += batch.op().iter().filter(|op| **op == Op::Read).count();
                    found.2 += batch.length_bytes().iter().sum::<u64>() / 512;
                    found.3 = batch.issue_ns()[batch.len() - 1];
                }
                assert_eq!(found, (requests, reads, sectors, last), "{}", path.display());
            }
        }
    }
}
