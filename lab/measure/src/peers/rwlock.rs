//! Reader-writer locks: ours, the standard library's, two versions of parking_lot's, and an array of mutexes.

use std::sync::PoisonError;

use crossbeam_utils::CachePadded;
use stillpoint::percpu;

use super::{ReadSide, VALUE, read_side};
use harness::report::OURS;

/// A reader-writer lock around a number.
pub trait SharedLock: Sync {
    /// Name in the report.
    const NAME: &'static str;

    fn new() -> Self;

    /// Calls `f` with the lock held for reading.
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R;

    /// Calls `f` with the lock held for writing.
    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

/// A lock as in Linux's `brlock` and `lglock`: a mutex for each CPU. A reader takes that of its CPU, a writer all.
pub struct Brlock<T> {
    mutexes: Box<[CachePadded<parking_lot::Mutex<()>>]>,
    data: std::cell::UnsafeCell<T>,
}

// SAFETY: the mutexes protect the data: a writer holds all of them, a reader one.
unsafe impl<T: Send + Sync> Sync for Brlock<T> {}

impl<T> Brlock<T> {
    fn new(value: T) -> Self {
        let mutexes = (0..percpu::report().cpus()).map(|_| CachePadded::default()).collect();
        Self { mutexes, data: std::cell::UnsafeCell::new(value) }
    }

    #[inline]
    fn read(&self) -> (parking_lot::MutexGuard<'_, ()>, &T) {
        let guard = self.mutexes[percpu::cpu()].lock();
        // SAFETY: the guard keeps writers out as long as the caller keeps it.
        (guard, unsafe { &*self.data.get() })
    }
}

/// Implements [`ReadSide`] and [`SharedLock`] for a lock whose methods return guards.
macro_rules! rwlock {
    ($readers:ident, $lock:ident, $guard:ident, $name:expr, $guarded:expr) => {
        pub struct $readers($lock<Box<u64>>);

        read_side!(
            $readers,
            $name,
            $guard<'a, Box<u64>>,
            Self($lock::new(Box::new(VALUE))),
            |this| $guarded(this.0.read()),
            |_this, guard| ***guard
        );

        impl SharedLock for $lock<u64> {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self::new(0)
            }

            #[inline]
            fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
                f(&*$guarded(self.read()))
            }

            #[inline]
            fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut *$guarded(self.write()))
            }
        }
    };
}

use ::parking_lot::{RwLock as ParkingLot13, RwLockReadGuard as ParkingLot13Guard};
use ::parking_lot_12::{RwLock as ParkingLot12, RwLockReadGuard as ParkingLot12Guard};
use ::std::sync::{RwLock as Std, RwLockReadGuard as StdGuard};
use ::stillpoint::lock::{RwLock as Ours, RwLockReadGuard as OursGuard};

rwlock!(OurReaders, Ours, OursGuard, OURS, core::convert::identity);
rwlock!(StdReaders, Std, StdGuard, "std", |guard: Result<_, PoisonError<_>>| guard
    .unwrap_or_else(PoisonError::into_inner));
rwlock!(ParkingLot12Readers, ParkingLot12, ParkingLot12Guard, "parking_lot-0.12", core::convert::identity);
rwlock!(ParkingLot13Readers, ParkingLot13, ParkingLot13Guard, "parking_lot-0.13", core::convert::identity);

pub struct BrlockReaders(Brlock<Box<u64>>);

read_side!(
    BrlockReaders,
    "brlock",
    (parking_lot::MutexGuard<'a, ()>, &'a Box<u64>),
    Self(Brlock::new(Box::new(VALUE))),
    |this| this.0.read(),
    |_this, guard| **guard.1
);

impl SharedLock for Brlock<u64> {
    const NAME: &'static str = "brlock";

    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
        let (_guard, value) = self.read();
        f(value)
    }

    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let _guards: Vec<_> = self.mutexes.iter().map(|mutex| mutex.lock()).collect();
        // SAFETY: all mutexes are held.
        f(unsafe { &mut *self.data.get() })
    }
}
