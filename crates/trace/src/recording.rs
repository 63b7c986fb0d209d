//! A recording as it is taken: what the kernel gave, kept as it gave it, and what was noted beside.
//!
//! A recorder must not think while it records: whatever it decodes, sorts or matches takes the
//! processor from the load that it watches, and whatever it decides wrongly is lost. So the
//! kernel's pages go to files as they are, with as much beside them as is needed to read them on
//! another machine years later, and all thinking is done afterwards by the reader
//! (`formats::recording`). A recorder that is killed leaves files that can be read up to the last
//! whole frame.
//!
//! A recording is a directory: `recording.json` (a [`Description`], written once before the first
//! event), `log.jsonl` (an [`Entry`] a line, appended while it goes on) and a file of frames
//! ([`FrameWriter`]) for each segment and processor. `docs/recording-format.md` has it in full.

mod description;
mod entry;
mod figures;
pub(crate) mod frame;
pub(crate) mod page;

pub use self::description::{
    DESCRIPTION_FILE, DESCRIPTION_VERSION, Description, Device, EventFormat, Interface, LOG_FILE,
    Tracefs, directory_beside, segment_file,
};
pub use self::entry::{Anchor, Entry, Totals};
pub use self::figures::{
    ASKED_TO, Cost, DriverFigures, Gap, MatchingFigures, Recording, Reordering,
};
pub use self::frame::{FRAME_HEADER_BYTES, FrameWriter, PAYLOAD_MAX, payloads};
pub use self::page::{PageContents, PageLayout};
