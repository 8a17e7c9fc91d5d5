//! A hash map whose lookups write nothing shared and never wait.
//!
//! [`HashMap`] is for tables that many threads read and some change: connections, sessions, caches, names. A lookup
//! costs two cache misses in a large table, as in a map of one thread, and a read-side critical section around it,
//! which takes about a nanosecond. [`stillpoint::rcu`] explains sections and grace periods.
//!
//! A map in an [`srcu::Domain`](stillpoint::srcu::Domain) lends references that a task may hold across `.await`, and
//! no operation of another task waits for them: the example `sessions` shows that.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | `Serialize` and `Deserialize` for maps and sets |
//! | `rayon` | parallel iterators over maps and sets, and `collect` and `extend` from such iterators |
//!
//! # In place of `entry`
//!
//! No entry is locked between a lookup and a change, so there is no `entry`. What programs do with that of the
//! standard library is one operation:
//!
//! | `std` | here |
//! |---|---|
//! | `entry(key).or_insert(value)`, `or_insert_with(f)` | [`get_or_insert`](HashMap::get_or_insert), [`get_or_insert_with`](HashMap::get_or_insert_with) |
//! | `entry(key).and_modify(f).or_insert(value)` | [`update_or_insert`](HashMap::update_or_insert) |
//! | `*entry(key).or_insert(0) += 1` | `get_or_insert_with(key, AtomicU64::default)`, and add to that; of numbers [`CopyMap::fetch_add`](crate::CopyMap::fetch_add) |
//! | `VacantEntry::insert` | [`try_insert`](HashMap::try_insert), [`try_insert_with`](HashMap::try_insert_with) |
//! | `Entry::insert_entry`, `OccupiedEntry::insert` | [`replace`](HashMap::replace) |
//! | `OccupiedEntry::get_mut` | [`update`](HashMap::update), [`modify`](HashMap::modify) |
//! | `OccupiedEntry::remove_entry`, after a look at it | [`remove_if`](HashMap::remove_if) |
//! | `OccupiedEntry::remove`, whose value is owned | [`take`](HashMap::take) |
//! | a `match` of both kinds | [`compute`](HashMap::compute) |
//!
//! These take a borrowed key, such as a `&str` for a `String`, and make an owned one only where they insert an entry;
//! an entry that takes the place of another has a clone of its key, or its `String`. `insert`, `replace` and
//! `try_insert` take an owned key.
//!
//! # How it works
//!
//! A bucket is a cache line: a head with a byte of the hash for each entry, six pointers to entries, and a link to
//! another bucket for those that have no room. These belong to the table, and are freed with it. A lookup follows a
//! pointer only if its byte says that it is probably the right one. It waits for no lock. Where it has followed a
//! link, it starts over if another bucket of these has become empty meanwhile, or if an entry has come into the first
//! one. An entry is an allocation with the hash, the key and the value. It never changes; an update replaces it.
//!
//! Writers lock the bucket by a bit that lookups ignore. Before that they look the key up as readers do, so keys are
//! hashed and compared without a lock, and the lock is held for a few instructions. If the entry has changed since,
//! they look again. If a writer has looked several times without success, as its closure takes long, it is its turn:
//! other writers of the key wait for it, for a second at most.
//!
//! If an eighth of the buckets has no room for its entries, and there are more than four for each bucket, the map
//! allocates a table of twice the size. From then on each change moves the bucket of its key, and eight others, until
//! all have moved. So no insertion takes long because the table is large. The kernel provides the memory of the new
//! table page by page, as buckets move to it, and only then in huge pages. The worker of the domain gives the old
//! table back. Lookups find the entries of a bucket in the old table until it has moved, and then in the new one.
//! They never wait. The table shrinks in the same way, if there is less than one entry for each bucket, but keeps the
//! room that was [reserved](HashMap::reserve). Without memory for another table, it stays as it is.
//!
//! Removed entries that only own memory, such as numbers and strings, are freed after a grace period by the threads
//! that removed them, or by the worker of the domain. If they have at most 128 bytes, threads retire them in batches
//! of 61, and use their memory for insertions (`free_list.rs`). So the last few removals of a thread, with less than
//! 16 KiB of all sizes, may wait until it removes more, or exits, also beyond a
//! [`barrier`](stillpoint::rcu::barrier). Each thread keeps free memory for up to 61 entries of a size that it
//! inserts. All threads together keep up to 4 MiB more while they use it, and 256 KiB if entries are only removed.
//! For other types see [`HashMap::with_defer_options`].
//!
//! The comments in the source (`table/`) explain why this is correct, and `docs/proof.md` says what has been checked.
//! [`CopyMap`](crate::CopyMap) has the same tables, with pairs of plain words in place of the pointers.
//!
//! # Why not
//!
//! `docs/measurements.md` has figures of some of these, and the targets that are missed.
//!
//! - *Open addressing with control bytes, and boxed entries* (papaya): the control bytes and the pointers are in two
//!   arrays, so a lookup takes three cache misses, not two. Removed entries leave marks that only a new table sweeps,
//!   so a map that does not grow is copied again and again. Without locks each slot is changed by compare-exchange,
//!   and readers must know slots that are being copied.
//! - *Split-ordered lists* (Shalev and Shavit 2006; liburcu's `cds_lfht`): nothing moves when the table grows, but
//!   each entry is the node of a list. A lookup takes a cache miss for the bucket, one for each node before the
//!   entry, and one for the entry.
//! - *Relativistic resizing* (Triplett, McKenney and Walpole 2011), which unzips the chains of two buckets: each step
//!   waits for a grace period, so a table grows slowly while readers stay in long sections, and writers must wait or
//!   do without a larger table. Its chains are lists too.
//! - *Locks around parts of a map of one thread* (dashmap): each lookup writes to a line that all threads share.
//!
//! # Trade-offs
//!
//! - An insertion allocates, and a change retires an entry, which takes longer than to change a table in place. The
//!   memory of removed entries is freed after a grace period. A section that lasts long keeps it: see
//!   [`stillpoint::rcu`](stillpoint::rcu#trade-offs).
//! - A value does not change in place, not even a number, as readers have references to it. To replace a counter
//!   takes five times as long as to add to an atomic value, or to one of a [`CopyMap`](crate::CopyMap), whose readers
//!   have copies.
//! - Only changes move buckets to the next table. If the last change of a map comes in the middle of that, lookups
//!   look at both tables, and both take memory, until [`shrink_to_fit`](HashMap::shrink_to_fit) moves the rest.
//! - A map with one entry takes a kilobyte, and 128 bytes for each CPU, on which entries are counted. An empty one
//!   takes none.
//! - Changes and lookups of one key are linearizable. Those of different keys are ordered as a Release and an Acquire
//!   are: two threads that each insert a key and then look up the other's may both find nothing, unless there is a
//!   `SeqCst` fence between the two.
//! - Destructors of entries run in the worker of the domain, except for types that only own memory, or if the
//!   [options](HashMap::with_defer_options) allow otherwise.
//! - Keys whose hashes are equal are searched one after the other. Hashers need not spread the bits of a key: the map
//!   does that with what they return. One that returns different hashes for a key loses its entry.
//! - A global allocator must not use a map: the map allocates under its locks.
//! - LeakSanitizer finds no pointers in tables of 64 KiB and more, which are mapped: it reports the entries of a
//!   static map of some thousand entries.
//! - A thread that is preempted while it holds a bucket, for some ten instructions, delays the writers of that
//!   bucket, which spin, then yield, then sleep. One that is preempted while it moves a bucket for others delays the
//!   end of the resize, too.
//! - In the child of a `fork`, the buckets that other threads had locked stay locked.
//!
//! # Sources
//!
//! The bucket of one cache line is that of David, Guerraoui and Trigonakis, *Asynchronized concurrency: the secret to
//! scaling concurrent search data structures* (2015), without their in-place values. The fingerprints are those of
//! Fan, Andersen and Kaminsky's MemC3 (2013) and of Google's SwissTable (2017).

