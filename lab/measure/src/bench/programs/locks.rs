//! The locks of several libraries, under one set of names.

use std::convert::identity;
use std::ops::DerefMut;
use std::sync::PoisonError;
use std::time::Duration;

use harness::report::OURS;

/// Mutexes, condition variables and reader-writer locks of a library.
pub(super) trait Locks: Send + Sync + 'static {
    /// Name in the report.
    const NAME: &'static str;

    type Mutex<T: Send>: Send + Sync;
    type Guard<'a, T: Send + 'a>: DerefMut<Target = T>;
    type RwLock<T: Send + Sync>: Send + Sync;
    type Condvar: Default + Send + Sync;

    fn mutex<T: Send>(value: T) -> Self::Mutex<T>;
    fn lock<T: Send>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;
    /// std has no attempts with a time limit: it waits for the lock.
    fn try_lock_for<T: Send>(mutex: &Self::Mutex<T>, limit: Duration) -> Option<Self::Guard<'_, T>>;

    fn wait<'a, T: Send>(condvar: &Self::Condvar, guard: Self::Guard<'a, T>) -> Self::Guard<'a, T>;
    fn wait_for<'a, T: Send>(
        condvar: &Self::Condvar,
        guard: Self::Guard<'a, T>,
        limit: Duration,
    ) -> Self::Guard<'a, T>;
    fn notify_one(condvar: &Self::Condvar);
    fn notify_all(condvar: &Self::Condvar);

    fn rw_lock<T: Send + Sync>(value: T) -> Self::RwLock<T>;
    fn read<T: Send + Sync, R>(lock: &Self::RwLock<T>, f: impl FnOnce(&T) -> R) -> R;
    fn write<T: Send + Sync, R>(lock: &Self::RwLock<T>, f: impl FnOnce(&mut T) -> R) -> R;
}

/// Implements [`Locks`] for a library: its type here, its name, its module, what becomes of the result of a lock, and
/// the functions that differ.
macro_rules! locks {
    ($type:ident, $name:expr, $($module:ident)::+, $unpoisoned:expr, $($functions:item)*) => {
        pub(super) struct $type;

        impl Locks for $type {
            const NAME: &'static str = $name;

            type Mutex<T: Send> = $($module)::+::Mutex<T>;
            type Guard<'a, T: Send + 'a> = $($module)::+::MutexGuard<'a, T>;
            type RwLock<T: Send + Sync> = $($module)::+::RwLock<T>;
            type Condvar = $($module)::+::Condvar;

            fn mutex<T: Send>(value: T) -> Self::Mutex<T> {
                Self::Mutex::new(value)
            }

            fn lock<T: Send>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T> {
                $unpoisoned(mutex.lock())
            }

            fn notify_one(condvar: &Self::Condvar) {
                condvar.notify_one();
            }

            fn notify_all(condvar: &Self::Condvar) {
                condvar.notify_all();
            }

            fn rw_lock<T: Send + Sync>(value: T) -> Self::RwLock<T> {
                Self::RwLock::new(value)
            }

            fn read<T: Send + Sync, R>(lock: &Self::RwLock<T>, f: impl FnOnce(&T) -> R) -> R {
                let value = $unpoisoned(lock.read());
                f(&value)
            }

            fn write<T: Send + Sync, R>(lock: &Self::RwLock<T>, f: impl FnOnce(&mut T) -> R) -> R {
                let mut value = $unpoisoned(lock.write());
                f(&mut value)
            }

            $($functions)*
        }
    };
    // With the functions of `parking_lot`.
    ($type:ident, $name:expr, $($module:ident)::+) => {
        locks! {
            $type, $name, $($module)::+, identity,
            fn try_lock_for<T: Send>(mutex: &Self::Mutex<T>, limit: Duration) -> Option<Self::Guard<'_, T>> {
                mutex.try_lock_for(limit)
            }

            fn wait<'a, T: Send>(condvar: &Self::Condvar, mut guard: Self::Guard<'a, T>) -> Self::Guard<'a, T> {
                condvar.wait(&mut guard);
                guard
            }

            fn wait_for<'a, T: Send>(
                condvar: &Self::Condvar,
                mut guard: Self::Guard<'a, T>,
                limit: Duration,
            ) -> Self::Guard<'a, T> {
                condvar.wait_for(&mut guard, limit);
                guard
            }
        }
    };
}

fn unpoisoned<G>(result: Result<G, PoisonError<G>>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

locks!(Ours, OURS, stillpoint::lock);
locks!(Old, "parking_lot-0.12", parking_lot_12);
locks!(New, "parking_lot-0.13", parking_lot);
locks! {
    Std, "std", std::sync, unpoisoned,
    fn try_lock_for<T: Send>(mutex: &Self::Mutex<T>, _limit: Duration) -> Option<Self::Guard<'_, T>> {
        Some(unpoisoned(mutex.lock()))
    }

    fn wait<'a, T: Send>(condvar: &Self::Condvar, guard: Self::Guard<'a, T>) -> Self::Guard<'a, T> {
        unpoisoned(condvar.wait(guard))
    }

    fn wait_for<'a, T: Send>(
        condvar: &Self::Condvar,
        guard: Self::Guard<'a, T>,
        limit: Duration,
    ) -> Self::Guard<'a, T> {
        condvar.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }
}
