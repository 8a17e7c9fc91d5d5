//! Keys and values as words.

use core::marker::PhantomData;

use bytemuck::{CheckedBitPattern, NoUninit};

use crate::sync::Domain;
use crate::table::bucket::{MAX_WORDS, Words};
use crate::table::pairs::{Pairs, Sizes};

/// Types of keys and values of a [`CopyMap`](super::CopyMap): those that are copied bit by bit.
///
/// All types are `Plain` that have [`bytemuck`]'s `NoUninit` and `CheckedBitPattern`: integers, floats, `bool`,
/// `char`, `()`, arrays of these, and structures and enums that derive the two traits, or `Pod`. They have no
/// padding, no pointers, and at most 64 bytes.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use stillpoint_collections::CopyMap;
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// #[repr(C)]
/// struct Point {
///     x: f32,
///     y: f32,
/// }
/// // SAFETY: two floats, without padding. With the feature `derive`, bytemuck finds that out.
/// unsafe impl Zeroable for Point {}
/// unsafe impl Pod for Point {}
///
/// let places = CopyMap::from([(*b"mill", Point { x: 1.5, y: 2.0 })]);
/// assert_eq!(places.get(b"mill"), Some(Point { x: 1.5, y: 2.0 }));
/// ```
///
/// ```compile_fail,E0080
/// use stillpoint_collections::CopyMap;
///
/// CopyMap::new().insert(1_u8, [0_u8; 65]);
/// ```
pub trait Plain: NoUninit + CheckedBitPattern + Send {}

impl<T: NoUninit + CheckedBitPattern + Send> Plain for T {}

/// The shape of pairs of these types.
pub type Pair<K, V, D> = Pairs<PairSizes<K, V, D>>;

/// The sizes of these types, and the domain.
pub struct PairSizes<K, V, D>(PhantomData<fn(K) -> (V, D)>);

impl<K: Plain, V: Plain, D: Domain> Sizes for PairSizes<K, V, D> {
    type Domain = D;

    /// A pair has a word, if it has no other.
    const KEY: usize = if size_of::<(K, V)>() == 0 { 1 } else { words::<K>() };
    const VALUE: usize = words::<V>();
}

const fn words<T>() -> usize {
    assert!(size_of::<T>() <= 8 * MAX_WORDS, "keys and values of a `CopyMap` have at most 64 bytes each");
    size_of::<T>().div_ceil(8)
}

/// Returns the words of a value.
#[inline(always)]
pub fn encode<T: Plain>(value: &T) -> Words {
    let mut words = [0; MAX_WORDS];
    bytemuck::bytes_of_mut(&mut words)[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(value));
    words
}

/// Returns the value with whose words, which [`encode`] has returned, these begin.
#[inline(always)]
pub fn decode<T: Plain>(words: &[u64]) -> T {
    bytemuck::checked::pod_read_unaligned(&bytemuck::cast_slice(words)[..size_of::<T>()])
}
