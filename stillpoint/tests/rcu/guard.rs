//! Guards: nesting, overlapping, repinning.

use support::prelude::*;

#[test]
fn section_lasts_until_the_last_guard_drops() {
    own!(Own);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut guards = [Some(Own::enter()), Some(Own::enter()), Some(Own::enter())];
        let writer = waiting_synchronize::<Own>();
        for guard in &order[..2] {
            guards[*guard] = None;
            assert!(Own::in_read_section());
            assert!(!writer.is_finished());
        }
        guards[order[2]] = None;
        assert!(!Own::in_read_section());
        writer.join().expect("the grace period ends");
    }
}

#[test]
fn repinned_guard_still_protects() {
    own!(Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let mut guard = Own::enter();
    waiting_synchronize_then(|| guard.repin());

    let seen = value.load(&guard).0;
    let old = value.replace(Tracked::leaked());
    let writer = waiting::<Own>(|| drop(old.wait()));
    assert_eq!(seen.load(Acquire), 0);
    assert!(!writer.is_finished());
    drop(guard);
    writer.join().expect("the grace period ends");
    assert_eq!(DROPS.load(Acquire), 1);

    fn waiting_synchronize_then(repin: impl FnOnce()) {
        let writer = waiting_synchronize::<Own>();
        repin();
        writer.join().expect("the grace period ends");
    }
}

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
