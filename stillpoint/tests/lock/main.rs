//! Tests of the locks through their public API.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

mod condvar;
mod mutex;
mod rwlock;

#[test]
fn locks_are_small() {
    use stillpoint::lock::{Condvar, Mutex, RawMutex, RawRwLock};
    let sizes =
        [size_of::<RawMutex>(), size_of::<Mutex<u32>>(), size_of::<RawRwLock>(), size_of::<Condvar>()];
    assert_eq!(sizes, [4, 8, 56, 16]);
}
