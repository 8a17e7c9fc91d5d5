//! Domains, and what they all can do: wait, take cookies, report statistics.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::time::Duration;

use stillpoint::rcu::foreign::{self, RawCookie};
use stillpoint::rcu::{GracePeriod, Limits, Stats};
use stillpoint::{Domain, srcu};

use crate::boundary::{self, Error, misuse};

/// `struct sp_domain`.
#[derive(Debug)]
pub enum AnyDomain {
    Rcu,
    Qsbr,
    Hazard,
    Srcu(srcu::Domain),
}

static RCU: AnyDomain = AnyDomain::Rcu;
static QSBR: AnyDomain = AnyDomain::Qsbr;

/// Evaluates `$body` with `$domain`, an [`AnyDomain`], replaced by what it is.
macro_rules! with {
    ($domain:ident => $body:expr) => {
        match $domain {
            $crate::domain::AnyDomain::Rcu => {
                let $domain = &stillpoint::rcu::Global;
                $body
            }
            $crate::domain::AnyDomain::Qsbr => {
                let $domain = &stillpoint::qsbr::Global;
                $body
            }
            $crate::domain::AnyDomain::Hazard => {
                let $domain = &stillpoint::hazard::Global;
                $body
            }
            $crate::domain::AnyDomain::Srcu($domain) => $body,
        }
    };
}
pub(crate) use with;

/// `struct sp_cookie`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Cookie([MaybeUninit<u64>; 2]);

const _: () =
    assert!(size_of::<RawCookie>() <= size_of::<Cookie>() && align_of::<RawCookie>() <= align_of::<Cookie>());

impl Cookie {
    /// Returns the cookie that `take` takes.
    fn of<D: Domain>(domain: &D, take: fn(D) -> GracePeriod<D>) -> Self {
        let period = take(domain.clone());
        let mut cookie = Self([MaybeUninit::new(0); 2]);
        // SAFETY: it has the size and the alignment.
        unsafe { cookie.0.as_mut_ptr().cast::<RawCookie>().write(RawCookie::of(&period)) };
        cookie
    }

    /// # Safety
    ///
    /// The cookie comes from [`of`](Self::of), for this domain.
    unsafe fn in_domain<D: Domain>(self, domain: &D) -> GracePeriod<D> {
        // SAFETY: the caller's contract.
        unsafe { self.0.as_ptr().cast::<RawCookie>().read().in_domain(domain.clone()) }
    }
}

/// `struct sp_stats`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CStats {
    grace_periods: u64,
    callers: u64,
    heavy_fences: u64,
    sleeps: u64,
    wakeups: u64,
    longest_wait_ns: u64,
    stalls: u64,
    readers: u64,
    queued: u64,
    queued_bytes: u64,
    oldest_ns: u64,
    done: u64,
    limit_waits: u64,
    limit_overruns: u64,
    panics: u64,
    waiting_ns: u64,
    waits: [u64; 7],
    protected: u64,
    _reserved: [u64; 4],
}

// As the header says.
const _: () = assert!(size_of::<Cookie>() == 16 && size_of::<CStats>() == 224);

/// Returns nanoseconds, for at most 500 years.
pub fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Returns an error if a wait here would never return.
fn check_wait<D: Domain>(domain: &D, function: &str) -> Result<(), Error> {
    match foreign::why_not_wait(domain) {
        Some(why) => Err(misuse(function, why, libc::EDEADLK)),
        None => Ok(()),
    }
}

/// Returns the domain of `sp_rcu_read_lock`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_rcu_domain() -> &'static AnyDomain {
    &RCU
}

/// Returns the domain of `sp_qsbr_register`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_qsbr_domain() -> &'static AnyDomain {
    &QSBR
}

/// Blocks until a grace period has elapsed.
#[unsafe(no_mangle)]
pub extern "C" fn sp_synchronize(domain: &AnyDomain) -> c_int {
    boundary::run(|| {
        with!(domain => {
            check_wait(domain, "sp_synchronize")?;
            Domain::synchronize(domain);
        });
        Ok(())
    })
}

/// Blocks until all callbacks have run that were deferred before.
#[unsafe(no_mangle)]
pub extern "C" fn sp_barrier(domain: &AnyDomain) -> c_int {
    boundary::run(|| {
        with!(domain => {
            check_wait(domain, "sp_barrier")?;
            if foreign::in_callback_of(domain) {
                return Err(misuse("sp_barrier", "in a callback of the domain waits for itself", libc::EDEADLK));
            }
            Domain::barrier(domain);
        });
        Ok(())
    })
}

/// Runs or hands over what the calling thread has deferred. Returns 1 if any is left.
#[unsafe(no_mangle)]
pub extern "C" fn sp_flush(domain: &AnyDomain) -> c_int {
    boundary::catch(|| Ok(with!(domain => Domain::flush(domain)).into()))
}

