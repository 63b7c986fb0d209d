//! `runs.parquet`: a row for each cell, for DuckDB and its like.
//!
//! Axes are columns of text, `axis.NAME`; figures are columns of numbers, spans in nanoseconds. A
//! cell without a result has its state and the reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use ioecho_campaign::attempt::Measured;
use ioecho_campaign::executor::{Executor, State};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::store::Held;

/// A column with its values; all may lack.
enum Column {
    Text(Vec<Option<String>>),
    Number(Vec<Option<f64>>),
}

/// The bytes of the table.
pub(super) fn bytes(executor: &Executor<'_>, held: &Held) -> Result<Vec<u8>, ParquetError> {
    let columns = columns(executor, held);
    let mut fields = Vec::new();
    for (name, column) in &columns {
        let field = match column {
            Column::Text(_) => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String)),
            Column::Number(_) => Type::primitive_type_builder(name, Physical::DOUBLE),
        };
        fields.push(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?));
    }
    let schema = Type::group_type_builder("runs").with_fields(fields).build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    let mut group = writer.next_row_group()?;
    for (_, column) in &columns {
        let Some(mut to) = group.next_column()? else { break };
        match column {
            Column::Text(values) => {
                let levels: Vec<i16> = values.iter().map(|it| i16::from(it.is_some())).collect();
                let texts = values.iter().flatten();
                let texts: Vec<ByteArray> = texts.map(|it| ByteArray::from(it.as_str())).collect();
                to.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?;
            }
            Column::Number(values) => {
                let levels: Vec<i16> = values.iter().map(|it| i16::from(it.is_some())).collect();
                let numbers: Vec<f64> = values.iter().flatten().copied().collect();
                to.typed::<DoubleType>().write_batch(&numbers, Some(&levels), None)?;
            }
        }
        to.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn columns(executor: &Executor<'_>, held: &Held) -> Vec<(String, Column)> {
    let all = || executor.cells().iter().zip(executor.states());
    let clock = |key: &str, state: &State| match state {
        State::Done(attempt, _) => held.clocks.get(&(key.to_owned(), *attempt)),
        _ => None,
    };
    let text = |values: Vec<Option<String>>| Column::Text(values);
    let mut columns = vec![
        ("cell".to_owned(), text(all().map(|(cell, _)| Some(cell.key.clone())).collect())),
        ("device".to_owned(), text(all().map(|(cell, _)| Some(cell.device.clone())).collect())),
        ("trace".to_owned(), text(all().map(|(cell, _)| Some(cell.trace.clone())).collect())),
        (
            "repeat".to_owned(),
            Column::Number(all().map(|(cell, _)| Some(f64::from(cell.repeat))).collect()),
        ),
        ("state".to_owned(), text(all().map(|(_, state)| Some(word(state).to_owned())).collect())),
        ("reason".to_owned(), text(all().map(|(_, state)| reason(state)).collect())),
        (
            "finding".to_owned(),
            text(all().map(|(_, it)| Some(measured(it)?.finding.name().to_owned())).collect()),
        ),
        (
            "validity".to_owned(),
            text(all().map(|(_, it)| Some(measured(it)?.validity.name().to_owned())).collect()),
        ),
        (
            "started".to_owned(),
            text(all().map(|(cell, it)| Some(clock(&cell.key, it)?.started.clone())).collect()),
        ),
        (
            "seconds".to_owned(),
            Column::Number(all().map(|(cell, it)| Some(clock(&cell.key, it)?.seconds)).collect()),
        ),
    ];
    let axes: BTreeSet<&String> =
        all().flat_map(|(cell, _)| cell.point.iter().map(|(axis, _)| axis)).collect();
    for axis in axes {
        let values = all().map(|(cell, _)| {
            cell.point.iter().find(|(name, _)| name == axis).map(|(_, value)| value.clone())
        });
        columns.push((format!("axis.{axis}"), Column::Text(values.collect())));
    }
    let figures: BTreeSet<String> = all()
        .filter_map(|(_, state)| measured(state))
        .flat_map(|measured| measured.figures.keys().cloned())
        .collect();
    for figure in figures {
        let values = all().map(|(_, state)| measured(state)?.figures.get(&figure).copied());
        columns.push((figure.clone(), Column::Number(values.collect())));
    }
    columns
}

fn measured(state: &State) -> Option<&Measured> {
    match state {
        State::Done(_, measured) => Some(measured),
        State::Missing | State::Running | State::Failed(_) | State::Skipped(_) => None,
    }
}

/// The state in a word.
const fn word(state: &State) -> &'static str {
    match state {
        State::Missing | State::Running => "missing",
        State::Done(..) => "done",
        State::Failed(_) => "failed",
        State::Skipped(_) => "skipped",
    }
}

fn reason(state: &State) -> Option<String> {
    match state {
        State::Failed(reason) | State::Skipped(reason) => Some(reason.clone()),
        State::Missing | State::Running | State::Done(..) => None,
    }
}
