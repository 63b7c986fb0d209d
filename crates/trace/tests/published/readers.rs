//! What each format's lines mean, by their authors' word.

use ioecho_trace::formats::ReadOptions;
use ioecho_trace::{Bytes, Header, Nanos, Op, Request, VolumeId};

use crate::lines::CASES;
use crate::{forced, read, read_bytes, volumes};

/// The real lines of a format.
fn real(name: &str) -> String {
    CASES.iter().find(|case| case.name == name).unwrap().real.join("\n")
}

fn request(issue: i64, op: Op, offset: u64, length: u64) -> Request {
    Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))
}

#[test]
fn msr_cambridge_counts_ticks_since_1601_and_a_volume_is_a_host_and_its_disk() {
    let text = real("msr") + "\n128166385295515999,usr,0,Read,512,1024,0";
    let (requests, header) = read(&text);
    let with = |request, volume, ticks: i64| Request {
        latency: (ticks > 0).then_some(Nanos(100 * ticks)),
        volume: VolumeId(volume),
        ..request
    };
    assert_eq!(
        requests,
        [
            with(request(0, Op::Write, 9_056_014_336, 2048), 0, 2833),
            with(request(21_500, Op::Write, 11_855_351_808, 512), 0, 2617),
            with(request(51_200, Op::Write, 5_548_077_056, 4096), 0, 2320),
            with(request(133_600, Op::Read, 512, 1024), 1, 0),
        ]
    );
    assert_eq!(volumes(&header), ["hm_0", "usr_0"]);
    // date -u -d @$(( (128166385295514663 - 116444736000000000) / 10000000 ))
    assert_eq!(header.started.as_deref(), Some("2007-02-22T17:22:09.5514663Z"));
    assert!(header.losses.is_empty() && header.guesses.is_empty());
}

#[test]
fn msr_ticks_that_count_from_their_own_start_have_no_date() {
    let (requests, header) = read("5,hm,0,Write,0,512,9\n7,hm,0,Read,0,512,9\n");
    assert_eq!(requests[1].issue, Nanos(200));
    assert_eq!(header.started, None);
    assert!(header.guesses.iter().any(|note| note.what.contains("ticks") && note.count == 2));
}

/// Copies of traces count other units than the originals, and what a reader takes these for is told
/// with what says otherwise.
#[test]
fn a_unit_that_was_assumed_is_told_and_one_that_was_said_is_not() {
    let cases = [
        ("5,hm,0,Write,0,512,9\n7,hm,0,Read,0,512,9\n", "ticks of 100 ns", 2_000),
        ("0 781 6 1\n2 669 21 1\n", "milliseconds", 2_000),
        ("0,0,272277504,4096,0\n2,0,381308928,4096,1\n", "milliseconds", 2_000),
        ("0,R,126703661056,4096,5\n0,R,126703661056,4096,7\n", "count another unit", 2_000),
    ];
    for (text, told, ns) in cases {
        let (_, header) = read(text);
        let is_told = |note: &ioecho_trace::header::Note| note.what.contains(told);
        let note = header.guesses.iter().find(|note| is_told(note)).expect(told);
        assert_eq!(note.count, 2, "{told}");
        let options = ReadOptions { time_unit_ns: Some(1_000), ..ReadOptions::default() };
        let (requests, header) = read_bytes(text.as_bytes(), &options).unwrap();
        assert_eq!(requests[1].issue - requests[0].issue, Nanos(ns), "{told}");
        let assumed = header.guesses.iter().filter(|note| note.what.contains(" taken as "));
        assert_eq!(assumed.count(), 0, "{told}");
    }
    // Whoever names the format is not told that it was a guess.
    let options = ReadOptions { time_unit_ns: Some(1_000), ..forced("smreplay") };
    assert!(read_bytes(b"0 781 6 1\n", &options).unwrap().1.guesses.is_empty());
}

