//! Raw recordings: the kernel's data, unchanged, and the recorder's log.
//!
//! A recorder that decodes, sorts or matches takes processor time from the load that it watches,
//! and its wrong decisions cannot be undone. So the kernel's pages go to files as they are, with
//! everything needed to read them on another machine years later. The reader (`formats::recording`)
//! does the rest afterwards. A recorder that is killed leaves files that can be read up to the last
//! whole frame.
//!
//! A recording is a directory: `recording.json` (a [`Description`], written once before the first
//! event), `log.jsonl` (an [`Entry`] a line, appended while it goes on) and a file of frames
//! ([`FrameWriter`]) for each segment and processor. `docs/recording-format.md` has it in full.

mod calls;
mod description;
mod entry;
mod figures;
pub(crate) mod frame;
pub(crate) mod page;

pub use self::calls::{BEHIND, Calls, ENTER, EXIT, OF_TASKS, field_behind, name_of_call};
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
