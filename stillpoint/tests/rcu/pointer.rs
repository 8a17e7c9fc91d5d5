//! `Rcu` and `Retired` as containers.

use support::prelude::*;

#[test]
fn update_inside_a_section_works() {
    own!(Own);
    let value = Rcu::new_in(1, Own);
    let guard = Own::enter();
    let before = value.load(&guard);
    drop(value.update(|old| {
        assert!(Own::in_read_section());
        old + 1
    }));
    assert!(Own::in_read_section());
    assert_eq!((*before, *value.load(&guard)), (1, 2));
}

#[test]
fn only_owner_may_change_and_take_the_value() {
    let mut value = Rcu::new(vec![1]);
    value.get_mut().push(2);
    assert_eq!(*value.load(&rcu::enter()), [1, 2]);
    assert_eq!(value.into_inner(), [1, 2]);
}

#[test]
fn dropping_an_rcu_inside_a_section_does_not_wait() {
    own!(Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let guard = Own::enter();
    assert_eq!(value.load(&guard).0.load(Acquire), 0);
    drop(value);
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn retired_value_is_readable_until_freed() {
    let _running = deadline();
    let value = Rcu::new(String::from("old"));
    let retired = value.replace(String::from("new"));
    assert_eq!((retired.len(), retired.as_str()), (3, "old"));
    assert_eq!(retired.wait(), "old");
    assert_eq!(value.swap(Box::new(String::from("newer"))).wait(), "new");
}

#[test]
fn rcu_converts_from_its_value_and_prints_it() {
    assert_eq!(Rcu::<u32>::default().into_inner(), 0);
    assert_eq!(Rcu::from("value").into_inner(), "value");
    let value = Rcu::new(5);
    assert_eq!(format!("{value:?}"), "Rcu(5)");
    assert!(format!("{:?}", value.replace(6)).starts_with("Retired"));
}

#[test]
fn replaced_value_is_retired_with_options() {
    stillpoint::domain! { struct Own; }
    let _section = Own::enter();
    Rcu::new_in(1, Own).replace(2).retire_with(DeferOptions::new().heap_bytes(1 << 16));
    assert!(Own.stats().queued_bytes >= 1 << 16);
}
