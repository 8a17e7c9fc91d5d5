//! Hashers that make collisions.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::Mutex;

#[path = "../../src/hash.rs"]
#[expect(dead_code, reason = "tests do not hash keys")]
mod hash;

/// The bits of which tests can say what they are in the hashes that maps use: of buckets, and of tags.
const CHOSEN: u64 = 0xFF << 56 | if cfg!(miri) { 0xF } else { 0xFF };

/// A good hash of which only some bits remain, in the hashes that maps use.
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
        let hash = self.0.finish();
        if self.1 == u64::MAX { hash } else { unmixed(hash & self.1) }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

/// Returns what a hasher has to return, so that the hash that maps use has the [`CHOSEN`] bits of `wanted`.
pub fn unmixed(wanted: u64) -> u64 {
    static FOUND: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().expect("no panic");
    let search = || (0..).find(|&hash| (hash::mix(hash) ^ wanted) & CHOSEN == 0).expect("there is one");
    *found.entry(wanted).or_insert_with(search)
}