#[test]
fn spc_addresses_are_blocks_and_sizes_bytes() {
    let text = "0,20941264,8192,W,0.551706,Alpha/NT\r\n1, 3, 515 ,r, 1.250720,0x123,5.99,test\r\n\
                2,30862016,4096,W,2 448003\r\n2,30862016,0,W,2.448003\r\n";
    let (requests, header) = read(text);
    let second = request(1_250_720_000, Op::Read, 3 * 512, 515);
    assert_eq!(requests[0], request(551_706_000, Op::Write, 20_941_264 * 512, 8192));
    assert_eq!(requests[1], Request { volume: VolumeId(1), ..second });
    assert_eq!(requests.len(), 2);
    assert_eq!(header.losses.count_of("junk lines"), 1);
    assert_eq!(header.losses.count_of("requests of zero length"), 1);
    let guess = header.guesses.iter().next().unwrap();
    assert!(guess.what.contains("`block-size`") && guess.count == 2);

    let options = ReadOptions { block_size: Some(Bytes(4096)), ..ReadOptions::default() };
    let (requests, header) = read_bytes(text.as_bytes(), &options).unwrap();
    assert_eq!(requests[1].offset, Bytes(3 * 4096));
    assert!(header.guesses.is_empty());
}

#[test]
fn a_strict_reader_of_spc_names_the_line_and_the_column() {
    let options = ReadOptions { strict: true, ..ReadOptions::default() };
    let text = "0,1,512,W,0.5\n0,1,512,W,0.5\n2,30862016,4096,W,2 448003\n";
    let error = read_bytes(text.as_bytes(), &options).unwrap_err().to_string();
    assert!(error.contains(":3:21: the timestamp is no number of seconds"), "{error}");
}

#[test]
fn disksim_counts_sectors_and_the_unit_of_time_is_told_by_decimals() {
    let (requests, header) = read(&real("disksim"));
    let first = request(938_513_000, Op::Write, 264_719_034 * 512, 16 * 512);
    assert_eq!(requests[0], first);
    assert_eq!(volumes(&header), ["4", "3", "13"]);
    let told =
        |header: &Header, what: &str| header.guesses.iter().any(|guess| guess.what.contains(what));
    assert!(told(&header, "nanoseconds") && told(&header, "`format`"));

    let text = "0.5 0 8 8 1\n 12.000001 0 8 8 0x3\n13.5 0 8 8 2\n";
    let (requests, header) = read(text);
    assert_eq!(requests[0], request(500_000, Op::Read, 4096, 4096));
    assert_eq!(requests[1].issue, Nanos(12_000_001));
    assert_eq!([requests[1].op, requests[2].op], [Op::Read, Op::Write]);
    assert!(told(&header, "milliseconds") && told(&header, "`format`"));

    let options = ReadOptions { time_unit_ns: Some(1_000), ..forced("disksim") };
    let (requests, header) = read_bytes(text.as_bytes(), &options).unwrap();
    assert_eq!(requests[1].issue, Nanos(12_000));
    assert!(header.guesses.is_empty());
}

#[test]
fn alibaba_counts_microseconds_and_bytes() {
    let (requests, header) = read(&real("alibaba"));
    assert_eq!(requests[0], request(0, Op::Read, 126_703_661_056, 4096));
    let second = request(380_000, Op::Write, 19_496_058_880, 77_824);
    assert_eq!(requests[1], Request { volume: VolumeId(1), ..second });
    assert_eq!(volumes(&header), ["0", "1", "2", "419"]);
    assert_eq!(header.started.as_deref(), Some("2019-12-31T16:00:00.000046Z"));
}

#[test]
fn tencent_counts_sectors_and_its_zero_is_a_read() {
    let (requests, header) = read(&real("tencent"));
    let of = |request, volume| Request { volume: VolumeId(volume), ..request };
    assert_eq!(
        requests,
        [
            of(request(0, Op::Read, 13_896_880 * 512, 128 * 512), 1),
            of(request(0, Op::Read, 49_413_280 * 512, 16 * 512), 1),
            of(request(1_000_000_000, Op::Write, 4_247_200 * 512, 128 * 512), 0),
        ]
    );
    assert_eq!(volumes(&header), ["1058", "1063"]);
    assert_eq!(header.guesses.count_of("requests sorted into time order"), 2);
}

