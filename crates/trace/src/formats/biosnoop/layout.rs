//! The columns that the heading names.

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The completion: seconds, a time of day or a date and a time of day.
    Time,
    /// The issue, in seconds since the host's start (`STARTs`).
    Start,
    /// The completion, in seconds since the host's start (`ENDs`).
    End,
    Pid,
    Disk,
    /// The letters of the operation.
    Operation,
    /// The first sector, of 512 bytes.
    Sector,
    Bytes,
    /// Milliseconds in the queue.
    Queue,
    /// Milliseconds between issue and completion.
    Latency,
    /// A column that is not read.
    Other,
}

/// The columns before and behind the name of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) before: Vec<Column>,
    pub(super) behind: Vec<Column>,
    /// The unit of [`Column::Time`] in nanoseconds.
    pub(super) unit_ns: i64,
}

impl Layout {
    /// The layout of bcc's biosnoop without options.
    pub(super) fn usual() -> Self {
        Self {
            before: vec![Column::Time],
            behind: vec![
                Column::Pid,
                Column::Disk,
                Column::Operation,
                Column::Sector,
                Column::Bytes,
                Column::Latency,
            ],
            unit_ns: 1_000_000_000,
        }
    }

    /// The layout that a heading names; `None` if `line` is no heading.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let words = || line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let at = words().position(|word| word == b"COMM")?;
        let mut layout = Self { before: Vec::new(), behind: Vec::new(), unit_ns: 1_000_000_000 };
        for (index, word) in words().enumerate() {
            let column = match word {
                b"COMM" => continue,
                b"TIME(ms)" => {
                    layout.unit_ns = 1_000_000;
                    Column::Time
                }
                b"TIME(s)" | b"TIME" | b"TIMESTAMP" => Column::Time,
                b"STARTs" => Column::Start,
                b"ENDs" => Column::End,
                b"PID" => Column::Pid,
                b"DISK" | b"DEV" => Column::Disk,
                b"T" | b"TYPE" => Column::Operation,
                b"SECTOR" | b"BLOCK" => Column::Sector,
                b"BYTES" => Column::Bytes,
                b"QUE(ms)" => Column::Queue,
                b"LAT(ms)" | b"LATms" => Column::Latency,
                _ => Column::Other,
            };
            if index < at { layout.before.push(column) } else { layout.behind.push(column) }
        }
        (layout.has(Column::Pid) && layout.has(Column::Latency)).then_some(layout)
    }

    pub(super) fn has(&self, column: Column) -> bool {
        self.before.contains(&column) || self.behind.contains(&column)
    }

    /// Checks that requests can be made of these columns; the error has the missing part and the
    /// remedy.
    pub(super) fn suffices(&self) -> Result<(), (&'static str, &'static str)> {
        if !self.has(Column::Sector) || !self.has(Column::Bytes) {
            return Err((
                "these lines tell neither the sector nor the size of a request (bpftrace's \
                 biosnoop prints such)",
                "record with biosnoop of bcc or libbpf-tools, or with blktrace",
            ));
        }
        if !self.has(Column::Operation) {
            return Err((
                "these lines do not tell reads from writes",
                "record with biosnoop of bcc or libbpf-tools, or with blktrace",
            ));
        }
        if ![Column::Time, Column::Start, Column::End].iter().any(|time| self.has(*time)) {
            return Err((
                "these lines tell no time: iosnoop prints it on request alone",
                "record with `iosnoop -s`, which tells when a request was issued",
            ));
        }
        Ok(())
    }
}
