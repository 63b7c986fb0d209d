//! Tasks, their descriptors and their working directories.

use rustc_hash::FxHashMap;

use super::namespace::{Inode, ROOT};

/// The number of an open file description, which several descriptors may share.
pub(super) type Opening = usize;

/// A file as it was opened.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    /// What it is.
    pub(super) inode: Inode,
    /// The place that requests on it have.
    pub(super) place: usize,
    /// The position of the next read or write.
    pub(super) position: u64,
    /// Whether writes go to the end.
    pub(super) append: bool,
    /// Whether reads and writes go past the page cache.
    pub(super) direct: bool,
    /// Descriptors that stand for it.
    users: u32,
}

/// A descriptor.
#[derive(Clone, Copy, Debug)]
struct Slot {
    opening: Opening,
    close_on_exec: bool,
}

/// A table of descriptors, which several tasks may share.
#[derive(Clone, Debug, Default)]
struct Table {
    slots: FxHashMap<i32, Slot>,
    users: u32,
}

/// A working directory and a umask, which several tasks may share.
#[derive(Clone, Copy, Debug)]
struct Working {
    directory: Option<Inode>,
    mask: Option<u32>,
    users: u32,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    table: usize,
    working: usize,
}

/// All tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: FxHashMap<u32, Task>,
    tables: Vec<Table>,
    free_tables: Vec<usize>,
    working: Vec<Working>,
    free_working: Vec<usize>,
    openings: Vec<Opened>,
    free_openings: Vec<Opening>,
}

impl Tasks {
    /// Whether there is such a task.
    pub(super) fn has(&self, task: u32) -> bool {
        self.known.contains_key(&task)
    }

    /// A task that nobody made, as far as the recording tells.
    fn ensure(&mut self, task: u32) -> Task {
        if let Some(known) = self.known.get(&task) {
            return *known;
        }
        let new = Task {
            table: self.add_table(Table { users: 1, ..Table::default() }),
            working: self.add_working(Working { directory: None, mask: None, users: 1 }),
        };
        self.known.insert(task, new);
        new
    }

    fn add_table(&mut self, table: Table) -> usize {
        put(&mut self.tables, &mut self.free_tables, table)
    }

    fn add_working(&mut self, working: Working) -> usize {
        put(&mut self.working, &mut self.free_working, working)
    }

    /// A task makes another one.
    pub(super) fn spawn(
        &mut self,
        parent: u32,
        child: u32,
        shares_files: bool,
        shares_directory: bool,
    ) {
        let Task { table, working } = self.ensure(parent);
        let table = if shares_files {
            self.tables[table].users += 1;
            table
        } else {
            let copy = Table { users: 1, ..self.tables[table].clone() };
            copy.slots.values().for_each(|slot| self.openings[slot.opening].users += 1);
            self.add_table(copy)
        };
        let working = if shares_directory {
            self.working[working].users += 1;
            working
        } else {
            let copy = Working { users: 1, ..self.working[working] };
            self.add_working(copy)
        };
        self.known.insert(child, Task { table, working });
    }

    /// A task ends; answers what is closed by that.
    pub(super) fn exit(&mut self, task: u32) -> Vec<Opened> {
        let Some(Task { table, working }) = self.known.remove(&task) else { return Vec::new() };
        self.working[working].users -= 1;
        if self.working[working].users == 0 {
            self.free_working.push(working);
        }
        self.tables[table].users -= 1;
        if self.tables[table].users > 0 {
            return Vec::new();
        }
        let slots = std::mem::take(&mut self.tables[table].slots);
        self.free_tables.push(table);
        self.release(slots.into_iter().collect())
    }

    /// A task starts another program; answers what is closed by that.
    pub(super) fn execute(&mut self, task: u32) -> Vec<Opened> {
        let Task { table, working } = self.ensure(task);
        let table = if self.tables[table].users > 1 {
            self.tables[table].users -= 1;
            let copy = Table { users: 1, ..self.tables[table].clone() };
            copy.slots.values().for_each(|slot| self.openings[slot.opening].users += 1);
            let table = self.add_table(copy);
            self.known.insert(task, Task { table, working });
            table
        } else {
            table
        };
        let slots = &mut self.tables[table].slots;
        let gone: Vec<_> = slots.extract_if(|_, slot| slot.close_on_exec).collect();
        self.release(gone)
    }

