//! The accesses of a sample of pages.
//!
//! A page is in the sample or it is not, by its key alone (SHARDS: Waldspurger and others, FAST
//! 2015), so all its accesses are there in all parts of the trace.

/// An access of a page that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The volume.
    pub volume: u32,
    /// When the request was due.
    pub time_ns: i64,
    /// Which request of the part it is: the order of those of one instant.
    pub number: u64,
    /// Whether the page was written.
    pub is_write: bool,
    /// Which page of the volume, from 0.
    pub page: u64,
}

/// The accesses of a share of all pages. Memory grows with their number, as the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    share: f64,
    /// The largest key in the sample; `None` where there is none.
    largest: Option<u64>,
    /// Requests so far.
    requests: u64,
    accesses: Vec<Access>,
}

impl Drawn {
    /// Nothing yet, of this share of all pages.
    pub fn new(share: f64) -> Self {
        // A share of 1 is 2^64 keys, which the conversion makes the largest number there is.
        let keys = (share.clamp(0.0, 1.0) * 2_f64.powi(64)) as u64;
        let largest = if share >= 1.0 { Some(u64::MAX) } else { keys.checked_sub(1) };
        Self { share, largest, requests: 0, accesses: Vec::new() }
    }

    /// The share of all pages.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The accesses, in the order of their requests.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// The number of the next request.
    pub(super) fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests - 1
    }

    #[inline]
    pub(super) fn takes(&self, key: u64) -> bool {
        self.largest.is_some_and(|largest| key <= largest)
    }

    pub(super) fn add(&mut self, access: Access) {
        self.accesses.push(access);
    }

    /// Adds those of the requests that follow.
    pub(super) fn merge(&mut self, later: &Self) {
        let before = self.requests;
        let numbered = |access: &Access| Access { number: before + access.number, ..*access };
        self.accesses.extend(later.accesses.iter().map(numbered));
        self.requests += later.requests;
    }
}
