//! Signal handlers that make, use and drop hazard pointers at any moment of the interrupted thread.

use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::RcuOption;
use support::prelude::*;
use support::signals::{expect, interrupt};

stillpoint::hazard::domain! { struct Own; }

static VALUE: RcuOption<[usize; 2], Own> = RcuOption::empty_in(Own);

/// A value was not freed, and is not half written.
fn check(value: Option<&[usize; 2]>) {
    expect(value.is_none_or(|value| value[0].wrapping_add(value[1]) == 0));
}

fn protect() {
    let [mut first, mut second] = HazardPointer::array();
    let seen = first.protect(&VALUE);
    check(second.protect(&VALUE));
    check(seen);
}

#[test]
#[cfg_attr(miri, ignore = "no signals")]
fn signal_handlers_may_use_hazard_pointers_at_any_moment() {
    let _running = deadline();
    let prepare = || {
        // The thread has made more hazard pointers than it and the handler use at once.
        drop(HazardPointer::array::<20>());
        // For a handler that interrupts the search for a slot.
        thread::spawn(|| drop(HazardPointer::array::<20>())).join().unwrap();
    };
    let read = |_| {
        let mut pointers = HazardPointer::array::<9>();
        pointers.iter_mut().for_each(|pointer| check(pointer.protect(&VALUE)));
    };
    let write = |number: usize| _ = VALUE.replace(Some([number, number.wrapping_neg()]));
    interrupt(protect, prepare, read, write, || true);
    VALUE.take();
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
}
