//! `ioecho campaign`: many runs from one file, and one answer.
//!
//! The crate `campaign` plans, and decides what runs next. Here is what touches the world: the
//! directory of the campaign ([`store`]), the host whose devices are set up ([`setting_up`]),
//! the runs, which are child processes so that a crash of
//! one ends no other ([`child`]), and what loads and devices are ([`ground`]).

pub(crate) mod agent;
mod baseline;
mod begun;
mod by_host;
mod charts;
mod child;
mod compare;
pub(in crate::commands) mod described;
mod doing;
mod flags;
mod forecast;
mod gc;
mod going;
mod ground;
mod hosts;
mod import;
mod junit;
mod lingering;
mod machine;
mod person;
mod plan;
mod ranking;
mod replays;
mod report;
mod room;
mod setting_up;
mod show;
mod status;
mod store;
mod table;
mod undo;
mod undo_files;

use crate::args::{CampaignArgs, CampaignCommand};
use crate::print::Out;

pub(crate) fn run(args: &CampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    match &args.command {
        CampaignCommand::Plan(args) => show::run(args, out),
        CampaignCommand::Run(args) => doing::run(args, out),
        CampaignCommand::Resume(args) => doing::resume(args, out),
        CampaignCommand::Status(args) => status::run(args, out),
        CampaignCommand::Stop(args) => status::stop(args, out),
        CampaignCommand::Report(args) => report::run(args, out),
        CampaignCommand::Compare(args) => compare::run(args, out),
        CampaignCommand::Undo(args) => undo::run(args, out),
        CampaignCommand::Gc(args) => gc::run(args, out),
        CampaignCommand::Import(args) => import::run(args, out),
    }
}
