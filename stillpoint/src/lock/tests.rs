//! What needs a look behind the public API.

use std::thread;
use std::time::Duration;

use super::table::{SLOTS, table};
use super::{Mutex, RawMutex};
use crate::deadline::deadline;

/// Slots that nobody else can have, given back when dropped. Other tests of this process wait outside meanwhile.
struct All(Vec<u32>);

impl All {
    fn lease() -> Self {
        let all = Self(std::iter::from_fn(|| table().lease()).collect());
        assert!(all.0.len() > SLOTS / 2);
        all
    }
}

impl Drop for All {
    fn drop(&mut self) {
        self.0.iter().for_each(|&slot| table().give_back(slot));
    }
}

#[test]
fn when_all_slots_are_in_use_threads_exclude_each_other_none_sleeps_for_ever_and_timeouts_work() {
    let _running = deadline();
    let _all = All::lease();
    let total = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..500 {
                    *total.lock() += 1;
                    if n % 16 == 0 {
                        let guard = total.lock();
                        thread::yield_now();
                        drop(guard);
                    }
                }
            });
        }
    });
    let guard = total.lock();
    thread::scope(|scope| {
        scope.spawn(|| assert!(total.try_lock_for(Duration::from_millis(5)).is_none()));
    });
    assert_eq!(*guard, 4000);
}

#[test]
fn a_node_takes_a_cache_line_and_a_lock_four_bytes() {
    assert_eq!(size_of::<super::table::Node>(), 64);
    assert_eq!(size_of::<RawMutex>(), 4);
}
