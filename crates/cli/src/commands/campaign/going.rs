//! Attempts on other hosts, each in a thread: those that need different hosts go on together.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use ioecho_campaign::attempt::{Attempt, End};
use ioecho_linux::OpenDirectory;

use super::hosts::Hosts;
use super::hosts::attempt::Task;

/// An attempt that has ended, and is to be stored.
pub(super) struct Ended {
    /// The number of the cell.
    pub(super) cell: usize,
    pub(super) stored: Attempt,
    pub(super) place: OpenDirectory,
    /// The space that was free before it.
    pub(super) free: Option<u64>,
}

type Came = anyhow::Result<Ended>;

/// The attempts that go on.
pub(super) struct Going<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    all: HashMap<usize, ScopedJoinHandle<'scope, Came>>,
    to: Sender<usize>,
    from: Receiver<usize>,
}

/// Rings when its thread ends, however it does.
struct Bell(usize, Sender<usize>);

impl Drop for Bell {
    fn drop(&mut self) {
        // Whoever waited may have gone.
        let _ = self.1.send(self.0);
    }
}

impl<'scope, 'env> Going<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (to, from) = channel();
        Self { scope, all: HashMap::new(), to, from }
    }

    /// How many go on.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Begins an attempt at the cell of this number.
    pub(super) fn begin(
        &mut self,
        hosts: &'env Hosts<'env>,
        task: Task<'env>,
        ended: Ended,
    ) -> std::io::Result<()> {
        let cell = ended.cell;
        let bell = Bell(cell, self.to.clone());
        let attempt = move || {
            let _bell = bell;
            let mut ended = ended;
            ended.stored.end = hosts.attempt(&task, &mut ended.stored)?;
            Ok(ended)
        };
        let named = std::thread::Builder::new().name("attempt".to_owned());
        self.all.insert(cell, named.spawn_scoped(self.scope, attempt)?);
        Ok(())
    }

    /// The next attempt that ends; `None` if none goes on.
    pub(super) fn next(&mut self) -> Option<Came> {
        if self.all.is_empty() {
            return None;
        }
        let cell = self.from.recv().ok()?;
        let thread = self.all.remove(&cell)?;
        Some(thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("an attempt broke off"))))
    }
}

impl Ended {
    /// An attempt that has ended without being begun.
    pub(super) fn with(mut self, end: End) -> Self {
        self.stored.end = end;
        self
    }
}
