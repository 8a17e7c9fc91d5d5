//! Mutexes in the shape of parking_lot's: two versions of it, and usync.

use super::{Lock, lock};

lock!(parking_lot_12::Mutex<u64>, "parking_lot-0.12");
lock!(parking_lot::Mutex<u64>, "parking_lot-0.13");
lock!(usync::Mutex<u64>, "usync");