/// Takes a cookie.
#[unsafe(no_mangle)]
pub extern "C" fn sp_cookie_now(domain: &AnyDomain, cookie: &mut MaybeUninit<Cookie>) -> c_int {
    boundary::run(|| {
        cookie.write(with!(domain => Cookie::of(domain, GracePeriod::now_in)));
        Ok(())
    })
}

/// Takes a cookie and starts its grace period.
#[unsafe(no_mangle)]
pub extern "C" fn sp_cookie_start(domain: &AnyDomain, cookie: &mut MaybeUninit<Cookie>) -> c_int {
    boundary::run(|| {
        cookie.write(with!(domain => Cookie::of(domain, GracePeriod::start_in)));
        Ok(())
    })
}

/// Returns 1 if the grace period has ended.
///
/// # Safety
///
/// The cookie is one of the domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_cookie_elapsed(domain: &AnyDomain, cookie: Cookie) -> c_int {
    // SAFETY: the caller's contract.
    boundary::catch(|| Ok(with!(domain => unsafe { cookie.in_domain(domain) }.is_elapsed()).into()))
}

/// Blocks until the grace period has ended.
///
/// # Safety
///
/// The cookie is one of the domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_cookie_wait(domain: &AnyDomain, cookie: Cookie) -> c_int {
    boundary::run(|| {
        with!(domain => {
            check_wait(domain, "sp_cookie_wait")?;
            // SAFETY: the caller's contract.
            unsafe { cookie.in_domain(domain) }.wait();
        });
        Ok(())
    })
}

/// Blocks until the grace period has ended, for at most `timeout` nanoseconds.
///
/// # Safety
///
/// The cookie is one of the domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_cookie_wait_timeout(domain: &AnyDomain, cookie: Cookie, timeout: u64) -> c_int {
    boundary::run(|| {
        with!(domain => {
            check_wait(domain, "sp_cookie_wait_timeout")?;
            // SAFETY: the caller's contract.
            let period = unsafe { cookie.in_domain(domain) };
            period.wait_timeout(Duration::from_nanos(timeout)).then_some(()).ok_or(Error(libc::ETIMEDOUT))
        })
    })
}

/// Sets the limits of the backlog.
#[unsafe(no_mangle)]
pub extern "C" fn sp_set_limits(domain: &AnyDomain, count: u64, bytes: u64) -> c_int {
    boundary::run(|| {
        with!(domain => Domain::set_limits(domain, Limits { count, bytes, ..Limits::default() }));
        Ok(())
    })
}

/// Copies the counters.
#[unsafe(no_mangle)]
pub extern "C" fn sp_get_stats(domain: &AnyDomain, stats: &mut MaybeUninit<CStats>) -> c_int {
    boundary::run(|| {
        let now: Stats = with!(domain => Domain::stats(domain));
        stats.write(CStats {
            grace_periods: now.grace_periods,
            callers: now.callers,
            heavy_fences: now.heavy_fences,
            sleeps: now.sleeps,
            wakeups: now.wakeups,
            longest_wait_ns: nanoseconds(now.longest_wait),
            stalls: now.stalls,
            readers: now.readers,
            queued: now.queued,
            queued_bytes: now.queued_bytes,
            oldest_ns: nanoseconds(now.oldest),
            done: now.done,
            limit_waits: now.limit_waits,
            limit_overruns: now.limit_overruns,
            panics: now.panics,
            waiting_ns: nanoseconds(now.waiting),
            waits: now.waits,
            protected: now.protected,
            _reserved: [0; 4],
        });
        Ok(())
    })
}

/// Creates a domain of `stillpoint::srcu`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_srcu_create(domain: &mut MaybeUninit<NonNull<AnyDomain>>) -> c_int {
    boundary::run(|| {
        let fresh = srcu::Domain::new();
        if !fresh.try_prepare() {
            return Err(Error(libc::ENOMEM));
        }
        domain.write(boundary::boxed(AnyDomain::Srcu(fresh))?);
        Ok(())
    })
}

/// Drops the program's handle of a domain.
///
/// # Safety
///
/// `domain` is null or comes from `sp_srcu_create`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_srcu_destroy(domain: Option<NonNull<AnyDomain>>) -> c_int {
    boundary::run(|| {
        let Some(domain) = domain else { return Ok(()) };
        // SAFETY: the caller's contract.
        if !matches!(unsafe { domain.as_ref() }, AnyDomain::Srcu(_)) {
            return Err(misuse("sp_srcu_destroy", "of a domain that is static", libc::EINVAL));
        }
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(domain.as_ptr()) });
        Ok(())
    })
}
