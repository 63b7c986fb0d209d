//! The columns by their names.

use crate::formats::described::delimited::{Cutter, Separator, fields};

/// A column that is read; the number of the variant is its place in [`Row`].
#[derive(Clone, Copy)]
pub(super) enum Column {
    Elapsed,
    Sector,
    Sectors,
    Op,
    Command,
    Sequence,
    Volume,
    Phase,
    Latency,
    Absolute,
    Offset,
    Parents,
}

const NAMES: [(&str, Column); COLUMNS] = [
    ("ELAPSED_USECS", Column::Elapsed),
    ("LBA", Column::Sector),
    ("NBLKS", Column::Sectors),
    ("OP", Column::Op),
    ("CMD", Column::Command),
    ("SEQID", Column::Sequence),
    ("LUN_SSID", Column::Volume),
    ("PHASE", Column::Phase),
    ("LATENCY_USECS", Column::Latency),
    ("ABS_SECS", Column::Absolute),
    ("DUMP_OFFSET", Column::Offset),
    ("DEP_PARENT_LIST", Column::Parents),
];

const COLUMNS: usize = 12;

/// The fields of a line.
pub(super) struct Row<'a>([&'a [u8]; COLUMNS]);

impl<'a> Row<'a> {
    /// The text of a column; empty where the file has no such column.
    #[inline]
    pub(super) fn get(&self, column: Column) -> &'a [u8] {
        self.0[column as usize]
    }
}

/// The places of the columns.
pub(super) struct Layout {
    cutter: Cutter,
    known: [bool; COLUMNS],
}

impl Layout {
    /// The layout that `line` declares, if it is a header from which requests can be read.
    pub(super) fn of_header(line: &[u8]) -> Option<Self> {
        let names = fields(line.strip_prefix(b"#")?, Separator::Byte(b','));
        let mut known = [false; COLUMNS];
        let slots: Vec<_> = names
            .iter()
            .map(|name| {
                // The type follows the last point.
                let point = name.iter().rposition(|byte| *byte == b'.')?;
                let name = &name[..point];
                let (_, column) =
                    NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))?;
                known[*column as usize] = true;
                Some(*column as u8)
            })
            .collect();
        let layout = Self { cutter: Cutter::new(Separator::Byte(b','), slots), known };
        let needed = [Column::Elapsed, Column::Sector, Column::Sectors];
        let has_op = layout.has(Column::Op) || layout.has(Column::Command);
        (has_op && needed.into_iter().all(|column| layout.has(column))).then_some(layout)
    }

    pub(super) fn has(&self, column: Column) -> bool {
        self.known[column as usize]
    }

    /// The fields of `line`, if it has as many as the header promises.
    #[inline]
    pub(super) fn row<'a>(&self, line: &'a [u8]) -> Option<Row<'a>> {
        let mut row = Row([b""; COLUMNS]);
        self.cutter.cut(line, &mut row.0).then_some(row)
    }
}
