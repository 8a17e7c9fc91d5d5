//! The overflow buckets of a table, which lie in chunks that the table frees with itself.
//!
//! A bucket that is given back may be taken at once, by another chain: readers of the first one notice (`chain.rs`,
//! 2).

use std::panic::RefUnwindSafe;
use std::sync::OnceLock;

use super::bucket::{Bucket, NEXT, Shape};
use super::lines::Lines;
use crate::sync::Mutex;

/// The lowest number, and how many buckets the first chunk has. Each other chunk has as many as all numbers before
/// it.
const FIRST: u64 = if cfg!(loom) { 2 } else { 8 };
const CHUNKS: usize = (NEXT + 1).ilog2() as usize - FIRST.ilog2() as usize;

/// The overflow buckets of a table.
pub struct Overflow<S: Shape> {
    chunks: [OnceLock<Lines<S>>; CHUNKS],
    pool: Mutex<Pool>,
}

struct Pool {
    free: Vec<u64>,
    /// The lowest number that was never used.
    new: u64,
}

// A panic leaves the numbers as they are.
impl<S: Shape> RefUnwindSafe for Overflow<S> {}

/// Returns the chunk of a number.
#[inline(always)]
fn chunk_of(number: u64) -> usize {
    (number.ilog2() - FIRST.ilog2()) as usize
}

impl<S: Shape> Overflow<S> {
    pub fn new() -> Self {
        let pool = Pool { free: Vec::new(), new: FIRST };
        Self { chunks: [const { OnceLock::new() }; CHUNKS], pool: Mutex::new(pool) }
    }

    /// Returns the bucket of a link, if it has one.
    #[inline(always)]
    pub fn bucket(&self, link: u64) -> Option<Bucket<'_, S>> {
        let number = link & NEXT;
        (number != 0).then(|| self.numbered(number))
    }

    #[inline(always)]
    fn numbered(&self, number: u64) -> Bucket<'_, S> {
        let chunk = chunk_of(number);
        let lines = self.chunks[chunk].get().expect("a link is to a chunk that exists");
        lines.bucket((number - (FIRST << chunk)) as usize)
    }

    /// Takes a bucket. Returns its number, and how many are in use then.
    #[track_caller]
    pub fn take(&self) -> (u64, usize) {
        let mut pool = self.pool.lock();
        let number = pool.free.pop().unwrap_or_else(|| {
            let number = pool.new;
            assert!(number <= NEXT, "too many entries of a map have no room in their buckets");
            let chunk = chunk_of(number);
            self.chunks[chunk].get_or_init(|| match Lines::new((FIRST << chunk) as usize) {
                Ok(lines) => {
                    lines.allow_huge_pages();
                    lines
                }
                Err(error) => error.fail(),
            });
            pool.new += 1;
            number
        });
        (number, (pool.new - FIRST) as usize - pool.free.len())
    }

    /// Gives an empty bucket back, to which no link leads any more.
    pub fn give_back(&self, number: u64) {
        self.pool.lock().free.push(number);
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.chunks.iter().filter_map(OnceLock::get).map(Lines::size).sum()
    }
}
