//! What is published and retired.

pub(super) trait Payload: Send + Sync + 'static {
    fn new(number: u64) -> Self;

    /// Reads all of it.
    fn sum(&self) -> u64;
}

/// 64 bytes that need no destructor.
impl Payload for [u64; 8] {
    fn new(number: u64) -> Self {
        [number; 8]
    }

    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

/// 64 bytes with a destructor, and a second piece of memory.
impl Payload for Vec<u64> {
    fn new(number: u64) -> Self {
        vec![number; 8]
    }

    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}
