//! The shelf of a CPU in a [`Pool`](super::Pool): an array of words, under a lock that is tried and never waited for.
//!
//! It is changed by the thread that holds the lock, and its length after its words. So it is whole at every moment: the child of a
//! fork goes on with what it finds, whatever the holder was doing.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::holder::{Lock, Taken};
use super::rows::boxed;
use super::used::UsedCpus;
use crate::sync::step;

#[derive(Debug)]
#[repr(align(128))]
pub struct Shelf {
    lock: Lock,
    /// How many words there are: the first ones. Changed by the holder of the lock.
    len: AtomicUsize,
    words: Box<[AtomicU64]>,
}

impl Shelf {
    /// An empty shelf.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn new(capacity: usize) -> Self {
        Self { lock: Lock::new(), len: AtomicUsize::new(0), words: boxed(capacity, |_| AtomicU64::new(0)) }
    }

    /// How many words there are, unless another thread changes that.
    pub fn len(&self) -> usize {
        // Relaxed: a hint, unless the lock orders it.
        self.len.load(Relaxed)
    }

    /// Takes the lock, unless another thread has it. `cpu` is that of the shelf, and joins `used` with the first words.
    pub fn hold<'a>(&'a self, cpu: usize, used: &'a UsedCpus) -> Option<Held<'a>> {
        (self.lock.try_lock() != Taken::No).then(|| Held { shelf: self, cpu, used })
    }

    /// The words, of which there are none afterwards.
    pub fn drain(&mut self) -> impl Iterator<Item = u64> {
        let len = core::mem::take(self.len.get_mut());
        self.words[..len].iter_mut().map(|word| *word.get_mut())
    }
}

/// A shelf whose lock the calling thread has, until this is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    shelf: &'a Shelf,
    cpu: usize,
    used: &'a UsedCpus,
}

impl Held<'_> {
    /// How many words there is room for.
    pub fn room(&self) -> usize {
        self.shelf.words.len() - self.shelf.len()
    }

    /// Puts words there, from the first, as long as there is room: how many.
    pub fn put(&self, words: &[u64]) -> usize {
        if !words.is_empty() {
            step!("shelf-not-used", self.used.insert(self.cpu));
        }
        let len = self.shelf.len();
        let free = &self.shelf.words[len..];
        for (slot, word) in free.iter().zip(words) {
            slot.store(*word, Relaxed);
        }
        let put = free.len().min(words.len());
        // Release: the child of a fork in the middle of this finds the words with the length.
        self.shelf.len.store(len + put, Release);
        put
    }

    /// Takes those that were put last, as many as `words` has room for: how many.
    pub fn take(&self, words: &mut [u64]) -> usize {
        let len = self.shelf.len();
        let rest = len.saturating_sub(words.len());
        for (word, slot) in words.iter_mut().zip(&self.shelf.words[rest..len]) {
            *word = slot.load(Relaxed);
        }
        self.shelf.len.store(rest, Relaxed);
        len - rest
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.shelf.lock.unlock();
    }
}
