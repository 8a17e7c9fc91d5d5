//! The operations of the library that occur in litmus tests. `ci/litmus.sh` compares what rustc makes of them with
//! `instructions.txt`.
#![crate_type = "lib"]

use std::sync::atomic::{AtomicU64, Ordering::*, compiler_fence, fence};

macro_rules! operations {
    ($($name:ident($word:ident) = $operation:expr;)*) => {
        $(#[unsafe(no_mangle)] pub fn $name($word: &AtomicU64) -> u64 { let value = $operation; value as u64 })*
    };
}

operations! {
    load_acquire(word) = word.load(Acquire);
    store_release(word) = { word.store(1, Release); 0 };
    swap_acquire(word) = word.swap(1, Acquire);
    swap_release(word) = word.swap(1, Release);
    swap_acq_rel(word) = word.swap(1, AcqRel);
    add_relaxed(word) = word.fetch_add(1, Relaxed);
    add_acquire(word) = word.fetch_add(1, Acquire);
    add_release(word) = word.fetch_add(1, Release);
    add_acq_rel(word) = word.fetch_add(1, AcqRel);
    // `SharedSeq::snapshot`, `Registry::other_readers`.
    add_zero_acq_rel(word) = word.fetch_add(0, AcqRel);
    // `Qsbr::blocks`.
    or_zero_acq_rel_unused(word) = { word.fetch_or(0, AcqRel); 0 };
    or_acquire(word) = word.fetch_or(1, Acquire);
    or_release(word) = word.fetch_or(1, Release);
    or_acq_rel_unused(word) = { word.fetch_or(1, AcqRel); 0 };
    clear_acquire(word) = word.fetch_and(!1, Acquire);
    clear_acq_rel(word) = word.fetch_and(!1, AcqRel);
    compare_exchange_relaxed(word) = word.compare_exchange(0, 1, Relaxed, Relaxed).is_ok();
    compare_exchange_acquire(word) = word.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
    compare_exchange_acquire_acquire(word) = word.compare_exchange(0, 1, Acquire, Acquire).is_ok();
    compare_exchange_release(word) = word.compare_exchange(0, 1, Release, Relaxed).is_ok();
    compare_exchange_acq_rel(word) = word.compare_exchange(0, 1, AcqRel, Relaxed).is_ok();
    light_fence(word) = { compiler_fence(SeqCst); word.load(Relaxed) };
    fence_acquire(word) = { fence(Acquire); word.load(Relaxed) };
    fence_seq_cst(word) = { fence(SeqCst); word.load(Relaxed) };
}