mod change;
mod compute;
mod convert;
mod exclusive;
mod iter;
mod lookup;
mod map;
mod passed_key;
mod pinned;
#[cfg(feature = "rayon")]
mod rayon;
mod room;

pub use change::OccupiedError;
pub use compute::{Compute, Operation};
pub use equivalent::Equivalent;
pub use exclusive::IterMut;
pub use iter::{IntoIter, Iter, Keys, Values};
pub use map::HashMap;
pub use pinned::Pinned;
pub use room::TryReserveError;

use stillpoint::rcu;

use crate::table::entries::Hashed;

/// A key and its value, as [`HashMap::take`] returns them.
// Lookups do not need the hash, so it comes last: the C library places blocks of 32 bytes so that a key and a value
// of 8 bytes each are on one cache line, and the hash may be on the next one.
#[derive(Debug)]
#[repr(C)]
pub struct Entry<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    hash: u64,
}

impl<K, V> Entry<K, V> {
    fn pair(&self) -> (&K, &V) {
        (&self.key, &self.value)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Entry<K, V> {
    /// Returns what the entry owns on the heap, if that is known.
    fn heap_bytes(&self) -> Option<usize> {
        Some(rcu::known_heap_bytes(&self.key)? + rcu::known_heap_bytes(&self.value)?)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Hashed for Entry<K, V> {
    #[inline(always)]
    fn hash(&self) -> u64 {
        self.hash
    }
}
