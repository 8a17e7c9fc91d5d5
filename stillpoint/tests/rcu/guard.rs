//! Guards and domains. The random programs (`fuzz/grace.rs`) have more of nested, overlapping and repinned guards.

use support::prelude::*;

#[test]
fn repin_of_a_nested_guard_keeps_the_outer_section() {
    own!(Own);
    let outer = Own::enter();
    let mut inner = Own::enter();
    let writer = waiting_synchronize::<Own>();
    for _ in 0..1000 {
        inner.repin();
        assert!(!writer.is_finished());
    }
    drop(outer);
    // Now it is the only one.
    inner.repin();
    writer.join().expect("the grace period ends");
}

#[test]
fn domains_do_not_wait_for_each_other() {
    own!(Read);
    stillpoint::domain! { struct Written; }
    let guard = Read::enter();
    assert!(!Written::in_read_section());
    Written.synchronize();
    assert_eq!((Read.stats().grace_periods, Written.stats().grace_periods), (0, 1));
    drop(guard);
}

#[test]
fn module_functions_use_the_global_domain() {
    let _running = deadline();
    let before = rcu::stats();
    rcu::register();
    let guard = rcu::enter();
    assert!(rcu::in_read_section() && rcu::Global::in_read_section());
    drop(guard);
    rcu::synchronize();
    assert!(rcu::stats().grace_periods > before.grace_periods);
    assert!(rcu::stats().readers > 0);
}

#[test]
fn guard_debug_output_names_its_domain() {
    stillpoint::domain! { struct Printed; }
    assert!(format!("{:?}", Printed::enter()).contains("Printed"));
}
