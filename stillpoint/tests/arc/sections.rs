//! Cells whose values are borrowed for a section.

use std::sync::Arc;
use std::thread;

use stillpoint::arc::{ArcCell, InDomain};
use stillpoint::rcu::{self, Global};
use stillpoint::{Domain as _, srcu};
use support::deadline::deadline;

#[test]
fn borrowed_value_lives_as_long_as_the_section() {
    let _running = deadline();
    let value = Arc::new(1);
    let cell = ArcCell::with_strategy(Arc::clone(&value), InDomain(Global));
    let section = rcu::enter();
    let borrowed = cell.borrow(&section);
    assert_eq!(Arc::strong_count(&borrowed), 2);
    cell.store(Arc::new(2));
    assert_eq!((**borrowed, **cell.borrow(&section)), (1, 2));
    drop(section);
    rcu::barrier();
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(**cell.load(), 2);
}

#[test]
fn srcu_section_may_move_to_another_thread() {
    let _running = deadline();
    let domain = srcu::Domain::new();
    let cell = ArcCell::with_strategy(Arc::new(1), InDomain(domain.clone()));
    let section = domain.enter();
    let borrowed = cell.borrow(&section);
    thread::scope(|s| {
        s.spawn(|| {
            drop(cell.swap(Arc::new(2)));
            assert_eq!(**borrowed, 1);
        });
    });
    drop(section);
    domain.barrier();
    let others = srcu::Domain::new();
    let refused = std::panic::catch_unwind(|| **cell.borrow(&others.enter()));
    assert!(refused.is_err(), "a section of another domain protects nothing");
}
