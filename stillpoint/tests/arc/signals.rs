//! Signal handlers that load at any moment of the interrupted thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;

use libc::c_int;
use stillpoint::arc::ArcCell;
use support::deadline::deadline;
use support::signals::{install, send};

static CELL: ArcCell<Option<Arc<[usize; 2]>>> = ArcCell::empty();
static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// Loads that saw half a value: a handler cannot panic.
static WRONG: AtomicUsize = AtomicUsize::new(0);

fn check(value: &Option<Arc<[usize; 2]>>) {
    if value.as_ref().is_some_and(|value| value[0].wrapping_add(value[1]) != 0) {
        WRONG.fetch_add(1, Relaxed);
    }
}

extern "C" fn load(_signal: c_int) {
    let first = CELL.load();
    let second = CELL.load();
    check(&first);
    drop(first);
    check(&second);
    HANDLED.fetch_add(1, Release);
}

#[test]
#[cfg_attr(miri, ignore = "no signals")]
fn signal_handlers_may_load_at_any_moment() {
    static READY: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    let _running = deadline();
    // The thread is registered.
    let signal = install(2, load);
    let reader = thread::spawn(|| {
        drop([(); 20].map(|()| CELL.load()));
        READY.store(true, Release);
        let mut kept = Vec::with_capacity(16);
        while !STOP.load(Relaxed) || HANDLED.load(Acquire) < 100 {
            let guard = CELL.load();
            check(&guard);
            kept.push(guard);
            if kept.len() == 12 {
                kept.clear();
            }
        }
    });
    while !READY.load(Acquire) {
        thread::yield_now();
    }
    // A handler must not free.
    let mut values = Vec::new();
    for number in 1_usize..2000 {
        send(signal, &reader);
        values.push(Arc::new([number, number.wrapping_neg()]));
        CELL.store(values.last().cloned());
    }
    STOP.store(true, Relaxed);
    while !reader.is_finished() {
        send(signal, &reader);
        thread::yield_now();
    }
    reader.join().unwrap();
    assert_eq!(WRONG.load(Relaxed), 0);
    CELL.store(None);
    assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
}
