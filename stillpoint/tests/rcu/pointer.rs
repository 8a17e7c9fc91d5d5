//! `Rcu` and `Retired` as containers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::{self, DeferOptions, Rcu, RcuDomain};
use support::deadline::deadline;
use support::tracked::Tracked;

#[test]
fn concurrent_updates_are_all_counted() {
    stillpoint::domain! { struct Own; }
    const THREADS: u64 = 4;
    const UPDATES: u64 = if cfg!(miri) { 20 } else { 5000 };
    let _running = deadline();
    let sum = Rcu::new_in(0, Own);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..UPDATES {
                    drop(sum.update(|old| old + 1));
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), THREADS * UPDATES);
}

#[test]
fn concurrent_modifications_are_all_kept() {
    stillpoint::domain! { struct Own; }
    const NUMBERS: u64 = if cfg!(miri) { 10 } else { 100 };
    let _running = deadline();
    let numbers = Rcu::new_in(Vec::new(), Own);
    thread::scope(|scope| {
        for thread in 0..4 {
            let numbers = &numbers;
            scope.spawn(move || {
                for number in 0..NUMBERS {
                    drop(numbers.modify(|numbers| numbers.push(NUMBERS * thread + number)));
                }
            });
        }
    });
    let mut numbers = numbers.into_inner();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..4 * NUMBERS));
}

#[test]
fn replaced_values_are_each_returned_once() {
    stillpoint::domain! { struct Own; }
    const THREADS: usize = 4;
    const VALUES: usize = if cfg!(miri) { 20 } else { 2000 };
    let _running = deadline();
    let value = Rcu::new_in(0, Own);
    let mut returned: Vec<usize> = thread::scope(|scope| {
        let writers = [0, 1, 2, 3].map(|writer| {
            let value = &value;
            scope.spawn(move || {
                let values = writer * VALUES + 1..=(writer + 1) * VALUES;
                // Read without waiting: this does not test grace periods.
                values.map(|new| *value.replace(new)).collect::<Vec<_>>()
            })
        });
        writers.into_iter().flat_map(|writer| writer.join().expect("the writer ends")).collect()
    });
    returned.push(value.into_inner());
    returned.sort_unstable();
    assert!(returned.into_iter().eq(0..=THREADS * VALUES));
}

#[test]
fn update_inside_a_section_works() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
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
fn panic_in_update_changes_nothing() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let value = Rcu::new_in(1, Own);
    let update = || drop(value.update(|_| panic!("the closure failed")));
    assert!(catch_unwind(AssertUnwindSafe(update)).is_err());
    assert!(!Own::in_read_section());
    Own.synchronize();
    assert_eq!(value.into_inner(), 1);
}

#[test]
fn only_owner_may_change_and_take_the_value() {
    let mut value = Rcu::new(vec![1]);
    value.get_mut().push(2);
    assert_eq!(*value.load(&rcu::enter()), [1, 2]);
    assert_eq!(value.into_inner(), [1, 2]);
}

#[test]
fn values_are_dropped_once() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let drops: [&'static AtomicUsize; 4] = [(); 4].map(|()| &*Box::leak(Box::default()));
    let counts = || drops.map(|drops| drops.load(Acquire));

    let value = Rcu::new_in(Tracked(drops[0]), Own);
    let waited_for = value.replace(Tracked(drops[1])).wait();
    assert_eq!(counts(), [0, 0, 0, 0]);
    drop(waited_for);
    assert_eq!(counts(), [1, 0, 0, 0]);

    let deferred = value.replace(Tracked(drops[2]));
    Own.synchronize();
    assert_eq!(counts(), [1, 0, 0, 0]);
    drop(deferred);
    while counts() == [1, 0, 0, 0] {
        thread::yield_now();
    }
    assert_eq!(counts(), [1, 1, 0, 0]);

    drop(value);
    assert_eq!(counts(), [1, 1, 1, 0]);

    let taken_out = Rcu::new_in(Tracked(drops[3]), Own).into_inner();
    assert_eq!(counts(), [1, 1, 1, 0]);
    drop(taken_out);
    assert_eq!(counts(), [1, 1, 1, 1]);
}

#[test]
fn dropping_an_rcu_inside_a_section_does_not_wait() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
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
fn retired_value_may_be_waited_for_elsewhere() {
    let _running = deadline();
    let retired = Rcu::new(7).replace(8);
    assert_eq!(thread::spawn(|| retired.wait()).join().expect("the thread ends"), 7);
}

#[test]
fn unsized_values_can_be_published() {
    let _running = deadline();
    let value = Rcu::new(());
    value.replace(()).wait();
    value.update(|()| ()).wait();
    drop(value.replace(()));
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
    let _section = <Own as RcuDomain>::enter();
    Rcu::new_in(1, Own).replace(2).retire_with(DeferOptions::new().heap_bytes(1 << 16));
    assert!(Own.stats().queued_bytes >= 1 << 16);
}
