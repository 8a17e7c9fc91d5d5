//! Signal handlers that make, use and drop hazard pointers at any moment of the interrupted thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;

use libc::c_int;
use stillpoint::Domain as _;
use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::RcuOption;
use support::deadline::deadline;
use support::signals::{install, send};

stillpoint::hazard::domain! { struct Own; }

static VALUE: RcuOption<[usize; 2], Own> = RcuOption::empty_in(Own);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// Values that were freed or half written: a handler cannot panic.
static WRONG: AtomicUsize = AtomicUsize::new(0);

fn check(value: Option<&[usize; 2]>) {
    if value.is_some_and(|value| value[0].wrapping_add(value[1]) != 0) {
        WRONG.fetch_add(1, Relaxed);
    }
}

extern "C" fn protect(_signal: c_int) {
    let [mut first, mut second] = HazardPointer::array();
    let seen = first.protect(&VALUE);
    check(second.protect(&VALUE));
    check(seen);
    HANDLED.fetch_add(1, Release);
}

#[test]
#[cfg_attr(miri, ignore = "no signals")]
fn signal_handlers_may_use_hazard_pointers_at_any_moment() {
    static READY: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    let _running = deadline();
    // The thread has made more hazard pointers than it and the handler use at once.
    let signal = install(2, protect);
    let reader = thread::spawn(|| {
        drop(HazardPointer::array::<20>());
        // For a handler that interrupts the search for a slot.
        thread::spawn(|| drop(HazardPointer::array::<20>())).join().unwrap();
        READY.store(true, Release);
        while !STOP.load(Relaxed) || HANDLED.load(Acquire) < 100 {
            let mut pointers = HazardPointer::array::<9>();
            pointers.iter_mut().for_each(|pointer| check(pointer.protect(&VALUE)));
        }
    });
    while !READY.load(Acquire) {
        thread::yield_now();
    }
    for number in 0_usize..20_000 {
        VALUE.replace(Some([number, number.wrapping_neg()]));
        send(signal, &reader);
    }
    STOP.store(true, Relaxed);
    while !reader.is_finished() {
        send(signal, &reader);
        thread::yield_now();
    }
    reader.join().unwrap();
    assert_eq!(WRONG.load(Relaxed), 0);
    VALUE.take();
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
}