    /// Takes the users of these slots away; answers those that nobody uses any more, by descriptor.
    fn release(&mut self, mut slots: Vec<(i32, Slot)>) -> Vec<Opened> {
        slots.sort_unstable_by_key(|(descriptor, _)| *descriptor);
        let mut closed = Vec::new();
        for (_, slot) in slots {
            let opened = &mut self.openings[slot.opening];
            opened.users -= 1;
            if opened.users == 0 {
                closed.push(opened.clone());
                self.free_openings.push(slot.opening);
            }
        }
        closed
    }

    /// A descriptor, which stands for nothing, stands for a new opening.
    pub(super) fn open(
        &mut self,
        task: u32,
        descriptor: i32,
        (inode, place): (Inode, usize),
        (append, direct): (bool, bool),
        close_on_exec: bool,
    ) -> Opening {
        let Task { table, .. } = self.ensure(task);
        let opened = Opened { inode, place, position: 0, append, direct, users: 1 };
        let opening = put(&mut self.openings, &mut self.free_openings, opened);
        self.tables[table].slots.insert(descriptor, Slot { opening, close_on_exec });
        opening
    }

    /// Closes descriptors; answers what nobody uses any more.
    pub(super) fn close(&mut self, task: u32, first: i32, last: i32) -> Vec<Opened> {
        let Task { table, .. } = self.ensure(task);
        let slots = &mut self.tables[table].slots;
        let gone: Vec<_> = if first == last {
            slots.remove(&first).map(|slot| (first, slot)).into_iter().collect()
        } else {
            slots.extract_if(|number, _| (first..=last).contains(number)).collect()
        };
        self.release(gone)
    }

    /// What a descriptor stands for.
    pub(super) fn opening(&self, task: u32, descriptor: i32) -> Option<Opening> {
        let table = self.known.get(&task)?.table;
        self.tables[table].slots.get(&descriptor).map(|slot| slot.opening)
    }

    pub(super) fn opened(&self, opening: Opening) -> &Opened {
        &self.openings[opening]
    }

    pub(super) fn opened_mut(&mut self, opening: Opening) -> &mut Opened {
        &mut self.openings[opening]
    }

    /// A descriptor stands for what another does; answers what is closed by that.
    pub(super) fn duplicate(
        &mut self,
        task: u32,
        from: i32,
        to: i32,
        close_on_exec: bool,
    ) -> Vec<Opened> {
        if from == to {
            return Vec::new();
        }
        let opening = self.opening(task, from);
        if let Some(opening) = opening {
            self.openings[opening].users += 1;
        }
        let closed = self.close(task, to, to);
        if let Some(opening) = opening {
            let Task { table, .. } = self.ensure(task);
            self.tables[table].slots.insert(to, Slot { opening, close_on_exec });
        }
        closed
    }

    /// Says whether a program that is started gets a descriptor.
    pub(super) fn set_close_on_exec(&mut self, task: u32, descriptor: i32, close: bool) {
        let Task { table, .. } = self.ensure(task);
        if let Some(slot) = self.tables[table].slots.get_mut(&descriptor) {
            slot.close_on_exec = close;
        }
    }

    /// The working directory of a task, if that is known.
    pub(super) fn working(&self, task: u32) -> Option<Inode> {
        self.working[self.known.get(&task)?.working].directory
    }

    /// The umask of a task, if that is known.
    pub(super) fn mask(&self, task: u32) -> Option<u32> {
        self.working[self.known.get(&task)?.working].mask
    }

    /// A task has this umask.
    pub(super) fn set_mask(&mut self, task: u32, mask: u32) {
        let Task { working, .. } = self.ensure(task);
        self.working[working].mask = Some(mask);
    }

    /// A task goes to a directory.
    pub(super) fn go(&mut self, task: u32, directory: Inode) {
        let Task { working, .. } = self.ensure(task);
        self.working[working].directory = Some(directory);
    }
}

/// Puts something where there is room, and answers where.
fn put<T>(list: &mut Vec<T>, free: &mut Vec<usize>, item: T) -> usize {
    if let Some(at) = free.pop() {
        list[at] = item;
        return at;
    }
    list.push(item);
    list.len() - 1
}

/// The directory of a task of which nobody knows where it works.
pub(super) const NOWHERE: Inode = ROOT;