#[test]
fn systor_has_headers_and_requests_without_an_operation() {
    let text = real("systor")
        + "\nTimestamp,Response,IOType,LUN,Offset,Size\n\
           1456095146.000000000,,,3,0,4096\n1456095146.000000000,0.1,,3,0,4096\n\
           1456095147.000000000,,W,3,512,4096\n";
    let (requests, header) = read(&text);
    let first = request(0, Op::Read, 4_256_049_987_072, 122_880);
    assert_eq!(requests[0], Request { latency: Some(Nanos(8_044_000)), ..first });
    let second = request(6_791_000, Op::Read, 899_056_122_368, 131_072);
    assert_eq!(requests[1], Request { latency: Some(Nanos(806_000)), ..second });
    assert_eq!((requests.len(), requests[2].latency, requests[2].op), (3, None, Op::Write));
    assert_eq!(header.started.as_deref(), Some("2016-02-21T22:52:25.126285Z"));
    let losses: Vec<_> = header.losses.iter().collect();
    assert_eq!((losses.len(), losses[0].count), (1, 2));
    assert!(losses[0].what.contains("operation was not recorded"));
}

#[test]
fn k5cloud_keeps_its_instants_and_tells_how_late_its_first_request_was() {
    let (requests, header) = read("12,86400.5,R,512,1000\n12,86402.25,W,0,512\n");
    assert_eq!(requests[0], request(86_400_500_000_000, Op::Read, 512, 1000));
    assert_eq!(requests[1].issue, Nanos(86_402_250_000_000));
    assert_eq!(volumes(&header), ["12"]);
    assert!(header.description.unwrap().contains("begins 86400.5 s after"));
}

#[test]
fn huaicheng_may_count_since_1970() {
    let (requests, header) = read("1538323200000,0,4096,4096,1\n1538323200007,0,4096,4096,0\n");
    assert_eq!((requests[0].issue, requests[1].issue), (Nanos(0), Nanos(7_000_000)));
    assert_eq!(header.started.as_deref(), Some("2018-09-30T16:00:00Z"));
    assert!(header.guesses.iter().any(|note| note.what.contains("since 1970")));
    let (requests, header) = read("1000,0,4096,4096,1\n2000,0,4096,4096,0\n");
    assert_eq!((requests[0].issue, header.started), (Nanos(1_000_000_000), None));
}

#[test]
fn cloudphysics_operations_are_codes_of_scsi() {
    let codes = ["8", "a", "28", "2a", "88", "8A", "a8", "aa", "42", "35", "41", "93", "9c"];
    let lines: Vec<_> = codes.iter().map(|code| format!("1,7,{code},512,3\n")).collect();
    let text =
        "version,time,op,size,lbn\n".to_owned() + &lines.concat() + "1,9,12,96,0\n1,9,42,24,0\n";
    let (requests, header) = read(&text);
    let ops: Vec<_> = requests.iter().map(|request| request.op).collect();
    let (r, w, zero) = (Op::Read, Op::Write, Op::WriteZeroes);
    assert_eq!(ops, [r, w, r, w, r, w, r, w, Op::Discard, Op::Flush, zero, zero, w]);
    assert_eq!(requests[0].offset, Bytes(1536));
    assert_eq!(requests[9].length, Bytes::ZERO);
    assert_eq!(header.losses.count_of("SCSI commands that neither read nor write"), 1);
    assert_eq!(header.losses.count_of("UNMAP commands whose ranges were not recorded"), 1);
}

#[test]
fn fiu_keeps_processes_and_counts_the_digests_that_nothing_keeps() {
    let text = real("fiu") + "\n89968195792999 77 a name [x] 8 8 W 8 1\n";
    let (requests, header) = read(&text);
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[0].offset, Bytes(508_516_672 * 512));
    assert_eq!(requests[1].issue, Nanos(46_016));
    assert_eq!(requests[2].origin.unwrap().pid, 20_782);
    assert_eq!(requests[3].op, Op::Write);
    assert_eq!(volumes(&header), ["6,0", "8,1"]);
    assert_eq!(header.processes[&4253], "nfsd");
    assert_eq!(header.losses.count_of("digests of content"), 3);
    assert_eq!(header.started, None);
}

