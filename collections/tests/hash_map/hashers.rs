//! Hashers that make collisions.

use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// A good hash of which only some bits remain.
#[derive(Debug, Clone, Copy)]
pub struct Masked(pub u64);

/// Good hashes; all equal; four that differ in the bits that number buckets, or only in the others; few in all. Miri
/// takes too long for all of them.
pub const MASKS: &[u64] =
    if cfg!(miri) { &[u64::MAX, 3] } else { &[u64::MAX, 0, 3, 3 << 56, 0x0300_0000_0000_001F] };

pub struct MaskedHasher(DefaultHasher, u64);

impl BuildHasher for Masked {
    type Hasher = MaskedHasher;

    fn build_hasher(&self) -> MaskedHasher {
        MaskedHasher(DefaultHasher::new(), self.0)
    }
}

impl Hasher for MaskedHasher {
    fn finish(&self) -> u64 {
        self.0.finish() & self.1
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}
