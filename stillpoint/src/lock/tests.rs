//! Tests of what the public API does not show.

use std::thread;
use std::time::Duration;

use super::nodes::{CAPACITY, Node, table};
use super::{Mutex, RawMutex};
use crate::deadline::deadline;

/// All free nodes, until dropped. Other tests of this process wait without nodes meanwhile.
struct AllNodes(Vec<u32>);

impl AllNodes {
    fn alloc() -> Self {
        let all = Self(std::iter::from_fn(|| table().alloc()).collect());
        assert!(all.0.len() > CAPACITY / 2);
        all
    }
}

impl Drop for AllNodes {
    fn drop(&mut self) {
        self.0.iter().for_each(|&id| table().free(id));
    }
}

#[test]
fn lock_without_free_nodes_excludes_and_times_out() {
    let _running = deadline();
    let _all = AllNodes::alloc();
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
fn node_takes_a_cache_line_and_lock_four_bytes() {
    assert_eq!(size_of::<Node>(), 64);
    assert_eq!(size_of::<RawMutex>(), 4);
}
