//! The lock's word: who holds it, who waits, and what the next release has to do.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 17.. | tail | slot of the last in the queue; 0 if it is empty |
//! | 3..17 | head | slot of the first in the queue; 0 if it is empty |
//! | 2 | [`PEND`] | the lock is kept for the head: nobody else may take it |
//! | 1 | [`PARKED`] | the head sleeps, or somebody [outside](super::outside) does: the release has to wake |
//! | 0 | [`LOCKED`] | somebody holds the lock |

use crate::sync::mutant;

pub const LOCKED: u32 = 1;
pub const PARKED: u32 = 2;
pub const PEND: u32 = 4;

const FLAGS: u32 = LOCKED | PARKED | PEND;
const HEAD_SHIFT: u32 = 3;
const TAIL_SHIFT: u32 = 17;
/// Bits of a slot's number.
pub const SLOT_BITS: u32 = 14;

#[inline(always)]
pub fn head(word: u32) -> u32 {
    word >> HEAD_SHIFT & ((1 << SLOT_BITS) - 1)
}

#[inline(always)]
pub fn tail(word: u32) -> u32 {
    word >> TAIL_SHIFT
}

#[inline(always)]
pub fn flags(word: u32) -> u32 {
    word & FLAGS
}

/// The word of a queue from `head` to `tail`, with `flags`.
#[inline(always)]
pub fn with_queue(flags: u32, head: u32, tail: u32) -> u32 {
    flags | head << HEAD_SHIFT | tail << TAIL_SHIFT
}

/// Whether the lock can be taken by somebody who is not the head.
#[inline(always)]
pub fn is_open(word: u32) -> bool {
    word & LOCKED == 0 && !is_reserved(word)
}

/// Whether the lock is free, and kept for the head.
#[inline(always)]
pub fn is_reserved(word: u32) -> bool {
    word & (LOCKED | PEND) == PEND && !mutant("pend-ignored")
}
