//! Random programs of read-side critical sections, grace periods and deferred callbacks, in each flavour: waits end,
//! and callbacks run, after the sections that they wait for, and not before.

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

/// A domain of `srcu`, and guards that any thread may take.
struct Sleepable {
    domain: srcu::Domain,
    given: Mutex<Vec<Held<srcu::OwnedGuard>>>,
}

impl Flavor for Sleepable {
    type Domain = srcu::Domain;
    type Guard = srcu::OwnedGuard;

    const SECTIONS: Sections = Sections::Many;

    fn new() -> Self {
        Self { domain: srcu::Domain::new(), given: Mutex::default() }
    }

    fn domain(&self) -> srcu::Domain {
        self.domain.clone()
    }

    fn enter(&self) -> srcu::OwnedGuard {
        self.domain.enter_owned()
    }

    fn section(guard: &srcu::OwnedGuard) -> &srcu::Section {
        guard
    }

    fn give(&self, held: Held<srcu::OwnedGuard>) -> Option<Held<srcu::OwnedGuard>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        None
    }

    fn take(&self) -> Option<Held<srcu::OwnedGuard>> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        (!given.is_empty()).then(|| given.remove(0))
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

macro_rules! programs_of {
    ($($flavor:ident $(by $define:ident)?: $fuzz:ident, $holds:ident, $broken:ident;)+) => {$(
        #[cfg(fuzzing)]
        pub fn $fuzz(data: &[u8]) {
            $($define!($flavor);)?
            fuzz::<$flavor>(data);
        }

        #[test]
        fn $holds() {
            $($define!($flavor);)?
            programs_match_the_model::<$flavor>();
        }

        #[test]
        fn $broken() {
            $($define!($flavor);)?
            broken_flavors_are_found::<$flavor>();
        }
    )+};
}

programs_of! {
    Own by rcu_flavor: fuzz_rcu, rcu_programs_match_the_model, broken_rcu_is_found;
    Own by qsbr_flavor: fuzz_qsbr, qsbr_programs_match_the_model, broken_qsbr_is_found;
    Sleepable: fuzz_srcu, srcu_programs_match_the_model, broken_srcu_is_found;
}
