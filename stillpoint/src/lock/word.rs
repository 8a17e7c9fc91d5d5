//! The lock word: the holder, the wait queue, and what the next release has to do.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 17.. | tail | the last node in the queue; 0 if the queue is empty |
//! | 3..17 | head | the first node in the queue; 0 if the queue is empty |
//! | 2 | [`PENDING`] | the lock is reserved for the head: no other thread may take it |
//! | 1 | [`PARKED`] | the head or an [unqueued](super::unqueued) waiter is parked: the release has to wake it |
//! | 0 | [`LOCKED`] | a thread holds the lock |

pub const LOCKED: u32 = 1;
pub const PARKED: u32 = 2;
pub const PENDING: u32 = 4;

const FLAGS: u32 = LOCKED | PARKED | PENDING;
const HEAD_SHIFT: u32 = 3;
const TAIL_SHIFT: u32 = 17;
/// Bits of a node's number.
pub const NODE_BITS: u32 = 14;

#[inline(always)]
pub fn head(word: u32) -> u32 {
    word >> HEAD_SHIFT & ((1 << NODE_BITS) - 1)
}

#[inline(always)]
pub fn tail(word: u32) -> u32 {
    word >> TAIL_SHIFT
}

#[inline(always)]
pub fn flags(word: u32) -> u32 {
    word & FLAGS
}

/// Returns the word of a queue from `head` to `tail`, with `flags`.
#[inline(always)]
pub fn with_queue(flags: u32, head: u32, tail: u32) -> u32 {
    flags | head << HEAD_SHIFT | tail << TAIL_SHIFT
}

/// Returns `true` if the lock is free and not reserved for the head.
#[inline(always)]
pub fn is_open(word: u32) -> bool {
    word & LOCKED == 0 && !is_reserved(word)
}

/// Returns `true` if the lock is free, and reserved for the head.
#[inline(always)]
pub fn is_reserved(word: u32) -> bool {
    word & (LOCKED | PENDING) == PENDING
}
