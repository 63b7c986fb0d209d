//! Unpacking in a separate thread.
//!
//! Unpacking takes as long as parsing the lines, and in one thread the two take turns. Here a
//! second thread unpacks a few blocks ahead of the reader. The blocks go back and forth between the
//! two, so memory is bounded and nothing is allocated on the way; an error arrives in order, after
//! the bytes before it.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::Positioned;

/// The size of a block in bytes.
const BLOCK_BYTES: usize = 256 << 10;

/// The number of blocks.
const BLOCKS: usize = 4;

/// The bytes that were unpacked in one go.
struct Block {
    bytes: Vec<u8>,
    /// The number of filled bytes.
    end: usize,
    /// The place in the underlying file that was read after them.
    position: u64,
    /// The state of the stream behind these bytes.
    then: Then,
}

enum Then {
    More,
    End,
    Error(io::Error),
}

/// A stream that is read by another thread, a little ahead.
pub struct Ahead {
    full: Receiver<Block>,
    empty: SyncSender<Vec<u8>>,
    block: Block,
    at: usize,
}

impl Ahead {
    /// Begins to read `stream`. The thread ends with the stream, or, if the reader is dropped, when
    /// the thread's current read returns.
    pub fn new<P: Positioned + Send + 'static>(stream: P) -> io::Result<Self> {
        let (empty, empties) = sync_channel(BLOCKS);
        let (fulls, full) = sync_channel(BLOCKS);
        for _ in 0..BLOCKS {
            // The channel has room for all blocks.
            let _ = empty.try_send(Vec::new());
        }
        let block = Block { bytes: Vec::new(), end: 0, position: 0, then: Then::More };
        let work = move || fill_blocks(stream, &empties, &fulls);
        thread::Builder::new().name("unpack".to_owned()).spawn(work)?;
        Ok(Self { full, empty, block, at: 0 })
    }

    /// Gives back the block that was read and waits for the next.
    fn next_block(&mut self) -> io::Result<()> {
        let Ok(next) = self.full.recv() else {
            return Err(io::Error::other("the thread that unpacks the file has ended"));
        };
        let read = std::mem::replace(&mut self.block, next);
        self.at = 0;
        if read.bytes.capacity() > 0 {
            // The thread may have ended.
            let _ = self.empty.try_send(read.bytes);
        }
        Ok(())
    }
}

/// Reads `stream` into the empty blocks and sends them on.
fn fill_blocks<P: Positioned>(
    mut stream: P,
    empties: &Receiver<Vec<u8>>,
    fulls: &SyncSender<Block>,
) {
    // Both channels are closed once the reader is dropped.
    while let Ok(mut bytes) = empties.recv() {
        bytes.resize(BLOCK_BYTES, 0);
        let mut end = 0;
        let mut then = Then::More;
        while end < bytes.len() {
            match stream.read(&mut bytes[end..]) {
                Ok(0) => {
                    then = Then::End;
                    break;
                }
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    then = Then::Error(error);
                    break;
                }
            }
        }
        let is_last = !matches!(then, Then::More);
        let block = Block { bytes, end, position: stream.position(), then };
        if fulls.send(block).is_err() || is_last {
            return;
        }
    }
}

impl Positioned for Ahead {
    /// The number of bytes of the file that were used for the current block.
    fn position(&self) -> u64 {
        self.block.position
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.end {
            match std::mem::replace(&mut self.block.then, Then::End) {
                Then::More => self.next_block()?,
                Then::End => return Ok(0),
                Then::Error(error) => return Err(error),
            }
        }
        let count = into.len().min(self.block.end - self.at);
        into[..count].copy_from_slice(&self.block.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
