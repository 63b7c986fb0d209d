//! Settings of a load on files that would change nothing about it.
//!
//! Whoever types one expects something of it, so it is refused, with what it is for.

use ioecho_trace::Op;
use ioecho_trace::arguments::ArgumentError;

use super::load::{Access, FileLoad, Select, StopAfter, Task};

/// The settings that were typed, of those that not every load has a use for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Typed {
    pub(super) size: bool,
    pub(super) read: bool,
    pub(super) access: bool,
    pub(super) select: bool,
    pub(super) once: bool,
    pub(super) only: bool,
    pub(super) stop_after: bool,
    pub(super) then_delete: bool,
    pub(super) seed: bool,
}

impl Task {
    /// Whether data of files are read or written by requests of a size.
    const fn transfers(self) -> bool {
        self.reads() || self.writes()
    }

    /// Whether data of files are read so.
    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Mixed)
    }

    /// Whether data of files are written so.
    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Mixed | Self::Fill)
    }

    /// Whether it finds nothing to do any more where it was just done to everything, if it goes
    /// through files whole and leaves them there.
    const fn is_done_once(self) -> bool {
        let of_names = self.removes() || self.is_of_directories();
        of_names || matches!(self, Self::Create | Self::Fill)
    }

    /// Whether files are opened, and closed again.
    const fn opens(self) -> bool {
        self.transfers() || matches!(self, Self::Create | Self::Open)
    }
}

impl FileLoad {
    /// Refuses what was typed and has no effect on this load.
    pub(super) fn refuse_idle(&self, typed: Typed) -> Result<(), ArgumentError> {
        let any = |does: fn(Task) -> bool| self.tasks.iter().any(|task| does(*task));
        let all = |does: fn(Task) -> bool| self.tasks.iter().all(|task| does(*task));
        let is_shared = self.access == Access::Shared;
        let is_random = matches!(self.access, Access::Random | Access::Shared);
        let is_shuffled = matches!(self.select, Select::Random | Select::Skewed(_));
        let Typed { size, read, access, select, once, only, stop_after, then_delete, seed } = typed;
        let is_whole = self.stop_after.is_none() && !self.then_delete;
        let percent = match self.stop_after {
            Some(StopAfter::Percent(percent)) => Some(percent),
            _ => None,
        };
        let rules = [
            (
                is_whole
                    && self.tasks.windows(2).any(|two| two[0] == two[1] && two[0].is_done_once()),
                "do has a task twice in a row, and there is nothing left for the second; name it \
                 once",
            ),
            (
                size && !any(Task::transfers),
                "size is that of reads and writes, and this load makes none; leave it out",
            ),
            (
                read && !any(|task| task == Task::Mixed),
                "read is the share of reads among reads and writes: files:mixed?read=50; leave it \
                 out, or take mixed",
            ),
            (access && self.is_format, "a format goes through files in order; leave access out"),
            (
                access && !is_shared && !any(Task::transfers),
                "access is a way through the data of a file, and this load does not read or write \
                 them; leave it out",
            ),
            (
                is_shared && !self.is_format && !all(Task::is_inside),
                "access=shared is for threads that are in a file which is there and stays; leave \
                 it out",
            ),
            (
                is_shared && self.once,
                "access=shared and once=yes exclude each other: of files that are chosen once each \
                 has one thread; take access=random",
            ),
            (select && self.is_format, "a format takes everything in order; leave select out"),
            (
                select && is_shuffled && any(Task::is_of_directories),
                "directories are taken in order, as each lies in another; leave select out",
            ),
            (
                self.once && matches!(self.select, Select::Skewed(_)),
                "where each file is chosen once, none is chosen more often; take select=random",
            ),
            (once && self.is_format, "a format does everything once; leave once out"),
            (
                only && any(Task::is_of_directories),
                "only is for states of files, and directories have none; leave it out",
            ),
            (
                only && self.tasks.iter().any(|task| task.wants() & self.only == 0),
                "no file is both as its task needs it and as only asks for; leave only out",
            ),
            (
                only && self.tasks.iter().all(|task| task.wants() & !self.only == 0),
                "only asks for files that the load takes anyway, and for no others; leave it out",
            ),
            (
                then_delete && !any(Task::opens),
                "then-delete removes what was opened and gone through, and this load opens \
                 nothing; leave it out",
            ),
            (
                stop_after && !any(Task::transfers),
                "stop-after counts reads and writes, and this load makes none; leave it out",
            ),
            (
                percent.is_some_and(|percent| (percent - 100.0).abs() < f64::EPSILON),
                "a file is gone through to its end, which is 100 %, anyway; leave stop-after out",
            ),
            (
                percent.is_some_and(|percent| percent > 100.0) && !is_random,
                "a file that is gone through to its end has no more than 100 %: leave stop-after \
                 out, or take access=random",
            ),
            (
                seed && !self.draws(),
                "seed makes choices at random, and this load makes none; leave it out",
            ),
        ];
        match rules.into_iter().find(|(is_idle, _)| *is_idle) {
            Some((_, reason)) => Err(ArgumentError::new(reason)),
            None => Ok(()),
        }
    }

    /// Whether anything of it is chosen at random: files, places, lengths, reads and writes, or
    /// instants.
    fn draws(&self) -> bool {
        let transfers = self.sizes.are_several() || self.access != Access::Sequential;
        let is_mixed = self.read > 0.0 && self.read < 100.0;
        let draws = |task: &Task| task.transfers() && transfers || *task == Task::Mixed && is_mixed;
        let has_instants = self.arrivals.is_some();
        has_instants || self.select != Select::Sequential || self.tasks.iter().any(draws)
    }

