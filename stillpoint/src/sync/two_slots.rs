//! Text that one thread publishes again and again, and that readers copy without stopping it, in other processes too:
//! two slots, and the number of the last text.
//!
//! Text number `n` lies in slot `n % 2`. The writer fills the slot of the text before the last one, and then stores
//! the number. A reader takes the number, copies the slot, and takes the number again. If that has not changed, the
//! writer has not begun to fill this slot. So the last complete text can be read at any time, also if the writer
//! stops or is killed in the middle of the next: a seqlock (Linux, `seqlock.h`) with one slot has no text then.
//!
//! # Orderings
//!
//! 1. *A reader that finds number `n` copies all of text `n`*: the number is stored with Release, and loaded with
//!    Acquire.
//! 2. *A reader that copies a word of text `n + 2`, which replaces text `n`, finds that the number has changed.* The
//!    number `n + 1` was stored before; a Release fence of the writer lies between that store and the words of text
//!    `n + 2`, and an Acquire fence of the reader between its copy and its second load.
//!
//! Readers in other processes make the same loads by system calls, which are as ordered (`pread(2)` of a page in
//! memory begins with a read barrier, in `folio_test_uptodate`).

use super::{AtomicU64, Ordering::*, fence};

/// What is before the text in a slot: its length in bytes.
const LENGTH: usize = 1;

/// See the [module](self). The slots have the same size, at least a word.
#[derive(Debug)]
pub struct TwoSlots<'a> {
    number: &'a AtomicU64,
    slots: [&'a [AtomicU64]; 2],
}

impl<'a> TwoSlots<'a> {
    /// Uses these words, of which no other writer changes one.
    pub fn new(number: &'a AtomicU64, slots: [&'a [AtomicU64]; 2]) -> Self {
        Self { number, slots }
    }

    /// Publishes the text of this number: 1, 2 and so on. Returns `false` if it does not fit into a slot.
    #[must_use]
    pub fn publish(&self, number: u64, text: &[u8]) -> bool {
        let slot = self.slots[(number % 2) as usize];
        if text.len().div_ceil(8) > slot.len() - LENGTH {
            return false;
        }
        // Release: orders the store of the last number before the words, see (2); pairs with the fence of readers.
        fence(Release);
        slot[0].store(text.len() as u64, Relaxed);
        store_bytes(&slot[LENGTH..], text);
        // Release: publishes the text, see (1); pairs with the Acquire of readers.
        self.number.store(number, Release);
        true
    }
}

/// Stores bytes in words, the last of which is filled with zeros.
pub fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
        let mut filled = [0; 8];
        filled[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(filled), Relaxed);
    }
}
