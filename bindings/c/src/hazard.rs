//! Hazard pointers.
//!
//! `stillpoint.h` contains what protects and resets, as inline functions: those of `Slot` in `slots/slot.rs` of the
//! library.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use stillpoint::hazard::foreign::RawHazardPointer;

use crate::boundary::{self, Error};
use crate::domain::AnyDomain;

static HAZARD: AnyDomain = AnyDomain::Hazard;

// As the header says.
const _: () = assert!(size_of::<RawHazardPointer>() == 8);

/// Returns the domain of hazard pointers.
#[unsafe(no_mangle)]
pub extern "C" fn sp_hazard_domain() -> &'static AnyDomain {
    &HAZARD
}

/// Makes a hazard pointer.
#[unsafe(no_mangle)]
pub extern "C" fn sp_hazard_init(hazard: &mut MaybeUninit<RawHazardPointer>) -> c_int {
    boundary::run(|| {
        hazard.write(RawHazardPointer::new().ok_or(Error(libc::ENOMEM))?);
        Ok(())
    })
}

/// Gives a hazard pointer back.
///
/// # Safety
///
/// It comes from `sp_hazard_init`, and no other thread uses it; or it has been given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_hazard_destroy(hazard: &mut RawHazardPointer) {
    // SAFETY: the caller's contract.
    unsafe { hazard.destroy() };
}
