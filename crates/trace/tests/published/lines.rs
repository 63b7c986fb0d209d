//! Lines of every format, for tests that hold for all of them.

/// A format: real lines of it, and how it says a request.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// As their authors publish them.
    pub(crate) real: &'static [&'static str],
    /// A line for a request of whole sectors at a whole second since 1970.
    pub(crate) line: fn(&Plain) -> String,
}

/// A request that every format can say.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(crate) seconds: u64,
    pub(crate) is_read: bool,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
}

impl Plain {
    fn bytes(&self) -> (u64, u64) {
        (self.sector * 512, self.sectors * 512)
    }

    fn letter(&self) -> char {
        if self.is_read { 'R' } else { 'W' }
    }
}

const FILE: &str = "0c44a2ae5d1ad8e9b6b1b3ae3b2f9a8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e0a36";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "msr",
        real: &[
            "128166385295514663,hm,0,Write,9056014336,2048,2833",
            "128166385295514878,hm,0,Write,11855351808,512,2617",
            "128166385295515175,hm,0,Write,5548077056,4096,2320",
        ],
        line: |plain| {
            let (offset, length) = plain.bytes();
            let word = if plain.is_read { "Read" } else { "Write" };
            let ticks = 116_444_736_000_000_000 + plain.seconds * 10_000_000;
            format!("{ticks},usr,1,{word},{offset},{length},2320")
        },
    },
    Case {
        name: "spc",
        real: &[
            "0,20941264,8192,W,0.551706,Alpha/NT",
            "0,20939840,8192,W,0.554041",
            "0,21741712,24576,R,0.000774",
            "1,3436288,15872,W,1.250720,0x123,5.99,test",
            "1, 18960512, 24576, r, 1.300938",
        ],
        line: |plain| {
            let length = plain.bytes().1;
            format!("0,{},{length},{},{}.0", plain.sector, plain.letter(), plain.seconds)
        },
    },
    Case {
        name: "disksim",
        real: &[
            "938513000 4 264719034 16 0",
            "938828000 3 197570570 16 0",
            "938944000 13 93230992 32 0",
        ],
        line: |plain| {
            let (ns, read) = (plain.seconds * 1_000_000_000, u8::from(plain.is_read));
            format!("{ns} 4 {} {} {read}", plain.sector, plain.sectors)
        },
    },
    Case {
        name: "alibaba",
        real: &[
            "0,R,126703661056,4096,1577808000000046",
            "1,W,19496058880,77824,1577808000000426",
            "2,W,9811763200,12288,1577808000000494",
            "419,W,8792731648,16384,1577808144360767",
        ],
        line: |plain| {
            let (offset, length) = plain.bytes();
            format!("7,{},{offset},{length},{}000000", plain.letter(), plain.seconds)
        },
    },
    Case {
        name: "tencent",
        real: &[
            "1538323200,4247200,128,1,1058",
            "1538323199,13896880,128,0,1063",
            "1538323199,49413280,16,0,1063",
        ],
        line: |plain| {
            let write = u8::from(!plain.is_read);
            format!("{},{},{},{write},1058", plain.seconds, plain.sector, plain.sectors)
        },
    },
    Case {
        name: "systor",
        real: &[
            "Timestamp,Response,IOType,LUN,Offset,Size",
            "1456095145.133076000,0.000806000,R,0,899056122368,131072",
            "1456095145.126285000,0.008044000,R,0,4256049987072,122880",
        ],
        line: |plain| {
            let (offset, length) = plain.bytes();
            let (seconds, letter) = (plain.seconds, plain.letter());
            format!("{seconds}.000000000,0.000806000,{letter},0,{offset},{length}")
        },
    },
    Case {
        name: "k5cloud",
        real: &["0,0.000000,W,7213056,4096", "0,0.004213,R,7217152,8192", "0,2.5,W,0,512"],
        line: |plain| {
            let (offset, length) = plain.bytes();
            format!("0,{}.000,{},{offset},{length}", plain.seconds, plain.letter())
        },
    },
    Case {
        name: "cloudphysics-csv",
        real: &[
            "version,time,op,size,lbn",
            "1,5633898,2a,512,42932745",
            "1,5633898,2a,512,42932746",
            "1,5633898,28,6656,40409911",
        ],
        line: |plain| {
            let code = if plain.is_read { "28" } else { "2a" };
            format!("1,{},{code},{},{}", plain.seconds, plain.bytes().1, plain.sector)
        },
    },
    Case {
        name: "fiu",
        real: &[
            "89967404265337 4253 nfsd 508516672 8 W 6 0 88b93b628d84082186026d9da044f173",
            "89967404311353 4253 nfsd 508516680 8 W 6 0 b5e9f4e5ab62a4fff5313a606b0ad4e3",
            "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523",
        ],
        line: |plain| {
            let Plain { seconds, sector, sectors, .. } = plain;
            let digest = "b5e9f4e5ab62a4fff5313a606b0ad4e3";
            format!("{seconds}000000000 1 a {sector} {sectors} {} 6 0 {digest}", plain.letter())
        },
    },
    Case {
        name: "thesios",
        real: &[
            "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,\
             service_class,from_flash_cache,cache_hit,request_io_size_bytes,disk_io_size_bytes,\
             response_io_size_bytes,start_time,disk_time,simulated_disk_start_time,\
             simulated_latency",
            "d206e7d47fe6,2453358,bigtable,1705305576,WARM,REPLICATED,WRITE,\
             THROUGHPUT_ORIENTED,0,-1,3390,3390,0,1705305600.015989780,0.000000000,0.000000000,\
             0.000124652",
            "0c44a2ae0a36,7354368,4aed9945775b,1705167112,WARM,REPLICATED,READ,\
             THROUGHPUT_ORIENTED,0,0,1050624,1052672,1050624,1705305600.019597054,0.004239065,\
             1705305600.019604445,0.004246402",
        ],
        line: |plain| {
            let (offset, length) = plain.bytes();
            let (word, seconds) = (if plain.is_read { "READ" } else { "WRITE" }, plain.seconds);
            format!(
                "{FILE},{offset},bigtable,1705305576,WARM,REPLICATED,{word},OTHER,0,0,{length},\
                 {length},0,{seconds}.000000000,0.0,0.0,0.000124652"
            )
        },
    },
    Case {
        name: "tectonic",
        real: &[
            "# block_id io_offset io_size op_time op_name user_namespace user_name rs_shard_id \
             op_count host_name",
            "4210818049 0 131072 1675238400 2 10 4 3 1 77",
            "4210818049 131072 131072 1675238400 2 10 4 3 2 77",
            "9983121 1048576 524288 1675238401 4 10 4 0 1 12",
        ],
        line: |plain| {
            let (offset, length) = plain.bytes();
            let code = if plain.is_read { 2 } else { 4 };
            format!("10 {offset} {length} {} {code} 0 0 7 1 0", plain.seconds)
        },
    },
    Case {
        name: "smreplay",
        real: &["0.5 264719034 16 0", "1.25 197570570 16 1", "3 93230992 32 0"],
        line: |plain| {
            let write = u8::from(!plain.is_read);
            format!("{}000 {} {} {write}", plain.seconds, plain.sector, plain.sectors)
        },
    },
    Case {
        name: "huaicheng",
        real: &["0.0,0,7213056,4096,1", "0.125,0,7217152,8192,0", "17.5,1,512,512,1"],
        line: |plain| {
            let (offset, length) = plain.bytes();
            let read = u8::from(plain.is_read);
            format!("{}000.0,0,{offset},{length},{read}", plain.seconds)
        },
    },
];
