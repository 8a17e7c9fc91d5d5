//! The page: where what lies in it (see the [module](super)).

use std::io;

use crate::sync::AtomicU64;
use crate::sync::two_slots::{TwoSlots, store_bytes};
use crate::sys::shared_page::SharedPage;

const LAYOUT: u32 = 1;
/// Words of the header, and of a slot.
const HEADER: usize = 4096 / 8;
const SLOT: usize = (128 << 10) / 8;
/// The word with the number.
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
        let mut header = [0; 8 * NUMBER];
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        header[..8].copy_from_slice(b"stillpnt");
        header[8..12].copy_from_slice(&LAYOUT.to_ne_bytes());
        header[12..16].copy_from_slice(&(SLOT as u32 * 8).to_ne_bytes());
        header[16..16 + version.len()].copy_from_slice(version);
        // Other processes find the page by the kernel, and look at the number first.
        store_bytes(&page.memory.words()[..NUMBER], &header);
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
