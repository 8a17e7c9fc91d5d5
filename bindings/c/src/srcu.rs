//! Readers of sleepable domains.

use core::ffi::c_int;

use crate::boundary::{self, misuse};
use crate::domain::AnyDomain;

/// Begins a section. Returns its number, which is not negative.
#[unsafe(no_mangle)]
pub extern "C" fn sp_srcu_read_lock(domain: &AnyDomain) -> c_int {
    let AnyDomain::Srcu(domain) = domain else {
        let wrong = || Err(misuse("sp_srcu_read_lock", "of a domain that is not sleepable", libc::EINVAL));
        return boundary::catch(wrong);
    };
    // `sp_srcu_create` has allocated what it needs, so it does not panic.
    domain.enter_raw() as c_int
}

/// Ends a section.
///
/// # Safety
///
/// `sp_srcu_read_lock` of the domain returned `section`, which has not been ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_srcu_read_unlock(domain: &AnyDomain, section: c_int) -> c_int {
    match (domain, u64::try_from(section)) {
        (AnyDomain::Srcu(domain), Ok(section @ 0..=1)) => {
            // SAFETY: the caller's contract.
            unsafe { domain.exit_raw(section) };
            0
        }
        _ => boundary::catch(|| Err(misuse("sp_srcu_read_unlock", "of what is not a section", libc::EINVAL))),
    }
}
