//! Pages, checked before the library allocates the memory that they claim to need.
//!
//! The library allocates as many values as a dictionary's header claims, before it checks that they
//! exist: four damaged bytes in a file of 4 KiB take 16 GiB, and the process is killed without a
//! message about the file. So pages are checked here.

use parquet::basic::Type;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;

use super::names::{CodedPages, coded};
use super::schema::Column;

/// The reader of column number `index` of `group`, which is our `column`. It reads codes also where
/// the file holds names.
pub(super) fn column_reader(
    group: &dyn RowGroupReader,
    column: Column,
    index: usize,
) -> Result<ColumnReader> {
    let found = group.metadata().column(index).column_descr_ptr();
    let value_bits = match found.physical_type() {
        Type::BOOLEAN => 1,
        // A string takes four bytes for its length, and more.
        Type::INT32 | Type::BYTE_ARRAY => 32,
        _ => 64,
    };
    let pages = CheckedPages { pages: group.get_column_page_reader(index)?, value_bits };
    if found.physical_type() != Type::BYTE_ARRAY {
        return Ok(get_column_reader(found, Box::new(pages)));
    }
    let pages = CodedPages { pages, column, is_optional: found.max_def_level() > 0 };
    Ok(get_column_reader(coded(&found, column)?, Box::new(pages)))
}

/// Pages of a column whose values take a known number of bits where they are not packed.
struct CheckedPages {
    pages: Box<dyn PageReader>,
    value_bits: u64,
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(Page::DictionaryPage { buf, num_values, .. }) = &page
            && u64::from(*num_values) * self.value_bits > buf.len() as u64 * 8
        {
            return Err(ParquetError::General(format!(
                "a dictionary of {} bytes claims to hold {num_values} values",
                buf.len()
            )));
        }
        Ok(page)
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

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
