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
    load_relaxed(word) = word.load(Relaxed);
    load_acquire(word) = word.load(Acquire);
    store_relaxed(word) = { word.store(1, Relaxed); 0 };
    store_release(word) = { word.store(1, Release); 0 };
    swap_relaxed(word) = word.swap(1, Relaxed);
    swap_acquire(word) = word.swap(1, Acquire);
    swap_release(word) = word.swap(1, Release);
    swap_acq_rel(word) = word.swap(1, AcqRel);
    add_relaxed(word) = word.fetch_add(1, Relaxed);
    add_acquire(word) = word.fetch_add(1, Acquire);
    add_release(word) = word.fetch_add(1, Release);
    add_acq_rel(word) = word.fetch_add(1, AcqRel);
    // `SharedSeq::snapshot`, `Registry::other_readers`.
    add_zero_acquire(word) = word.fetch_add(0, Acquire);
    add_zero_release(word) = word.fetch_add(0, Release);
    add_zero_acq_rel(word) = word.fetch_add(0, AcqRel);
    // `ReaderProtocol::blocks`, which does not use the result.
    or_zero_acquire(word) = { word.fetch_or(0, Acquire); 0 };
    or_zero_release(word) = { word.fetch_or(0, Release); 0 };
    or_zero_acq_rel(word) = { word.fetch_or(0, AcqRel); 0 };
    or_relaxed(word) = word.fetch_or(1, Relaxed);
    or_acquire(word) = word.fetch_or(1, Acquire);
    or_release(word) = word.fetch_or(1, Release);
    or_acq_rel(word) = word.fetch_or(1, AcqRel);
    or_acq_rel_unused(word) = { word.fetch_or(1, AcqRel); 0 };
    clear_relaxed(word) = word.fetch_and(!1, Relaxed);
    clear_acquire(word) = word.fetch_and(!1, Acquire);
    clear_release(word) = word.fetch_and(!1, Release);
    clear_acq_rel(word) = word.fetch_and(!1, AcqRel);
    cas_relaxed(word) = word.compare_exchange(0, 1, Relaxed, Relaxed).is_ok();
    cas_acquire(word) = word.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
    cas_acquire_acquire(word) = word.compare_exchange(0, 1, Acquire, Acquire).is_ok();
    cas_release(word) = word.compare_exchange(0, 1, Release, Relaxed).is_ok();
    cas_acq_rel(word) = word.compare_exchange(0, 1, AcqRel, Relaxed).is_ok();
    light_fence(word) = { compiler_fence(SeqCst); word.load(Relaxed) };
    fence_acquire(word) = { fence(Acquire); word.load(Relaxed) };
    fence_release(word) = { fence(Release); word.load(Relaxed) };
    fence_seq_cst(word) = { fence(SeqCst); word.load(Relaxed) };
}
