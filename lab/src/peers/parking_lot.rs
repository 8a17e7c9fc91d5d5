//! Mutexes in the shape of parking_lot's: two versions of it, and usync.

use super::Lock;

macro_rules! lock {
    ($type:ty, $name:literal) => {
        impl Lock for $type {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self::new(0)
            }

            #[inline]
            fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut self.lock())
            }
        }
    };
}

lock!(parking_lot_12::Mutex<u64>, "parking_lot-0.12");
lock!(parking_lot::Mutex<u64>, "parking_lot-0.13");
lock!(usync::Mutex<u64>, "usync");
