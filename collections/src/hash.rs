//! The hashes that maps use.

use core::hash::{BuildHasher, Hash};

/// Found by search. With it, the multiples of any power of two, as hashes, spread about as evenly over tables of 2^5 to
/// 2^16 buckets as random hashes do.
const FACTOR: u64 = 0xF1F6_9150_9FCA_FD2F;

/// Returns the hash of a key, each of whose bits depends on all of the hasher's.
///
/// Maps take bits from it for different purposes: the lowest number buckets and stripes, the highest are the tag of an
/// entry. So a hasher may leave some of its bits as they are, such as those of aligned addresses.
#[inline(always)]
pub fn hash_of(hasher: &impl BuildHasher, key: &(impl Hash + ?Sized)) -> u64 {
    mix(hasher.hash_one(key))
}

/// The two halves of a product: the upper one has what the lower one has lost.
#[inline(always)]
pub fn mix(hash: u64) -> u64 {
    let product = u128::from(hash) * u128::from(FACTOR);
    product as u64 ^ (product >> 64) as u64
}
