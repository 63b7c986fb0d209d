//! The reader returns the requests in pages, and reports the parts that it cannot read.

mod calls;
mod making;
mod pages;
mod real;
mod whole;
