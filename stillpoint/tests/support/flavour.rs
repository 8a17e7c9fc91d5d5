//! A domain of each kind, for tests of what all have.

use stillpoint::{Domain, qsbr, srcu};

stillpoint::domain! { pub struct Threads; }
qsbr::domain! { pub struct Reporting; }

pub trait Flavour: Domain<Hazards = ()> {
    fn make() -> Self;
    fn within<R>(&self, f: impl FnOnce(&Self::Section) -> R) -> R;
}

impl Flavour for Threads {
    fn make() -> Self {
        Self
    }

    fn within<R>(&self, f: impl FnOnce(&Self::Section) -> R) -> R {
        f(&Self::enter())
    }
}

impl Flavour for Reporting {
    fn make() -> Self {
        Self
    }

    fn within<R>(&self, f: impl FnOnce(&Self::Section) -> R) -> R {
        f(&Self::register())
    }
}

impl Flavour for srcu::Domain {
    fn make() -> Self {
        Self::new()
    }

    fn within<R>(&self, f: impl FnOnce(&Self::Section) -> R) -> R {
        f(&self.enter())
    }
}
