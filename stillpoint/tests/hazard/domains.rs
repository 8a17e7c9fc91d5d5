//! Domains of their own, and structures of the library in them.

use std::sync::atomic::{AtomicUsize, Ordering::*};

use stillpoint::hazard::{self, HazardPointer};
use stillpoint::rcu::Rcu;
use stillpoint::{Domain as _, EnterSection};
use support::deadline::deadline;
use support::tracked::Tracked;

hazard::domain! { struct First; }
hazard::domain! { struct Second; }
hazard::domain! { struct Third; }

#[test]
fn one_pointer_serves_all_domains() {
    let _running = deadline();
    let (first, second) = (Rcu::new_in(1, First), Rcu::new_in(2, Second));
    let mut pointer = HazardPointer::new();
    assert_eq!(*pointer.protect(&first), 1);
    let kept = pointer.protect(&second);
    first.replace(3);
    second.replace(4);
    First.barrier();
    Second.barrier();
    assert_eq!(*kept, 2);
    assert_eq!((First.stats().queued, Second.stats().queued), (0, 1));
}

#[test]
fn global_functions_use_the_global_domain() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let before = hazard::stats().done;
    let section = hazard::enter();
    hazard::retire(Box::new(Tracked(&DROPS)));
    assert!(hazard::flush(), "nothing waits for the section");
    drop(section);
    hazard::barrier();
    assert_eq!(DROPS.load(Acquire), 1);
    assert!(!hazard::flush(), "something is left");
    assert!(hazard::stats().done > before);
    let value = Rcu::new_in(1, hazard::Global);
    assert_eq!(*value.load(&hazard::enter()), 1);
}

fn increment<D: EnterSection>(value: &Rcu<u32, D>) -> u32 {
    drop(value.update(|old| old + 1));
    *value.read()
}

#[test]
fn pointers_of_the_library_work_as_in_other_domains() {
    let _running = deadline();
    let value = Rcu::new_in(1, Third);
    assert_eq!(increment(&value), 2);
}