#[test]
fn thesios_is_placed_by_file_and_its_header_recurs() {
    let text = real("thesios") + "\n";
    let next = "0c44a2ae0a36,8404992,x,1,WARM,REPLICATED,READ,OTHER,0,1,512,0,512,\
                1705305600.119597054,0,0,0.5\n";
    let zero = "0c44a2ae0a36,8404992,x,1,WARM,REPLICATED,READ,OTHER,0,1,0,0,0,1705305600.2,0,0,0\n";
    let header_line = text.lines().next().unwrap().to_owned() + "\n";
    let (requests, header) = read(&(text + &header_line + next + zero));
    assert_eq!(requests.len(), 3);
    assert_eq!((requests[0].op, requests[0].length), (Op::Write, Bytes(3390)));
    assert_eq!(requests[0].latency, Some(Nanos(124_652)));
    assert_eq!(requests[1].issue, Nanos(19_597_054 - 15_989_780));
    // What follows in a file follows on the volume.
    assert_eq!(requests[1].end(), requests[2].offset);
    assert_eq!(requests[2].offset.0 % (1 << 30), 8_404_992);
    assert_ne!(requests[0].offset.0 >> 30, requests[1].offset.0 >> 30);
    assert_eq!(header.losses.count_of("requests of zero length"), 1);
    let guesses: Vec<_> = header.guesses.iter().map(|guess| guess.count).collect();
    assert_eq!(guesses, [3, 1], "placed, and answered from the cache");
    assert_eq!(header.started.as_deref(), Some("2024-01-15T08:00:00.01598978Z"));
}

#[test]
fn thesios_columns_are_found_by_name_in_whatever_order() {
    let text = "start_time,op_type,request_io_size_bytes,filename,file_offset,latency\n\
                10.5,READ,4096,f,512,0.25\n10.75,WRITE,512,f,0,\n";
    let (requests, _) = read(text);
    assert_eq!(requests[0].offset.0 - requests[1].offset.0, 512);
    assert_eq!((requests[0].length, requests[0].latency), (Bytes(4096), Some(Nanos(250_000_000))));
    assert_eq!((requests[1].issue, requests[1].latency), (Nanos(250_000_000), None));
}

#[test]
fn tectonic_has_three_layouts_and_a_count_repeats_the_request() {
    // Of 2019, 2021 and 2023: the count is the last column of nine, the ninth of ten.
    let years = [
        ("10 100 512 1675238400 5 1 2 3\n10 612 512 1675238401 6 1 2 3\n", 2),
        ("10 100 512 1675238400 5 1 2 9 1\n10 612 512 1675238401 6 1 2 9 3\n", 4),
        ("10 100 512 1675238400 5 1 2 9 2 7\n10 612 512 1675238401 6 1 2 9 3 7\n", 5),
    ];
    for (text, count) in years {
        let (requests, header) = read(text);
        assert_eq!(requests.len(), count, "{text}");
        assert_eq!((requests[0].op, requests[count - 1].op), (Op::Read, Op::Write));
        assert_eq!(requests[0].offset.0 % (8 << 20), 100);
        assert_eq!(requests[0].end(), requests[count - 1].offset);
        assert_eq!(header.started.as_deref(), Some("2023-02-01T08:00:00Z"));
        let placed = header.guesses.iter().find(|guess| guess.what.contains("hash")).unwrap();
        assert_eq!(placed.count, count as u64);
        let repeated = header.guesses.iter().find(|guess| guess.what.contains("repetitions"));
        assert_eq!(repeated.map_or(0, |guess| guess.count), count as u64 - 2);
    }
}

