//! Random programs of read-side critical sections, grace periods and deferred callbacks, in each flavour: waits end,
//! and callbacks run, after the sections that they wait for, and not before.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::gp_model::GpModel;
use crate::grace::{Broken, Flavor, Held, Sections, TestSystem, ops};
use crate::program::{How, holds, is_found};
use stillpoint::{qsbr, rcu, srcu};

/// Implements a flavour whose domains are types.
macro_rules! static_flavor {
    ($name:ident, $sections:ident, $guard:ty, $enter:ident, $($renew:tt)*) => {
        impl Flavor for $name {
            type Domain = Self;
            type Guard = $guard;

            const SECTIONS: Sections = Sections::$sections;

            fn new() -> Self {
                Self
            }

            fn domain(&self) -> Self {
                Self
            }

            fn enter(&self) -> $guard {
                Self::$enter()
            }

            fn section(guard: &$guard) -> &$guard {
                guard
            }

            $($renew)*
        }
    };
}

macro_rules! rcu_flavor {
    ($name:ident) => {
        stillpoint::domain! { struct $name; }
        static_flavor! {
            $name, Nested, rcu::Guard<Self>, enter,
            fn renew(guard: &mut Self::Guard) {
                guard.repin();
            }
        }
    };
}

macro_rules! qsbr_flavor {
    ($name:ident) => {
        stillpoint::qsbr_domain! { struct $name; }
        static_flavor! {
            $name, One, qsbr::Handle<Self>, register,
            fn renew(guard: &mut Self::Guard) {
                guard.quiescent();
            }

            fn offline(guard: &mut Self::Guard, f: impl FnOnce()) {
                guard.offline(f);
            }
        }
    };
}

/// A domain of `srcu`, with a handle that guards borrow.
struct Sleepable {
    domain: srcu::Domain,
    lender: &'static srcu::Domain,
    given: Mutex<Vec<Held<srcu::Guard<'static>>>>,
}

impl Flavor for Sleepable {
    type Domain = srcu::Domain;
    type Guard = srcu::Guard<'static>;

    const SECTIONS: Sections = Sections::Many;

    fn new() -> Self {
        let domain = srcu::Domain::new();
        Self { lender: Box::leak(Box::new(domain.clone())), domain, given: Mutex::default() }
    }

    fn domain(&self) -> srcu::Domain {
        self.domain.clone()
    }

    fn enter(&self) -> srcu::Guard<'static> {
        self.lender.enter()
    }

    fn section<'a>(guard: &'a srcu::Guard<'static>) -> &'a srcu::Section {
        guard
    }

    fn give(&self, held: Held<srcu::Guard<'static>>) -> Option<Held<srcu::Guard<'static>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        None
    }

    fn take(&self) -> Option<Held<srcu::Guard<'static>>> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        (!given.is_empty()).then(|| given.remove(0))
    }
}

impl Drop for Sleepable {
    fn drop(&mut self) {
        // SAFETY: the guards that borrow it are dropped, or out of reach.
        drop(unsafe { Box::from_raw(ptr::from_ref(self.lender).cast_mut()) });
    }
}

fn programs_match_the_model<K: Flavor>() {
    holds(ops(), |how| (TestSystem::<K>::new(how == How::Freely, None), GpModel::new(K::SECTIONS)));
}

/// Breaks the flavour in each way, and expects the matching failure.
fn broken_flavors_are_found<K: Flavor>() {
    let early = ["run too early", "dropped while it is read"];
    for (broken, words) in [
        (Broken::Wait, ["has ended too early", "that a thread has waited for"]),
        (Broken::Call, early),
        (Broken::Retire, early),
    ] {
        is_found(&words, 8, ops, |_| (TestSystem::<K>::new(false, Some(broken)), GpModel::new(K::SECTIONS)));
    }
}

#[cfg(fuzzing)]
fn fuzz<K: Flavor>(data: &[u8]) {
    let broken = crate::program::is_broken().then_some(Broken::Wait);
    crate::program::fuzz(data, ops(), |how| {
        (TestSystem::<K>::new(how == How::Freely, broken), GpModel::new(K::SECTIONS))
    });
}

#[cfg(fuzzing)]
pub fn fuzz_rcu(data: &[u8]) {
    rcu_flavor!(Own);
    fuzz::<Own>(data);
}

#[cfg(fuzzing)]
pub fn fuzz_qsbr(data: &[u8]) {
    qsbr_flavor!(Own);
    fuzz::<Own>(data);
}

#[cfg(fuzzing)]
pub fn fuzz_srcu(data: &[u8]) {
    fuzz::<Sleepable>(data);
}

#[test]
fn rcu_programs_match_the_model() {
    rcu_flavor!(Own);
    programs_match_the_model::<Own>();
}

#[test]
fn qsbr_programs_match_the_model() {
    qsbr_flavor!(Own);
    programs_match_the_model::<Own>();
}

#[test]
fn srcu_programs_match_the_model() {
    programs_match_the_model::<Sleepable>();
}

#[test]
fn broken_rcu_is_found() {
    rcu_flavor!(Own);
    broken_flavors_are_found::<Own>();
}

#[test]
fn broken_qsbr_is_found() {
    qsbr_flavor!(Own);
    broken_flavors_are_found::<Own>();
}

#[test]
fn broken_srcu_is_found() {
    broken_flavors_are_found::<Sleepable>();
}
