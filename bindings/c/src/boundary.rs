//! The boundary to C: error codes instead of panics.

use core::alloc::Layout;
use core::fmt::Display;
use core::ptr::NonNull;
use std::alloc::alloc;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{mem, process};

use libc::c_int;

/// An error: a positive `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub c_int);

/// Calls `f`. Returns its value, or a negative `errno`.
pub fn catch(f: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => value,
        Ok(Err(Error(errno))) => -errno,
        Err(payload) => {
            // Its destructor could panic too. The panic hook has written the message.
            mem::forget(payload);
            if cfg!(debug_assertions) {
                process::abort();
            }
            -libc::ENOTRECOVERABLE
        }
    }
}

/// [`catch`] for a function without a value.
pub fn run(f: impl FnOnce() -> Result<(), Error>) -> c_int {
    catch(|| f().map(|()| 0))
}

/// Reports misuse of `function`, and returns `errno`. Aborts in a debug build.
#[cold]
pub fn misuse(function: &str, what: &str, errno: c_int) -> Error {
    report(function, what);
    if cfg!(debug_assertions) {
        process::abort();
    }
    Error(errno)
}

/// Writes a line to the standard error. Allocates nothing.
#[cold]
pub fn report(function: &str, what: impl Display) {
    // Not `eprintln!`, which panics if it cannot write.
    let _ = writeln!(std::io::stderr(), "stillpoint: {function} {what}");
}

/// Moves `value` to memory of its own, which `Box::from_raw` frees.
pub fn boxed<T>(value: T) -> Result<NonNull<T>, Error> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: it has a size.
    let place = NonNull::new(unsafe { alloc(Layout::new::<T>()) }.cast::<T>()).ok_or(Error(libc::ENOMEM))?;
    // SAFETY: allocated above.
    unsafe { place.write(value) };
    Ok(place)
}
