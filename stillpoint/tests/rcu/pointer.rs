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
fn dropping_an_rcu_inside_a_section_does_not_wait() {
    own!(Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let guard = Own::enter();
    assert_eq!(value.load(&guard).0.load(Acquire), 0);
    drop(value);
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn rcu_converts_from_its_value_and_prints_it() {
    assert_eq!(Rcu::<u32>::default().into_inner(), 0);
    assert_eq!(Rcu::from("value").into_inner(), "value");
    let value = Rcu::new(5);
    assert_eq!(format!("{value:?}"), "Rcu(5)");
    assert!(format!("{:?}", value.replace(6)).starts_with("Retired"));
}
