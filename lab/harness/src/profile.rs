//! The CPUs on which cells are measured: as many as there are, or one, as in a container with one CPU.

use std::sync::OnceLock;

use super::pin;

/// Returns the CPUs of the process, also while it is bound to one of them.
pub fn cpus() -> anyhow::Result<&'static [usize]> {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    let allowed = pin::allowed()?;
    Ok(CPUS.get_or_init(|| allowed))
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    All,
    One,
}

impl Profile {
    /// The parameter that names it.
    pub const PARAMETER: &str = "profile";

    /// Returns the profiles of this machine, of which one CPU has one.
    pub fn every() -> anyhow::Result<&'static [Self]> {
        Ok(if cpus()?.len() > 1 { &[Self::All, Self::One] } else { &[Self::One] })
    }

    /// Returns the profile in which a cell is measured now.
    pub fn now() -> anyhow::Result<Self> {
        Ok(if pin::allowed()?.len() > 1 { Self::All } else { Self::One })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::One => "one",
        }
    }

    /// Binds all threads of the process to the CPUs of the profile, until the result is dropped.
    pub(super) fn bind(self) -> anyhow::Result<Option<Bound>> {
        let all = cpus()?;
        if self == Self::All || all.len() == 1 {
            return Ok(None);
        }
        pin::all_threads_to(&all[..1])?;
        Ok(Some(Bound(all)))
    }
}

/// Threads that are bound to one CPU.
#[derive(Debug)]
pub(super) struct Bound(&'static [usize]);

impl Drop for Bound {
    fn drop(&mut self) {
        // What was allowed before is allowed still, unless the CPU has gone: then the system has chosen others.
        let _ = pin::all_threads_to(self.0);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Other tests bind no threads until the result is dropped.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        cpus().expect("CPUs");
        alone
    }

    #[test]
    fn profile_of_one_cpu_binds_threads_and_releases_them() {
        let _alone = alone();
        let before = pin::allowed().expect("CPUs");
        let bound = Profile::One.bind().expect("it may use the CPU");
        let within = std::thread::spawn(pin::allowed).join().expect("no panic").expect("CPUs");
        drop(bound);
        assert_eq!((within, pin::allowed().expect("CPUs")), (before[..1].to_vec(), before));
    }
}