#[test]
fn tectonic_shards_are_blocks_of_their_own_and_a_comment_names_the_columns() {
    let text = "10 0 512 1000 2 0 0 7 1 0\n10 0 512 1001 2 0 0 8 1 0\n";
    let (requests, header) = read(text);
    assert_ne!(requests[0].offset, requests[1].offset);
    assert_eq!(header.started, None);
    // With the columns of the shard and the host exchanged, both lines name the same shard.
    let comment = "# made by hand\n# block_id io_offset io_size op_time op_name user_namespace \
                   user_name host_name op_count rs_shard_id\n";
    let (requests, _) = read(&(comment.to_owned() + text));
    assert_eq!(requests[0].offset, requests[1].offset);
}

#[test]
fn a_count_that_lies_is_a_lost_line() {
    let good = "10 0 512 1675238400 2 0 0 7 1\n";
    let text = good.to_owned() + "10 0 512 1675238400 2 0 0 7 1000000000000\n" + good;
    let (requests, header) = read(&text);
    assert_eq!(requests.len(), 2);
    assert_eq!(header.losses.iter().map(|loss| loss.count).sum::<u64>(), 1);
}

#[test]
fn smreplay_counts_milliseconds_and_sectors_and_its_one_is_a_write() {
    let (requests, _) = read(&real("smreplay"));
    assert_eq!(requests[0], request(500_000, Op::Read, 264_719_034 * 512, 8192));
    assert_eq!((requests[1].issue, requests[1].op), (Nanos(1_250_000), Op::Write));
    let options = ReadOptions { time_unit_ns: Some(1_000), ..forced("smreplay") };
    let (requests, _) = read_bytes(real("smreplay").as_bytes(), &options).unwrap();
    assert_eq!(requests[2].issue, Nanos(3_000));
}

#[test]
fn huaicheng_counts_milliseconds_and_bytes_and_its_one_is_a_read() {
    let (requests, header) = read(&real("huaicheng"));
    assert_eq!(requests[0], request(0, Op::Read, 7_213_056, 4096));
    assert_eq!((requests[1].issue, requests[1].op), (Nanos(125_000), Op::Write));
    assert_eq!(volumes(&header), ["0", "1"]);
    let blanks = real("huaicheng").replace(',', " ");
    let (same, _) = read_bytes(blanks.as_bytes(), &forced("huaicheng")).unwrap();
    assert_eq!(same, requests);
}

#[test]
fn numbers_that_do_not_fit_are_faults_and_never_smaller_numbers() {
    for (name, good, bad) in [
        ("alibaba", "0,R,0,512,1577808000000046", "0,R,18446744073709551616,512,1577808000000046"),
        ("alibaba", "0,R,0,512,1577808000000046", "0,R,0,512,9223372036854775807"),
        ("alibaba", "0,R,0,512,1577808000000046", "0,R,18446744073709551615,512,1577808000000046"),
        ("msr", "128166385295514663,hm,0,Read,0,512,1", "9128166385295514663,hm,0,Read,0,512,1"),
        ("tencent", "1538323200,8,8,1,1", "1538323200,36028797018963968,8,1,1"),
        ("spc", "0,8,512,W,0.5", "0,8,512,W,9223372037"),
        ("disksim", "938513000 4 8 16 0", "938513000 4 36028797018963968 16 0"),
    ] {
        let text = format!("{good}\n{bad}\n{good}\n");
        let (requests, header) = read_bytes(text.as_bytes(), &forced(name)).unwrap();
        assert_eq!(requests.len(), 2, "{bad}");
        assert_eq!(header.losses.iter().map(|loss| loss.count).sum::<u64>(), 1, "{bad}");
    }
}

#[test]
fn volumes_by_the_ten_thousand_keep_their_names() {
    let line = |n: u64| format!("{},R,{},512,{}\n", n * 7, n, 1_577_808_000_000_000 + n);
    let text: String = (0..20_000).chain(0..20_000).map(line).collect();
    let (requests, header) = read(&text);
    assert_eq!((requests.len(), header.volumes.len()), (40_000, 20_000));
    for request in requests {
        let name = &header.volumes[request.volume.0 as usize].name;
        assert_eq!(*name, (request.offset.0 * 7).to_string());
    }
}
