//! What pages say is what is read, and what cannot be read is told.

mod making;
mod pages;
mod real;
mod whole;
