//! Reader-writer locks: ours, the standard library's, two versions of parking_lot's, and crossbeam's array of locks.

use std::sync::PoisonError;

use super::{Lock, ReadSide, VALUE, read_side};
use harness::report::OURS;

/// Implements [`ReadSide`] and [`Lock`] for a lock whose methods return guards.
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

        impl Lock for $lock<u64> {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self::new(0)
            }

            #[inline]
            fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut *$guarded(self.write()))
            }

            #[inline]
            fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
                f(&*$guarded(self.read()))
            }
        }
    };
}

fn unpoisoned<G>(guard: Result<G, PoisonError<G>>) -> G {
    guard.unwrap_or_else(PoisonError::into_inner)
}

use ::parking_lot::{RwLock as ParkingLot13, RwLockReadGuard as ParkingLot13Guard};
use ::parking_lot_12::{RwLock as ParkingLot12, RwLockReadGuard as ParkingLot12Guard};
use ::std::sync::{RwLock as Std, RwLockReadGuard as StdGuard};
use ::stillpoint::lock::{RwLock as Ours, RwLockReadGuard as OursGuard};
use crossbeam_utils::sync::{ShardedLock as Sharded, ShardedLockReadGuard as ShardedGuard};

rwlock!(OurReaders, Ours, OursGuard, OURS, core::convert::identity);
rwlock!(StdReaders, Std, StdGuard, "std", unpoisoned);
rwlock!(ParkingLot12Readers, ParkingLot12, ParkingLot12Guard, "parking_lot-0.12", core::convert::identity);
rwlock!(ParkingLot13Readers, ParkingLot13, ParkingLot13Guard, "parking_lot-0.13", core::convert::identity);
rwlock!(ShardedReaders, Sharded, ShardedGuard, "sharded", unpoisoned);