    /// What comes along with what it does and is not due of itself: it opens and closes what it
    /// reads and writes, and may remove it then.
    pub fn along(&self) -> Vec<Op> {
        let opens = self.tasks.iter().any(|task| task.transfers());
        let closes = self.tasks.iter().any(|task| task.opens());
        let ops = [(opens, Op::Open), (closes, Op::Close), (self.then_delete, Op::Delete)];
        ops.into_iter().filter(|(is_done, _)| *is_done).map(|(_, op)| op).collect()
    }

    /// Whether it reads data of files.
    pub fn reads(&self) -> bool {
        let is_mixed_to = |least: f64| self.read > least;
        self.tasks.iter().any(|task| task.reads() && (*task != Task::Mixed || is_mixed_to(0.0)))
    }

    /// Whether it writes data of files.
    pub fn writes(&self) -> bool {
        let is_mixed = self.read < 100.0;
        self.tasks.iter().any(|task| task.writes() && (*task != Task::Mixed || is_mixed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The values that each setting is tried with.
    const SETTINGS: [&str; 15] = [
        "size=4k",
        "read=50",
        "access=sequential",
        "access=random",
        "access=shared",
        "select=random",
        "select=from-anywhere",
        "once=yes",
        "only=full",
        "only=not-full",
        "then-delete=yes",
        "stop-after=2",
        "stop-after=100%",
        "stop-after=200%",
        "seed=5",
    ];

    /// What each load takes of them.
    const TAKEN: [(&str, &str); 15] = [
        (
            "read",
            "size=4k access=sequential access=random access=shared select=random \
             select=from-anywhere once=yes then-delete=yes stop-after=2",
        ),
        (
            "write",
            "size=4k access=sequential access=random access=shared select=random \
             select=from-anywhere once=yes only=full only=not-full then-delete=yes stop-after=2",
        ),
        (
            "mixed",
            "size=4k read=50 access=sequential access=random access=shared select=random \
             select=from-anywhere once=yes then-delete=yes stop-after=2 seed=5",
        ),
        ("create", "select=random select=from-anywhere once=yes then-delete=yes"),
        (
            "open",
            "access=shared select=random select=from-anywhere once=yes only=full only=not-full \
             then-delete=yes",
        ),
        (
            "close",
            "access=shared select=random select=from-anywhere once=yes only=full only=not-full \
             then-delete=yes",
        ),
        ("delete", "select=random select=from-anywhere once=yes only=full only=not-full"),
        (
            "getattr",
            "access=shared select=random select=from-anywhere once=yes only=full only=not-full",
        ),
        (
            "setattr",
            "access=shared select=random select=from-anywhere once=yes only=full only=not-full",
        ),
        (
            "access",
            "access=shared select=random select=from-anywhere once=yes only=full only=not-full",
        ),
        ("copy", "select=random select=from-anywhere once=yes"),
        ("move", "select=random select=from-anywhere once=yes only=full only=not-full"),
        ("mkdir", "select=from-anywhere once=yes"),
        ("rmdir", "select=from-anywhere once=yes"),
        ("format", "size=4k then-delete=yes stop-after=2"),
    ];

    #[test]
    fn each_load_takes_what_it_has_a_use_for_and_refuses_the_rest() {
        for (task, taken) in TAKEN {
            let fixed = match task {
                "copy" | "move" => "to=2&",
                "format" => "do=fill&",
                _ => "",
            };
            let is_taken = |setting: &&str| {
                format!("files:{task}?{fixed}{setting}").parse::<FileLoad>().is_ok()
            };
            let found: BTreeSet<&str> = SETTINGS.into_iter().filter(is_taken).collect();
            assert_eq!(found, taken.split_whitespace().collect(), "{task}");
        }
    }

    #[test]
    fn what_excludes_each_other_is_refused_with_the_remedy() {
        for (line, reason) in [
            ("files:read?read=50", "take mixed"),
            ("files:mkdir?size=4k", "leave it out"),
            ("files:read?only=empty", "leave only out"),
            ("files:format?do=fill,delete&only=full", "leave only out"),
            ("files:read?access=shared&once=yes", "take access=random"),
            ("files:read?select=skewed&once=yes", "take select=random"),
            ("files:read?stop-after=101%", "take access=random"),
            ("files:read?stop-after=100%&access=random", "leave stop-after out"),
            ("files:read?only=full", "leave it out"),
            ("files:create?only=not-full", "leave it out"),
            ("files:format?do=mkdir,fill&size=4k&seed=3", "leave it out"),
            ("files:format?do=mkdir,mkdir", "name it once"),
            ("files:format?do=delete,rmdir,rmdir,mkdir", "name it once"),
        ] {
            let error = line.parse::<FileLoad>().unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
        for line in [
            "files:read?stop-after=200%&access=random",
            "files:write?only=full",
            "files:format?do=fill&size=4k:50,8k:50&seed=3",
            "files:format?do=mkdir,fill,delete,fill",
            "files:format?do=fill,fill&stop-after=1",
            "files:format?do=write,write&size=4k",
            "files:read?size=4k-64k/4k&seed=3",
            "files:read?access=from-anywhere&seed=3",
            "files:mkdir?select=from-anywhere&seed=3",
            "files:mixed?read=30&seed=3",
            "files:getattr?rate=100&duration=1s&seed=3",
        ] {
            assert!(line.parse::<FileLoad>().is_ok(), "{line}");
        }
    }
}
