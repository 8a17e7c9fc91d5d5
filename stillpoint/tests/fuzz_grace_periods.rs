//! Random programs of sections, grace periods and deferred work, in each kind of domain: nothing ends or is freed before the
//! sections that it waits for, and then it does.
#![cfg(not(loom))]

#[path = "support/grace.rs"]
mod grace;
#[path = "support/panics.rs"]
mod panics;
#[path = "support/program.rs"]
mod program;
#[path = "support/rules.rs"]
mod rules;

use std::ptr;
use std::sync::{Mutex, PoisonError};

use grace::{Broken, Held, Kind, Sections, Stage, Value, ops};
use program::{How, holds, is_found};
use rules::Rules;
use stillpoint::Domain as _;
use stillpoint::{qsbr, rcu, srcu};

/// A kind whose domain is a type.
macro_rules! typed {
    ($name:ident, $domain:path, $sections:ident, $guard:ty, $enter:ident, $($renew:tt)*) => {
        impl Kind for $name {
            type World = Self;
            type Guard = $guard;

            const SECTIONS: Sections = Sections::$sections;

            fn new() -> Self {
                Self
            }

            fn world(&self) -> Self {
                Self
            }

            fn enter(&self) -> $guard {
                <Self as $domain>::$enter()
            }

            fn section(guard: &$guard) -> &$guard {
                guard
            }

            fn synchronize(&self) {
                stillpoint::Domain::synchronize(self);
            }

            fn call(&self, f: impl FnOnce() + Send + 'static) {
                stillpoint::Domain::call(self, f);
            }

            fn retire(&self, value: Box<Value>) {
                stillpoint::Domain::retire(self, value);
            }

            fn barrier(&self) {
                stillpoint::Domain::barrier(self);
            }

            $($renew)*
        }
    };
}

macro_rules! threads {
    ($name:ident) => {
        stillpoint::domain! { struct $name; }
        typed! {
            $name, rcu::RcuDomain, Nested, rcu::Guard<Self>, enter,
            fn renew(guard: &mut Self::Guard) {
                guard.repin();
            }
        }
    };
}

macro_rules! reports {
    ($name:ident) => {
        stillpoint::qsbr_domain! { struct $name; }
        typed! {
            $name, qsbr::QsbrDomain, One, qsbr::Handle<Self>, register,
            fn renew(guard: &mut Self::Guard) {
                guard.quiescent();
            }

            fn doze(guard: &mut Self::Guard, f: impl FnOnce()) {
                guard.offline(f);
            }
        }
    };
}

/// A domain that is a value, with a handle that guards borrow.
struct Sleepable {
    domain: srcu::Domain,
    lender: &'static srcu::Domain,
    given: Mutex<Vec<Held<srcu::Guard<'static>>>>,
}

impl Kind for Sleepable {
    type World = srcu::Domain;
    type Guard = srcu::Guard<'static>;

    const SECTIONS: Sections = Sections::Many;

    fn new() -> Self {
        let domain = srcu::Domain::new();
        Self { lender: Box::leak(Box::new(domain.clone())), domain, given: Mutex::default() }
    }

    fn world(&self) -> srcu::Domain {
        self.domain.clone()
    }

    fn enter(&self) -> srcu::Guard<'static> {
        self.lender.enter()
    }

    fn section<'a>(guard: &'a srcu::Guard<'static>) -> &'a srcu::Section {
        guard
    }

    fn synchronize(&self) {
        self.domain.synchronize();
    }

    fn call(&self, f: impl FnOnce() + Send + 'static) {
        self.domain.call(f);
    }

    fn retire(&self, value: Box<Value>) {
        self.domain.retire(value);
    }

    fn barrier(&self) {
        self.domain.barrier();
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
        // SAFETY: the guards that borrow it are gone, or cannot be got at.
        drop(unsafe { Box::from_raw(ptr::from_ref(self.lender).cast_mut()) });
    }
}

fn all_is_well<K: Kind>() {
    holds(ops(), |how| (Stage::<K>::new(how == How::Freely, None), Rules::new(K::SECTIONS)));
}

/// Each thing that can be broken, and what is then found.
fn what_is_broken_is_found<K: Kind>() {
    let early = ["done too early", "dropped while it is read"];
    for (broken, words) in [
        (Broken::Wait, ["has ended too early", "that somebody has waited for"]),
        (Broken::Call, early),
        (Broken::Retire, early),
    ] {
        is_found(&words, 8, ops, |_| (Stage::<K>::new(false, Some(broken)), Rules::new(K::SECTIONS)));
    }
}

#[test]
fn rcu_programs_match_the_model() {
    threads!(Own);
    all_is_well::<Own>();
}

#[test]
fn qsbr_programs_match_the_model() {
    reports!(Own);
    all_is_well::<Own>();
}

#[test]
fn srcu_programs_match_the_model() {
    all_is_well::<Sleepable>();
}

#[test]
fn broken_rcu_is_found() {
    threads!(Own);
    what_is_broken_is_found::<Own>();
}

#[test]
fn broken_qsbr_is_found() {
    reports!(Own);
    what_is_broken_is_found::<Own>();
}

#[test]
fn broken_srcu_is_found() {
    what_is_broken_is_found::<Sleepable>();
}
