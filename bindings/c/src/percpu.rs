//! Per-CPU counters and pools.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use stillpoint::percpu::{Counter, Pool};

use crate::boundary::{self, Error};

/// `struct sp_pool`. A `Box<()>` is a pointer that is not null, without memory of its own.
#[derive(Debug)]
pub struct AnyPool(Pool<()>);

/// Creates a counter of zero.
#[unsafe(no_mangle)]
pub extern "C" fn sp_counter_create(counter: &mut MaybeUninit<NonNull<Counter>>) -> c_int {
    boundary::run(|| {
        let fresh = Counter::new();
        if !fresh.try_prepare() {
            return Err(Error(libc::ENOMEM));
        }
        counter.write(boundary::boxed(fresh)?);
        Ok(())
    })
}

/// Frees a counter.
///
/// # Safety
///
/// `counter` is null or comes from `sp_counter_create`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_counter_destroy(counter: Option<NonNull<Counter>>) {
    // SAFETY: the caller's contract.
    drop(counter.map(|counter| unsafe { Box::from_raw(counter.as_ptr()) }));
}

/// Adds to a counter.
#[unsafe(no_mangle)]
pub extern "C" fn sp_counter_add(counter: &Counter, by: u64) {
    counter.add(by);
}

/// Returns the sum of all adds.
#[unsafe(no_mangle)]
pub extern "C" fn sp_counter_sum(counter: &Counter) -> u64 {
    counter.get()
}

/// Creates an empty pool.
#[unsafe(no_mangle)]
pub extern "C" fn sp_pool_create(pool: &mut MaybeUninit<NonNull<AnyPool>>, capacity: usize) -> c_int {
    boundary::run(|| {
        pool.write(boundary::boxed(AnyPool(Pool::try_new(capacity).ok_or(Error(libc::ENOMEM))?))?);
        Ok(())
    })
}

/// Frees a pool, and calls `function` with each object in it.
///
/// # Safety
///
/// `pool` is null or comes from `sp_pool_create`, and is not used again. `function` may be called with its objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_pool_destroy(
    pool: Option<NonNull<AnyPool>>,
    function: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
) -> c_int {
    boundary::run(|| {
        let Some(pool) = pool else { return Ok(()) };
        // SAFETY: the caller's contract.
        let pool = unsafe { Box::from_raw(pool.as_ptr()) };
        while let Some(object) = pool.0.pop() {
            if let Some(function) = function {
                // SAFETY: the caller's contract.
                unsafe { function(Box::into_raw(object).cast()) };
            }
        }
        Ok(())
    })
}

/// Puts an object into the pool.
#[unsafe(no_mangle)]
pub extern "C" fn sp_pool_push(pool: &AnyPool, object: NonNull<c_void>) -> c_int {
    // SAFETY: a box of a type without size needs a pointer that is not null.
    match pool.0.push(unsafe { Box::from_raw(object.as_ptr().cast()) }) {
        Ok(()) => 0,
        Err(_) => -libc::ENOSPC,
    }
}

/// Takes an object. Returns null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn sp_pool_pop(pool: &AnyPool) -> Option<NonNull<c_void>> {
    pool.0.pop().map(|object| NonNull::from(Box::leak(object)).cast())
}

/// Returns the number of objects.
#[unsafe(no_mangle)]
pub extern "C" fn sp_pool_len(pool: &AnyPool) -> usize {
    pool.0.len()
}
