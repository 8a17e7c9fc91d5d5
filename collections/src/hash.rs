//! The hashes that maps use.

use core::hash::{BuildHasher, Hash};

/// Found by search. With it, the multiples of any power of two, as hashes, spread nearly as evenly over tables of 2^5
/// to 2^16 buckets as random hashes do.
const FACTOR: u64 = 0xF1F6_9150_9FCA_FD2F;

/// Returns the hash of a key, each of whose bits depends on all of the hasher's.
///
/// Maps take bits from it for different purposes: the lowest number buckets, the highest are the tag of an entry. So
/// a hasher may leave some of its bits as they are, such as those of aligned addresses.
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Entries of a bucket.
    const SLOTS: u8 = 6;

    /// Random hashes have lookups visit 1.05 buckets.
    #[test]
    fn multiples_of_powers_of_two_spread_over_tables_of_each_size() {
        for bits in 5..=12 {
            for shift in 0..=60 - bits {
                let (entries, mut buckets) = (4 << bits, vec![0_u8; 1 << bits]);
                let visited = (0..entries).map(|number: u64| {
                    let bucket = &mut buckets[mix(number << shift) as usize & ((1 << bits) - 1)];
                    *bucket = bucket.saturating_add(1);
                    u64::from((*bucket).div_ceil(SLOTS))
                });
                let mean = visited.sum::<u64>() as f64 / entries as f64;
                assert!(mean < 1.2, "multiples of 2^{shift} in 2^{bits} buckets: {mean}");
            }
        }
    }

    #[test]
    fn tags_of_keys_of_a_bucket_differ() {
        for shift in [0, 3, 12, 32, 48] {
            let (mut tags, mut same) = (vec![[false; 256]; 1 << 10], 0);
            for number in 0_u64..4 << 10 {
                let hash = mix(number << shift);
                let tag = &mut tags[hash as usize % (1 << 10)][(hash >> 56) as usize];
                same += u32::from(std::mem::replace(tag, true));
            }
            assert!(same < 400, "multiples of 2^{shift}: {same} of 4096");
        }
    }
}
