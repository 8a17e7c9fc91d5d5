//! Stores that take long.

use std::hint;

const LINE: usize = 64;
const LINES: usize = 1 << 19;

/// More memory than caches hold. What a thread stores after [`store`](Self::store) waits behind these stores, and is seen
/// late by others unless a fence comes between: an ordering that is missing shows.
pub struct Far {
    bytes: Vec<u8>,
    line: usize,
}

impl Default for Far {
    fn default() -> Self {
        Self { bytes: vec![0; LINE * LINES], line: 0 }
    }
}

impl Far {
    pub fn store(&mut self) {
        for _ in 0..16 {
            self.line = (self.line + 8191) % LINES;
            self.bytes[LINE * self.line] = 1;
        }
        hint::black_box(&self.bytes);
    }
}
