//! How a value or a closure, and its [options](super::options), become a callback.

use core::mem::needs_drop;

use super::options::{self, DeferOptions};
use crate::pointer::thin::ThinPtr;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::RawDomain;

/// Returns what the captures of a closure own, which is unknown if any has a destructor.
#[inline(always)]
pub fn known_of_captures<F>() -> Option<usize> {
    if const { needs_drop::<F>() } { None } else { Some(0) }
}

/// Frees the value after a grace period.
///
/// # Safety
///
/// `value` has been unpublished, and is not used by the caller again. Any thread may drop it. It is not borrowed
/// mutably during this call.
#[inline]
#[track_caller]
pub unsafe fn retire<T: ?Sized + 'static>(domain: &impl RawDomain, value: ThinPtr<T>, options: DeferOptions) {
    // SAFETY: the caller's contract. The types of `known` are `Sync`.
    let heap = options.heap(|| options::known(unsafe { &*value.as_ptr() }));
    // SAFETY: the caller's contract; callbacks run after a grace period.
    let callback = unsafe { Callback::free(value, value.bytes(), heap, options.local) };
    defer(domain, callback, options);
}

/// Defers the callback. Inlined in each caller, which knows the options.
#[inline(always)]
#[track_caller]
pub fn defer(domain: &impl RawDomain, callback: Callback, options: DeferOptions) {
    // What is kept counts as one: hazard pointers protect the address that is retired, not the values of a batch.
    let count = if options.count == 1 || domain.hazards().is_some() { 1 } else { options.count };
    domain.defer(callback.counted(count, options.push_only));
}
