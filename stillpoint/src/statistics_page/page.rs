//! The page: where what lies in it (see the [module](super)).

use std::io;

use crate::sync::two_slots::TwoSlots;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::sys::shared_page::SharedPage;

const MAGIC: [u8; 8] = *b"stillpnt";
const LAYOUT: u32 = 1;
/// Words of the header, and of a slot.
const HEADER: usize = 4096 / 8;
const SLOT: usize = (128 << 10) / 8;
/// The header: words.
const SIZES: usize = 1;
const VERSION: usize = 2;
const NUMBER: usize = 4;

/// The most bytes of a sample. (If it is longer, it is not written.)
pub(super) const LONGEST: usize = (SLOT - 1) * 8;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Page {
    memory: SharedPage,
    /// The number of the last sample.
    last: u64,
}

impl Page {
    /// Makes a page with a first sample.
    pub(super) fn create(sample: &str) -> io::Result<Self> {
        let memory = SharedPage::create(c"stillpoint-statistics", HEADER + 2 * SLOT)?;
        let mut page = Self { memory, last: 0 };
        let store = |at: usize, bytes| {
            // Relaxed: other processes find the page by the kernel, and look at the number first.
            page.memory.words()[at].store(u64::from_ne_bytes(bytes), Relaxed);
        };
        let mut version = [0; 16];
        let bytes = env!("CARGO_PKG_VERSION").as_bytes();
        version[..bytes.len()].copy_from_slice(bytes);
        let [first, second] = [0, 8].map(|at| core::array::from_fn(|index| version[at + index]));
        store(VERSION, first);
        store(VERSION + 1, second);
        let sizes = [LAYOUT.to_ne_bytes(), ((SLOT * 8) as u32).to_ne_bytes()];
        store(SIZES, core::array::from_fn(|index| sizes[index / 4][index % 4]));
        store(0, MAGIC);
        page.write(sample);
        Ok(page)
    }

    /// Replaces the sample.
    pub(super) fn write(&mut self, sample: &str) {
        let words: &[AtomicU64] = self.memory.words();
        let (first, second) = words[HEADER..].split_at(SLOT);
        // It fits: see `LONGEST`. If there is none, the last one stays.
        let slots = TwoSlots::new(&words[NUMBER], [first, second]);
        if !sample.is_empty() && slots.publish(self.last + 1, sample.as_bytes()) {
            self.last += 1;
        }
    }

    /// Returns `true` if other processes can find it.
    pub(super) fn is_open(&self) -> bool {
        self.memory.is_open()
    }

    /// Closes it in the child of a fork.
    pub(super) fn close_in_child(self) {
        self.memory.close_in_child();
    }
}
