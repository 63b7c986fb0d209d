//! The reader returns what pages say, and reports what it cannot read.

mod making;
mod pages;
mod real;
mod whole;
