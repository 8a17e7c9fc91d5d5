//! A hash map of plain pairs, which lie in its table and are copied.
//!
//! [`CopyMap`] is for keys and values such as numbers, identifiers and small structures of these: those that can be
//! copied bit by bit ([`Plain`]). A lookup returns a copy of the value. It costs one cache miss in a large table,
//! where [`HashMap`](crate::HashMap) and most others take two, writes nothing that other threads use, and never waits
//! for a writer. Changes neither allocate nor retire, except when the table grows or shrinks.
//!
//! ```
//! use stillpoint_collections::CopyMap;
//!
//! let balances = CopyMap::from([(17_u64, 100_i64), (23, 50)]);
//! balances.update(&17, |balance| balance - 30);
//! assert_eq!(balances.get(&17), Some(70));
//! assert_eq!(balances.insert(42, 5), None);
//! assert_eq!(balances.remove(&23), Some(50));
//! assert_eq!(balances.len(), 2);
//! ```
//!
//! # How it works
//!
//! A bucket is a few cache lines: for keys and values of 8 bytes each two, which have room for seven pairs. Its first
//! word has a byte of the hash for each pair, its second a version and the number of an overflow bucket, if the
//! bucket was too small.
//!
//! A lookup loads the version and the bytes, copies the pair whose byte is the one, and loads the version again. If
//! that has changed, a slot of the bucket may have got another pair meanwhile, and the lookup repeats. A writer locks
//! the bucket by a bit that lookups ignore. It writes a new pair into a free slot, and then publishes it by one store
//! to the first word. A value of up to 8 bytes is replaced by one store; a larger one is written to another slot,
//! which takes the place of the old one by one store. So a lookup finds a whole pair at each moment, also in a signal
//! handler that has interrupted a writer of the same bucket.
//!
//! If an eighth of the buckets has overflowed, and the table is full, the map allocates a table of twice the size.
//! From then on each change moves the bucket of its key, and eight others, until all have moved. Lookups find the
//! pairs of a bucket in the old table until it has moved, and then in the new one. The table shrinks in the same way,
//! if there is less than one entry for each bucket, but keeps the room that was [reserved](CopyMap::reserve). The old
//! table is freed after a grace period of the map's domain: lookups are read-side critical sections.
//!
//! The comments in the source (in `table/`) explain why this is correct, and `docs/proof.md` says what has been
//! checked.
//!
//! # Trade-offs
//!
//! - An entry with a key and a value of 8 bytes each takes 30 to 55 bytes, by how full the table is. Keys and values
//!   have at most 64 bytes each; larger ones do not compile.
//! - Only changes move buckets to the next table. If the last change of a map comes in the middle of that, lookups
//!   take up to a quarter longer, and both tables take memory, until [`shrink_to_fit`](CopyMap::shrink_to_fit) moves
//!   the rest.
//! - Keys are the same if their bytes are, whatever `Eq` says.
//! - Changes and lookups of one key are linearizable. What a thread did before it inserted or replaced a value
//!   happens before what another thread does after it has found that. Those of different keys are not ordered
//!   otherwise.
//! - A lookup looks at a bucket again if that gets pairs, or values of more than 8 bytes, between its first load and
//!   its last. So it is lock-free, and beside other changes wait-free.
//! - A writer that is preempted while it holds a bucket, for some ten instructions, delays the writers of that
//!   bucket, which spin, then yield, then sleep.
//! - A signal handler may look keys up. It must not change a map, nor iterate: both allocate. The child of a `fork`
//!   may do so if no other thread was changing the map; otherwise it may look keys up, and a change may never end.
//! - Keys whose hashes are equal are searched one after the other. Hashers need not spread the bits of a key: the map
//!   does that with what they return. One that returns different hashes for a key loses its entry. Keys are hashed
//!   again when they move.
//! - The map ends the program where there is no memory for an entry, as the standard library does. A table that
//!   cannot grow or shrink for want of memory stays as it is.
//! - The number of entries is counted on each CPU: 128 bytes for each, allocated by the first insertion.
//! - A global allocator must not use a map: the map allocates under its locks.
//!
//! # Sources
//!
//! The bucket with pairs in place that readers check is that of David, Guerraoui and Trigonakis, *Asynchronized
//! concurrency: the secret to scaling concurrent search data structures* (2015), with a version as in a sequence lock
//! (Lameter 2005) where theirs compares the value again. The bytes of hashes are those of Fan, Andersen and
//! Kaminsky's MemC3 (2013) and of Google's SwissTable (2017). Pairs in the table are also what Blelloch's
//! parlayhash (2024) has for small types.

mod access;
mod convert;
mod iter;
mod map;
mod operations;
pub(crate) mod plain;
#[cfg(feature = "rayon")]
mod rayon;
mod within;

pub use iter::Iter;
pub use map::CopyMap;
pub use plain::Plain;
pub use within::Within;
