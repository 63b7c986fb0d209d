//! Columns of names, read as codes.
//!
//! A file explains itself where it says `read` and not 0. But a batch holds codes, and a string for
//! each row would cost more than all of its other columns. So names are replaced by codes page by
//! page, before a row is read. Every writer puts the few names into a dictionary, so they are
//! replaced once in a row group.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{ColumnDescriptor, Type as SchemaType};

use super::VERSION;
use super::schema::Column;

/// A name that means nothing in its column.
#[derive(Debug, thiserror::Error)]
#[error("{column} is '{name}' here or later, which means nothing in version {VERSION}")]
pub(super) struct UnknownName {
    column: &'static str,
    name: String,
}

/// The column of codes that a column of names is read as.
pub(super) fn coded(names: &ColumnDescriptor, column: Column) -> Result<Arc<ColumnDescriptor>> {
    let code = SchemaType::primitive_type_builder(column.name(), Type::INT32)
        .with_repetition(names.self_type().get_basic_info().repetition())
        .build()?;
    let (levels, path) = ((names.max_def_level(), names.max_rep_level()), names.path().clone());
    Ok(Arc::new(ColumnDescriptor::new(Arc::new(code), levels.0, levels.1, path)))
}

/// Pages of a column of names, with codes in place of the names.
pub(super) struct CodedPages<P> {
    pub(super) pages: P,
    pub(super) column: Column,
    /// Whether a value may be null.
    pub(super) is_optional: bool,
}

impl<P> CodedPages<P> {
    /// Adds the codes of `names`, which lie one behind the other, each behind its length (the
    /// encoding PLAIN of <https://parquet.apache.org/docs/file-format/data-pages/encodings/>).
    fn translate(&self, mut names: &[u8], codes: &mut Vec<u8>) -> Result<()> {
        let short = || ParquetError::General("a name is longer than its page".to_owned());
        while !names.is_empty() {
            let (length, rest) = names.split_first_chunk::<4>().ok_or_else(short)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (name, rest) = rest.split_at_checked(length).ok_or_else(short)?;
            let text = String::from_utf8_lossy(name);
            let code = self.column.code_of(&text).ok_or_else(|| {
                let name = text.chars().take(40).collect();
                ParquetError::External(Box::new(UnknownName { column: self.column.name(), name }))
            })?;
            codes.extend(code.to_le_bytes());
            names = rest;
        }
        Ok(())
    }

    /// A page of values with codes for its names; its first bytes are `levels` and stay.
    fn page(&self, page: Bytes, levels: usize, encoding: Encoding) -> Result<Bytes> {
        match encoding {
            // The values are places in the dictionary.
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => Ok(page),
            Encoding::PLAIN => {
                let (levels, names) = page.split_at_checked(levels).ok_or_else(|| {
                    ParquetError::General("a page is shorter than its levels".to_owned())
                })?;
                let mut coded = levels.to_vec();
                self.translate(names, &mut coded)?;
                Ok(coded.into())
            }
            other => Err(ParquetError::NYI(format!(
                "column {} is encoded as {other}; a dictionary and PLAIN are read here",
                self.column.name()
            ))),
        }
    }
}

impl<P: PageReader> PageReader for CodedPages<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.pages.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DictionaryPage { buf, num_values, is_sorted, .. } => {
                let mut codes = Vec::with_capacity(*num_values as usize * size_of::<i32>());
                self.translate(buf, &mut codes)?;
                (*buf, *is_sorted) = (codes.into(), false);
            }
            Page::DataPage { buf, encoding, statistics, .. } => {
                // The levels stand behind their own length.
                let length = buf.first_chunk::<4>().filter(|_| self.is_optional);
                let levels = length
                    .map_or(0, |length| (u32::from_le_bytes(*length) as usize).saturating_add(4));
                *buf = self.page(std::mem::take(buf), levels, *encoding)?;
                *statistics = None;
            }
            Page::DataPageV2 {
                buf,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                statistics,
                ..
            } => {
                let levels =
                    (*def_levels_byte_len as usize).saturating_add(*rep_levels_byte_len as usize);
                *buf = self.page(std::mem::take(buf), levels, *encoding)?;
                *statistics = None;
            }
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl<P: PageReader> Iterator for CodedPages<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
