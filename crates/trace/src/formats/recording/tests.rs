//! The reader returns the requests in pages, and reports the parts that it cannot read.

mod making;
mod pages;
mod real;
mod whole;
