//! Deferred calls of C functions.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use stillpoint::Domain;
use stillpoint::rcu::DeferOptions;

use crate::boundary::{self, Error, misuse};
use crate::domain::{AnyDomain, with};

/// A function of the program. It may throw, which ends the process.
type Function = unsafe extern "C-unwind" fn(*mut c_void);

/// `struct sp_rcu_head`.
#[derive(Debug)]
#[repr(C)]
pub struct Head {
    function: Option<unsafe extern "C-unwind" fn(*mut Head)>,
    _reserved: *mut c_void,
}

// As the header says.
const _: () = assert!(size_of::<Head>() == 16);

/// A deferred call.
struct Call {
    function: Function,
    argument: *mut c_void,
}

const SP_RUN_ON_RETIRING_THREAD: u32 = 2;

fn options(flags: u32) -> Result<DeferOptions, Error> {
    if flags & !SP_RUN_ON_RETIRING_THREAD != 0 {
        return Err(misuse("sp_call, sp_call_head or sp_retire", "with unknown flags", libc::EINVAL));
    }
    let mut options = DeferOptions::new();
    if flags & SP_RUN_ON_RETIRING_THREAD != 0 {
        options = options.run_on_retiring_thread();
    }
    Ok(options)
}

/// Calls `run` with `pointer` after a grace period; counted as `bytes`, or as an unknown number if that is 0, and
/// `own`.
///
/// # Safety
///
/// That of [`Domain::retire_raw_with`].
unsafe fn defer(
    domain: &AnyDomain,
    pointer: *mut (),
    bytes: usize,
    own: usize,
    run: unsafe fn(*mut ()),
    options: DeferOptions,
) {
    let options = if bytes == 0 { options.unknown_heap_bytes() } else { options.heap_bytes(bytes) };
    // SAFETY: the caller's contract.
    with!(domain => unsafe { domain.retire_raw_with(pointer, own, run, options) });
}

/// Defers a call of `function`, with a few words of memory for it.
///
/// # Safety
///
/// Any thread may call `function` with `argument` once, after a grace period.
unsafe fn defer_call(
    domain: &AnyDomain,
    function: Function,
    argument: *mut c_void,
    bytes: usize,
    options: DeferOptions,
) -> Result<(), Error> {
    /// # Safety
    ///
    /// `call` is used once.
    unsafe fn run(call: *mut ()) {
        // SAFETY: from `defer_call`.
        let Call { function, argument } = *unsafe { Box::from_raw(call.cast::<Call>()) };
        // SAFETY: the contract of `defer_call`.
        unsafe { function(argument) };
    }
    let call = boundary::boxed(Call { function, argument })?;
    // SAFETY: the caller's contract.
    unsafe { defer(domain, call.as_ptr().cast(), bytes, size_of::<Call>(), run, options) };
    Ok(())
}

/// Calls a function after a grace period.
///
/// # Safety
///
/// Any thread may call `function` with `argument` once, after a grace period.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_call(
    domain: &AnyDomain,
    function: Option<Function>,
    argument: *mut c_void,
    flags: u32,
) -> c_int {
    boundary::run(|| {
        let function = function.ok_or_else(|| misuse("sp_call", "without a function", libc::EINVAL))?;
        // SAFETY: the caller's contract.
        unsafe { defer_call(domain, function, argument, 0, options(flags)?) }
    })
}

/// Calls a function with a structure that contains `head`, after a grace period. Allocates nothing for it.
///
/// # Safety
///
/// `head` is used by nothing else until the function is called. Any thread may call it once, after a grace period.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_call_head(
    domain: &AnyDomain,
    head: NonNull<Head>,
    function: Option<unsafe extern "C-unwind" fn(*mut Head)>,
    bytes: usize,
    flags: u32,
) -> c_int {
    /// # Safety
    ///
    /// `head` is used once.
    unsafe fn run(head: *mut ()) {
        let head = head.cast::<Head>();
        // SAFETY: stored below.
        if let Some(function) = unsafe { (*head).function } {
            // SAFETY: the contract of `sp_call_head`.
            unsafe { function(head) };
        }
    }
    boundary::run(|| {
        let function = function.ok_or_else(|| misuse("sp_call_head", "without a function", libc::EINVAL))?;
        let options = options(flags)?;
        // SAFETY: the caller's contract.
        unsafe {
            // The other word is the header's: `stillpoint/tsan.h`.
            (&raw mut (*head.as_ptr()).function).write(Some(function));
            defer(domain, head.as_ptr().cast(), bytes, 0, run, options);
        }
        Ok(())
    })
}

/// Frees memory after a grace period, by `function`, or by `free(3)` if that is null.
///
/// # Safety
///
/// Any thread may call the function with `pointer` once, after a grace period.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_retire(
    domain: &AnyDomain,
    pointer: *mut c_void,
    bytes: usize,
    function: Option<Function>,
    flags: u32,
) -> c_int {
    /// # Safety
    ///
    /// That of `free(3)`.
    unsafe fn free(pointer: *mut ()) {
        // SAFETY: the caller's contract.
        unsafe { libc::free(pointer.cast()) };
    }
    boundary::run(|| {
        let options = options(flags)?;
        match function {
            Some(_) if matches!(domain, AnyDomain::Hazard) => {
                let what = "with a function in the domain of hazard pointers: use sp_call_head";
                Err(misuse("sp_retire", what, libc::EINVAL))
            }
            // SAFETY: the caller's contract.
            Some(function) => unsafe { defer_call(domain, function, pointer, bytes, options) },
            None => {
                // SAFETY: the caller's contract. `free` runs no code of the program, so any thread may.
                unsafe { defer(domain, pointer.cast(), bytes, 0, free, options.run_on_retiring_thread()) };
                Ok(())
            }
        }
    })
}
