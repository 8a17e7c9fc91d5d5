//! Values that detect use after free, and count how many exist.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

const ALIVE: u64 = 0x616C_6976_6521_2121;

/// How many values of a test exist.
pub type Alive = AtomicI64;

/// A number. Every use checks that it has not been dropped, as far as the allocator leaves the memory as it is.
#[derive(Debug)]
pub struct Counted {
    state: AtomicU64,
    number: u64,
    alive: &'static Alive,
}

impl Counted {
    pub fn new(number: u64, alive: &'static Alive) -> Self {
        alive.fetch_add(1, Relaxed);
        Self { state: AtomicU64::new(ALIVE), number, alive }
    }

    pub fn get(&self) -> u64 {
        assert_eq!(self.state.load(Relaxed), ALIVE, "a value is used after its drop");
        self.number
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.get(), self.alive)
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.get().hash(state);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let was = self.state.swap(0, Relaxed);
        assert_eq!(was, ALIVE, "a value is dropped twice");
        self.alive.fetch_sub(1, Relaxed);
    }
}
