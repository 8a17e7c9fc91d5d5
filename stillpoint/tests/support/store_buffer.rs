//! A full store buffer.

use std::hint;

const LINE: usize = 64;
const LINES: usize = 1 << 19;

/// More memory than the caches hold. After [`fill`](Self::fill), other threads see the calling thread's stores late,
/// unless a fence comes between: so a missing ordering shows.
pub struct StoreBuffer {
    bytes: Vec<u8>,
    line: usize,
}

impl Default for StoreBuffer {
    fn default() -> Self {
        Self { bytes: vec![0; LINE * LINES], line: 0 }
    }
}

impl StoreBuffer {
    pub fn fill(&mut self) {
        for _ in 0..16 {
            self.line = (self.line + 8191) % LINES;
            self.bytes[LINE * self.line] = 1;
        }
        hint::black_box(&self.bytes);
    }
}
