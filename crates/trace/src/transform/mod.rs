//! What can be done to a trace on its way from a source to whoever reads it.
//!
//! A transform is a [`Source`](crate::Source) over a source. Each writes itself into
//! [`Header::transforms`](crate::Header::transforms), so that a trace that was cut or scaled never
//! passes for the recording.

use crate::units::Nanos;

pub mod sort;
pub mod window;

pub use sort::Sorted;
pub use window::Window;

/// A span in seconds, exact, with as many decimals as it needs: `10`, `0.5`.
pub(crate) fn decimal_seconds(span: Nanos) -> String {
    let ns = span.0.unsigned_abs();
    let sign = if span.0 < 0 { "-" } else { "" };
    let (whole, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let text = format!("{sign}{whole}.{fraction:09}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Batch, Columns, Header, Request, Source, TraceError};

    /// A source of given requests, in batches of a given size.
    pub(crate) struct Given {
        header: Header,
        batches: Vec<Batch>,
        next: usize,
    }

    impl Given {
        pub(crate) fn new(requests: &[Request], rows: usize) -> Self {
            let columns = Columns { latency: true, origin: true, measured: true };
            let header = Header { columns, ..Header::default() };
            let batches = requests
                .chunks(rows)
                .map(|chunk| {
                    let mut batch = Batch::new(columns);
                    batch.extend(chunk);
                    batch
                })
                .collect();
            Self { header, batches, next: 0 }
        }

        pub(crate) fn batches_given(&self) -> usize {
            self.next
        }
    }

    impl Source for Given {
        fn header(&self) -> &Header {
            &self.header
        }

        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
            batch.reset(self.header.columns);
            let Some(next) = self.batches.get(self.next) else { return Ok(false) };
            batch.append(next, 0, next.len());
            self.next += 1;
            Ok(true)
        }
    }

    #[test]
    fn spans_are_written_exactly_and_shortly() {
        assert_eq!(decimal_seconds(Nanos::from_secs(10)), "10");
        assert_eq!(decimal_seconds(Nanos::from_millis(-1500)), "-1.5");
        assert_eq!(decimal_seconds(Nanos(1)), "0.000000001");
    }
}
