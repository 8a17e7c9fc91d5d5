//! Hazard pointers, and what takes their place: a few pointers that are protected at once, and replaced.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::haphazard::{AtomicPtr, HazardPointer as PeerPointer};
use ::kovan::{Atomic as KovanAtomic, RetiredNode, pin};
use crossbeam_epoch::{self as epoch, Owned as EpochOwned};
use stillpoint::hazard::{Global, HazardPointer};
use stillpoint::rcu::Rcu;

use super::VALUE;
use harness::timed_loop::{Threads, repeat};

/// Pointers that are protected at once.
pub const MOST: usize = 8;

/// Pointers that threads protect.
pub trait Protect: Sync {
    const NAME: &'static str;

    fn new() -> Self;

    /// Returns a loop that protects `N` values, adds the numbers in them, and gives them up. Each uses its hazard
    /// pointers again, as to make one is slower.
    fn protects<const N: usize>(&self) -> impl FnMut(u32) -> u64;
}

/// Returns the nanoseconds in which a thread protects a value, and gives it up.
pub fn time_one<S: Protect>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let shared = &S::new();
    threads.measure(slice, |timed_loop| timed_loop.time(shared.protects::<1>()))
}

/// [`time_one`] for eight values.
pub fn time_eight<S: Protect>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let shared = &S::new();
    threads.measure(slice, |timed_loop| timed_loop.time(shared.protects::<MOST>()))
}

/// Pointers whose values are replaced and retired.
pub trait Retire: Sync {
    const NAME: &'static str;

    fn new() -> Self;

    /// Returns a loop that allocates a value, replaces the one of pointer `index`, and retires that.
    fn retires(&self, index: usize) -> impl FnMut(u32) -> u64;
}

/// The same pointers, whose values are replaced.
pub struct Retired<S>(S);

/// The library's.
pub struct Own([Rcu<u64, Global>; MOST]);

impl Protect for Own {
    const NAME: &'static str = "stillpoint";

    fn new() -> Self {
        Self([(); MOST].map(|()| Rcu::new_in(VALUE, Global)))
    }

    fn protects<const N: usize>(&self) -> impl FnMut(u32) -> u64 {
        let mut pointers = HazardPointer::array::<N>();
        move |n| {
            repeat(n, || {
                let mut sum = 0_u64;
                for (pointer, source) in pointers.iter_mut().zip(&self.0) {
                    sum += *pointer.protect(source);
                }
                pointers.iter_mut().for_each(HazardPointer::reset);
                sum
            })
        }
    }
}

impl Retire for Retired<Own> {
    const NAME: &'static str = "stillpoint";

    fn new() -> Self {
        Self(Own::new())
    }

    fn retires(&self, index: usize) -> impl FnMut(u32) -> u64 {
        move |n| {
            repeat(n, || {
                drop(self.0.0[index].replace(VALUE));
                1
            })
        }
    }
}

/// Those of haphazard.
pub struct Haphazard([AtomicPtr<u64>; MOST]);

impl Protect for Haphazard {
    const NAME: &'static str = "haphazard";

    fn new() -> Self {
        Self([(); MOST].map(|()| AtomicPtr::from(Box::new(VALUE))))
    }

    fn protects<const N: usize>(&self) -> impl FnMut(u32) -> u64 {
        let mut pointers = [(); N].map(|()| PeerPointer::new());
        move |n| {
            repeat(n, || {
                let mut sum = 0_u64;
                for (pointer, source) in pointers.iter_mut().zip(&self.0) {
                    sum += source.safe_load(pointer).copied().unwrap_or_default();
                }
                pointers.iter_mut().for_each(PeerPointer::reset_protection);
                sum
            })
        }
    }
}

impl Retire for Retired<Haphazard> {
    const NAME: &'static str = "haphazard";

    fn new() -> Self {
        Self(Haphazard::new())
    }

    fn retires(&self, index: usize) -> impl FnMut(u32) -> u64 {
        move |n| {
            repeat(n, || {
                let old = self.0.0[index].swap(Box::new(VALUE)).expect("it is never null");
                // SAFETY: the value is published no more, and is retired once.
                unsafe { old.retire() };
                1
            })
        }
    }
}

impl Drop for Haphazard {
    fn drop(&mut self) {
        for pointer in &mut self.0 {
            // SAFETY: the pointer came from a Box, and no reader has this value any more.
            drop(unsafe { Box::from_raw(*pointer.get_mut()) });
        }
    }
}

/// A value as kovan's `retire` wants it.
#[repr(C)]
pub struct KovanNode {
    retired: RetiredNode,
    value: u64,
}

/// Those of kovan: a guard protects all that is loaded while it is there.
pub struct Kovan([KovanAtomic<KovanNode>; MOST]);

impl Protect for Kovan {
    const NAME: &'static str = "kovan";

    fn new() -> Self {
        let node = || Box::into_raw(Box::new(KovanNode { retired: RetiredNode::new(), value: VALUE }));
        Self([(); MOST].map(|()| KovanAtomic::new(node())))
    }

    fn protects<const N: usize>(&self) -> impl FnMut(u32) -> u64 {
        move |n| {
            repeat(n, || {
                let guard = pin();
                // SAFETY: nodes are not freed before this value is dropped, which the loop borrows.
                let value =
                    |source: &KovanAtomic<KovanNode>| unsafe { source.load(Ordering::Acquire, &guard).deref() }.value;
                self.0[..N].iter().map(value).fold(0, u64::wrapping_add)
            })
        }
    }
}

impl Drop for Kovan {
    fn drop(&mut self) {
        let guard = pin();
        for source in &self.0 {
            let node = source.load(Ordering::Acquire, &guard).as_raw();
            // SAFETY: the node came from a Box and was never replaced; no reader has this value any more.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}

/// crossbeam-epoch, with its global collector.
pub struct Epoch([epoch::Atomic<u64>; MOST]);

impl Retire for Epoch {
    const NAME: &'static str = "crossbeam-epoch";

    fn new() -> Self {
        Self([(); MOST].map(|()| epoch::Atomic::new(VALUE)))
    }

    fn retires(&self, index: usize) -> impl FnMut(u32) -> u64 {
        move |n| {
            repeat(n, || {
                let guard = epoch::pin();
                let old = self.0[index].swap(EpochOwned::new(VALUE), Ordering::AcqRel, &guard);
                // SAFETY: the value is published no more, and is retired once.
                unsafe { guard.defer_destroy(old) };
                1
            })
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        for pointer in &mut self.0 {
            // SAFETY: no other thread has the value.
            drop(unsafe { std::mem::take(pointer).into_owned() });
        }
    }
}
