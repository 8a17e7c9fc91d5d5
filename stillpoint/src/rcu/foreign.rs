//! What the package `stillpoint-capi` needs to give C and C++ the domain [`Global`]. No stable interface.
//!
//! C code that includes `stillpoint.h` contains the fast paths of `Reader`. It finds the thread's reader in a
//! thread-local variable of its own, which begins with [`ThreadWords`].

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::panic::Location;
use core::ptr::{self, NonNull};
use core::{fmt, mem};

use super::{Global, GracePeriod, Guard};
use crate::Domain;
use crate::domain::static_domain::StaticDomain as _;
use crate::domain::thread::{KeepReader, register, registered_reader};
use crate::grace_period::engine::GpCookie;
use crate::grace_period::stall;
use crate::readers::sections::reader::Reader;
use crate::readers::sections::registration::unregistered;
use crate::reclaim::callback::is_running;
use crate::reclaim::domain::address;
use crate::sync::AtomicU64;

pub use crate::grace_period::stall::set_plain_stall_hook;
pub use crate::readers::sections::registration::{UNREGISTERED, Unregistered};

/// The beginning of the thread-local variable. Initially `reader` is the address of [`UNREGISTERED`].
#[repr(C)]
pub struct ThreadWords {
    reader: Cell<&'static Reader>,
    /// Not null if `reader` is the thread's own.
    counter: Cell<*const AtomicU64>,
}

impl fmt::Debug for ThreadWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadWords").finish_non_exhaustive()
    }
}

/// Registers the calling thread, if it is not, and keeps `words` up to date from now on.
///
/// # Errors
///
/// Returns the reason if the thread cannot be registered.
///
/// # Safety
///
/// `words` are in a thread-local variable of the calling thread, and exist until it ends.
#[track_caller]
pub unsafe fn register_thread(words: NonNull<ThreadWords>) -> Result<(), &'static str> {
    if registered_reader::<Global>().is_none() {
        register::<Global>(Location::caller())?;
    }
    // SAFETY: the caller's contract.
    let ThreadWords { reader, counter } = unsafe { words.as_ref() };
    // First, so that a signal handler that finds the reader finds the counter.
    counter.set(ptr::from_ref(Global::shared().readers().counter()));
    // SAFETY: the caller's contract.
    Global::with_thread_state(|local| unsafe { local.registration.copy_fast_to(reader.into()) });
    Ok(())
}

/// [`register_thread`] outside of sections.
///
/// # Errors
///
/// As for [`register_thread`].
///
/// # Safety
///
/// As for [`register_thread`].
#[track_caller]
pub unsafe fn register_outside(words: NonNull<ThreadWords>) -> Result<(), &'static str> {
    // A signal handler whose section ends meanwhile does not release the reader.
    let _stays = KeepReader::<Global>::if_ended();
    // SAFETY: the caller's contract.
    unsafe { register_thread(words) }
}

/// Begins a section of [`Global`], where the fast path does not.
///
/// # Errors
///
/// As for [`register_thread`].
///
/// # Safety
///
/// As for [`register_thread`].
#[track_caller]
pub unsafe fn read_lock_slow(words: NonNull<ThreadWords>) -> Result<(), &'static str> {
    // A signal handler whose section ends here does not release the reader.
    let _stays = KeepReader::<Global>::if_ended();
    // SAFETY: the caller's contract.
    unsafe { register_thread(words) }?;
    mem::forget(Global::enter());
    Ok(())
}

/// Returns a guard of the section that the calling thread is inside of, without looking for its reader: for lookups,
/// which need the guard's lifetime only.
///
/// # Safety
///
/// The calling thread stays inside a section of [`Global`] while the guard is used. The guard is neither dropped nor
/// passed to [`Guard::repin`].
pub unsafe fn assume_section() -> ManuallyDrop<Guard<Global>> {
    ManuallyDrop::new(Guard::new(unregistered()))
}

/// Ends a section of [`Global`]. Returns `false` if the calling thread has none.
///
/// # Safety
///
/// If the calling thread is inside a section, the fast path or [`read_lock_slow`] has begun it, not a [`Guard`], and
/// no reference that it protects is used any more.
pub unsafe fn read_unlock() -> bool {
    let own = registered_reader::<Global>().filter(|own| own.in_read_section());
    own.map(|own| drop(Guard::<Global>::new(own))).is_some()
}

/// The slow path of the end of a section, which the fast path has ended.
///
/// # Safety
///
/// The fast path of the calling thread has just ended a section, and found that its reader asks for this.
pub unsafe fn exit_slow() {
    if let Some(own) = registered_reader::<Global>() {
        super::guard::exit_slow::<Global>(own);
    }
}

/// Returns `true` if [`fence::light`](crate::fence::light) is a compiler fence from now on.
pub fn light_is_compiler_fence() -> bool {
    crate::fence::light_is_compiler_fence()
}

/// Returns why a wait for a grace period of `domain` would never return here, if that is known.
pub fn why_not_wait<D: Domain>(domain: &D) -> Option<&'static str> {
    if domain.in_read_section() {
        Some(domain.inside())
    } else if stall::is_reporting() {
        Some("in a stall hook: the grace period that stalls waits for the hook; wait in another thread")
    } else {
        None
    }
}

/// Returns `true` in a callback of `domain`.
pub fn in_callback_of<D: Domain>(domain: &D) -> bool {
    is_running(address(domain))
}

/// A [`GracePeriod`] without its domain.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct RawCookie(GpCookie);

impl RawCookie {
    /// Returns the cookie of a grace period.
    pub fn of<D: Domain>(period: &GracePeriod<D>) -> Self {
        Self(period.cookie)
    }

    /// Returns the grace period.
    ///
    /// # Safety
    ///
    /// `domain` is the one of which the cookie was taken.
    pub unsafe fn in_domain<D: Domain>(self, domain: D) -> GracePeriod<D> {
        GracePeriod { cookie: self.0, domain }
    }
}
