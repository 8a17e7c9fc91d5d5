//! How pairs lie in a bucket.

/// The words of a key or of a value. Those that it does not need are zero.
pub type Words = [u64; MAX_WORDS];

/// Words that a key or a value may have.
pub const MAX_WORDS: usize = 8;

/// Tags of a head.
pub const MAX_SLOTS: usize = 7;

/// Words of a cache line.
pub const LINE: usize = 8;

/// The sizes of keys and values, and what follows for buckets: whole cache lines, with a head and a link.
pub trait Shape: Send + Sync + 'static {
    /// Words of a key.
    const KEY: usize;
    /// Words of a value.
    const VALUE: usize;
    /// Pairs of a bucket.
    const SLOTS: usize = if Self::KEY + Self::VALUE == 1 { LINE - 2 } else { MAX_SLOTS };
    /// Words of a bucket.
    const WORDS: usize = (2 + Self::SLOTS * (Self::KEY + Self::VALUE)).next_multiple_of(LINE);
    /// Slots of a bucket that stay free. A value of several words is not replaced in its place.
    const SPARE: usize = if Self::VALUE > 1 { 1 } else { 0 };
    /// Entries that a table has room for, in each four buckets. If the hashes are random, one in eight buckets has
    /// overflowed then.
    const ROOM: usize = if Self::SLOTS - Self::SPARE < MAX_SLOTS { 15 } else { 20 };
}
