//! Handles on published values: exchanges, empty pointers, values without a size, and the future of a retired value.

use std::fmt::{Debug, Display};

use stillpoint::EnterSection;
use stillpoint::rcu::{RcuOption, Ref, Retired};
use support::futures::{block_on, poll};
use support::prelude::*;

/// Prints what it is, and counts its drop.
struct Named(&'static str, #[expect(dead_code, reason = "for its drop")] Tracked);

impl Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.0)
    }
}

/// Counts its drop, and panics.
struct Bomb(&'static AtomicUsize);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Release);
        panic!("a destructor fails");
    }
}

#[test]
fn exchange_compares_identity_not_contents() {
    fn check<F: Flavour>() {
        let name = Rcu::new_in(String::from("a"), F::make());
        let equal = String::from("a");
        name.domain().clone().within(|section| {
            let seen = name.load(section);
            let new = Box::new(String::from("b"));
            let address: *const String = &*new;
            let failed = name.compare_exchange(section, &equal, new).unwrap_err();
            assert!(std::ptr::eq(failed.current, seen));
            assert!(std::ptr::eq(&*failed.new, address));
            assert_eq!(failed.to_string(), "another value is published than expected");

            let old = name.compare_exchange(section, seen, failed.new).unwrap();
            assert!(std::ptr::eq(&*old, seen));
            assert_eq!(name.load(section), "b");
            assert!(name.compare_exchange(section, seen, Box::new(String::from("c"))).is_err());
            // The retired value is not the published one, either.
            assert!(name.compare_exchange(section, &old, Box::new(String::from("d"))).is_err());
        });
        assert_eq!(name.into_inner(), "b");
    }
    each_flavour!(check);
}

#[test]
fn concurrent_exchanges_and_updates_are_all_counted() {
    fn check<F: Flavour>() {
        const WRITERS: usize = 4;
        let updates = repetitions(1000);
        let sum = Rcu::new_in(0, F::make());
        let exchange = |section: &_| {
            let mut seen = sum.load(section);
            let mut new = Box::new(0);
            loop {
                *new = seen + 1;
                match sum.compare_exchange(section, seen, new) {
                    Ok(old) => break assert_eq!(*old, *seen),
                    Err(failed) => (seen, new) = (failed.current, failed.new),
                }
            }
        };
        in_threads(WRITERS, |_| {
            for _ in 0..updates {
                sum.domain().within(exchange);
                sum.domain().within(|section| drop(sum.update_with(section, |sum| sum + 1)));
            }
        });
        assert_eq!(sum.into_inner(), 2 * WRITERS * updates);
    }
    each_flavour!(check);
}

#[test]
fn empty_pointer_is_filled_by_one_of_the_writers() {
    fn check<F: Flavour>() {
        let (drops, _) = counter();
        let slot = RcuOption::empty_in(F::make());
        // Returns the value if another one is published.
        let fill = || {
            slot.domain().within(|section| {
                let failed = slot.compare_exchange(section, None, Some(Box::new(Tracked(drops)))).err()?;
                assert_eq!(failed.current.unwrap().0.load(Acquire), 0);
                failed.new
            })
        };
        let left: Vec<_> = thread::scope(|scope| {
            let writers = [(); 4].map(|()| scope.spawn(fill));
            writers.into_iter().filter_map(|writer| writer.join().expect("the writer ends")).collect()
        });
        assert_eq!((left.len(), drops.load(Acquire)), (3, 0));
        drop(left);
        assert_eq!(drops.swap(0, AcqRel), 3);

        slot.domain().within(|section| assert!(slot.load(section).is_some()));
        drop(slot.take().unwrap().wait());
        assert_eq!(drops.load(Acquire), 1);
        assert!(slot.take().is_none());
        slot.domain().within(|section| {
            assert!(slot.load(section).is_none());
            let old = slot.update_with(section, |old| {
                assert!(old.is_none());
                Some(Tracked(drops))
            });
            assert!(old.is_none());
            assert!(slot.update_with(section, |_| None).is_some());
        });
        slot.domain().barrier();
        assert_eq!(drops.load(Acquire), 2);

        let mut slot = slot;
        assert!(slot.get_mut().is_none());
        slot.replace(Some(Tracked(drops)));
        assert!(slot.get_mut().is_some());
        assert_eq!(slot.into_inner().map(drop), Some(()));
        assert_eq!(drops.load(Acquire), 3);
    }
    each_flavour!(check);
}

#[test]
fn values_without_a_size_are_dropped_once() {
    fn check<F: Flavour>() {
        let (drops, _) = counter();
        let named = |name| -> Box<dyn Display + Send + Sync> { Box::new(Named(name, Tracked(drops))) };
        let text = |value: &dyn Display| value.to_string();
        let value = Rcu::from_box_in(named("a"), F::make());
        value.domain().clone().within(|section| {
            let seen = value.load(section);
            assert_eq!(text(&seen), "a");
            let old = value.compare_exchange(section, seen, named("b")).unwrap();
            assert_eq!(text(&&*old), "a");
            assert!(value.compare_exchange(section, seen, named("c")).is_err());
        });
        value.domain().barrier();
        // The first one, and the one that was not published.
        assert_eq!(drops.load(Acquire), 2);
        let old = value.swap(named("e"));
        assert_eq!(text(&&*old), "b");
        drop(old);
        value.domain().barrier();
        assert_eq!(drops.load(Acquire), 3);
        assert_eq!(text(&value.into_box()), "e");
        assert_eq!(drops.load(Acquire), 4);

        // A slice, a string, and empty ones.
        let items = |len| (0..len).map(|_| Tracked(drops)).collect::<Box<[_]>>();
        let mut slice = Rcu::from_box_in(items(3), F::make());
        assert_eq!(slice.get_mut().len(), 3);
        drop(slice.swap(items(0)));
        slice.domain().barrier();
        assert_eq!(drops.load(Acquire), 7);
        slice.domain().clone().within(|section| assert_eq!(slice.load(section).len(), 0));
        drop(slice.swap(items(2)));
        drop(slice);
        assert_eq!(drops.load(Acquire), 9);

        let string: RcuOption<str, F> = RcuOption::empty_in(F::make());
        assert!(string.swap(Some("old".into())).is_none());
        assert_eq!(&*string.swap(Some("".into())).unwrap(), "old");
        assert_eq!(string.into_box().as_deref(), Some(""));
    }
    each_flavour!(check);
}

#[test]
fn values_are_dropped_once_however_they_are_disposed_of() {
    fn check<F: Flavour>() {
        let (drops, _) = counter();
        let fresh = || Tracked(drops);
        let dropped = || drops.load(Acquire);
        let value = Rcu::new_in(fresh(), F::make());
        let wait = || value.domain().barrier();

        drop(block_on(value.replace(fresh()).into_future()));
        assert_eq!(dropped(), 1);

        // Futures that are dropped before and after they are polled.
        drop(value.replace(fresh()).into_future());
        wait();
        assert_eq!(dropped(), 2);
        let mut polled = value.replace(fresh()).into_future();
        let first = poll(&mut polled, Waker::noop());
        drop((polled, first));
        wait();
        assert_eq!(dropped(), 3);

        let mut finished = value.replace(fresh()).into_future();
        drop(block_on(&mut finished));
        assert_eq!(dropped(), 4);
        let again = catch_unwind(AssertUnwindSafe(|| drop(poll(&mut finished, Waker::noop()))));
        assert_eq!(message(&*again.unwrap_err()), "the value has been returned already");
        drop(finished);

        // A future that is dropped when it could return the value.
        let elapsed = value.replace(fresh()).into_future();
        value.domain().synchronize();
        drop(elapsed);
        wait();
        assert_eq!(dropped(), 5);

        // One that is dropped unpublished, and one that is not even made.
        let panic =
            || drop(value.domain().within(|section| value.update_with(section, |_| panic!("no value"))));
        assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
        let exchange = || {
            value.domain().within(|section| {
                drop(value.compare_exchange(section, &Tracked::leaked(), Box::new(fresh())).unwrap_err());
            });
        };
        exchange();
        assert_eq!(dropped(), 6);
        drop(value);
        assert_eq!(dropped(), 7);
    }
    each_flavour!(check);
}

#[test]
fn destructors_may_retire_read_and_wait() {
    struct Parent<F: Flavour>(usize, F, &'static AtomicUsize);
    impl<F: Flavour> Drop for Parent<F> {
        fn drop(&mut self) {
            let child = Rcu::new_in(None, self.1.clone());
            self.1.within(|section| assert!(child.load(section).is_none()));
            if let Some(left) = self.0.checked_sub(1) {
                drop(child.replace(Some(Parent(left, self.1.clone(), self.2))));
                drop(child.replace(None));
            }
            self.1.synchronize();
            drop(child.replace(None).wait());
            self.2.fetch_add(1, Release);
        }
    }
    fn check<F: Flavour>() {
        let ((drops, _), domain) = (counter(), F::make());
        drop(Rcu::new_in(Some(Parent(50, domain.clone(), drops)), domain).replace(None));
        until(|| drops.load(Acquire) == 51);
    }
    each_flavour!(check);
}

#[test]
fn panicking_destructors_lose_no_other_value() {
    fn check<F: Flavour>() {
        let (drops, _) = counter();
        let bomb = || Box::new(Bomb(drops));
        let panics = |f: &mut dyn FnMut()| {
            let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
            assert_eq!(message(&*payload), "a destructor fails");
        };
        let value = Rcu::from_box_in(bomb(), F::make());
        // In the worker.
        drop(value.swap(bomb()));
        value.domain().barrier();
        assert_eq!(drops.load(Acquire), 1);
        // In the caller.
        let other = std::mem::ManuallyDrop::new(Bomb(drops));
        panics(&mut || drop(value.swap(bomb()).wait()));
        panics(&mut || drop(block_on(value.swap(bomb()))));
        panics(&mut || {
            value.domain().within(|section| {
                let failed = value.compare_exchange(section, &other, bomb());
                drop(failed.map(drop).map_err(|failed| failed.new));
            });
        });
        assert_eq!(drops.load(Acquire), 4);
        let value = std::cell::Cell::new(Some(value));
        panics(&mut || drop(value.take()));
        assert_eq!(drops.load(Acquire), 5);
    }
    each_flavour!(check);
}

#[test]
fn concurrent_futures_give_each_value_once() {
    fn check<F: Flavour>() {
        const THREADS: usize = 4;
        const VALUES: usize = 50;
        let value = Rcu::new_in(0, F::make());
        let mut returned: Vec<usize> = thread::scope(|scope| {
            let writers = [0, 1, 2, 3].map(|writer| {
                let value = &value;
                scope.spawn(move || {
                    let values = writer * VALUES + 1..=(writer + 1) * VALUES;
                    values.map(|new| block_on(value.replace(new))).collect::<Vec<_>>()
                })
            });
            writers.into_iter().flat_map(|writer| writer.join().expect("the writer ends")).collect()
        });
        returned.push(value.into_inner());
        returned.sort_unstable();
        assert!(returned.into_iter().eq(0..=THREADS * VALUES));
    }
    each_flavour!(check);
}

#[test]
fn update_opens_its_section_in_both_flavours() {
    fn check<D: EnterSection>(domain: D) {
        let numbers = Rcu::new_in(vec![1], domain.clone());
        drop(numbers.update(|old| [&old[..], &[2]].concat()));
        drop(numbers.modify(|numbers| numbers.push(3)));
        assert_eq!(*numbers.read(), [1, 2, 3]);
        let failing = || drop(numbers.modify(|_| panic!("the closure failed")));
        assert!(catch_unwind(AssertUnwindSafe(failing)).is_err());
        // The section has ended.
        domain.synchronize();
        let slot: RcuOption<u32, D> = RcuOption::empty_in(domain);
        assert!(slot.read().is_none());
        assert!(slot.update(|old| Some(old.map_or(1, |old| old + 1))).is_none());
        assert_eq!(*slot.update(|old| old.map(|old| old + 1)).unwrap(), 1);
        assert_eq!(slot.read().as_deref(), Some(&2));
    }
    let _running = deadline();
    check(Threads);
    check(srcu::Domain::new());
}

#[test]
fn pointer_needs_its_shared_domain_at_the_first_use_only() {
    static SLOT: RcuOption<u32, srcu::Domain> = RcuOption::empty_in(srcu::Domain::new());
    let _running = deadline();
    let other = srcu::Domain::new();
    // A section of another domain, before the pointer's own domain has been used.
    let refused = catch_unwind(AssertUnwindSafe(|| SLOT.load(&other.enter()).copied()));
    assert!(message(&*refused.unwrap_err()).contains("another srcu::Domain"));
    assert!(SLOT.read().is_none());
    assert!(SLOT.replace(Some(1)).is_none());
    let guard = SLOT.domain().enter();
    assert_eq!(SLOT.load(&guard), Some(&1));
    let refused =
        catch_unwind(AssertUnwindSafe(|| SLOT.compare_exchange(&other.enter(), None, None).is_ok()));
    assert!(message(&*refused.unwrap_err()).contains("another srcu::Domain"));
    drop(guard);
    assert_eq!(SLOT.take().unwrap().wait(), 1);
}

#[test]
fn polling_inside_a_section_panics_and_keeps_the_value() {
    let _running = deadline();
    let (drops, _) = counter();
    let value = Rcu::new_in(Tracked(drops), Threads);
    let mut old = value.replace(Tracked::leaked()).into_future();
    {
        let _guard = Threads::enter();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(poll(&mut old, Waker::noop())))).is_err());
    }
    assert_eq!(drops.load(Acquire), 0);
    drop(block_on(old));
    assert_eq!(drops.load(Acquire), 1);
}

#[test]
fn pointers_and_retired_values_take_a_word() {
    const WORD: usize = size_of::<usize>();
    assert_eq!(size_of::<Rcu<[u64; 9], Threads>>(), WORD);
    assert_eq!(size_of::<RcuOption<dyn Debug + Send + Sync, Threads>>(), WORD);
    assert_eq!(size_of::<Retired<str, Threads>>(), WORD);
    assert_eq!(size_of::<Ref<'_, u64, Threads>>(), 2 * WORD);
}

#[test]
fn values_of_size_zero_are_exchanged() {
    let _running = deadline();
    let value = Rcu::new_in((), Threads);
    let guard = Threads::enter();
    let seen = value.load(&guard);
    drop(value.replace(()));
    assert!(value.compare_exchange(&guard, seen, Box::new(())).is_ok());
    let empty: Rcu<[u8], Threads> = Rcu::from_box_in(Box::new([]), Threads);
    assert!(empty.compare_exchange(&guard, empty.load(&guard), Box::new([1])).is_ok());
    assert_eq!(*empty.load(&guard), [1]);
}

#[test]
fn references_keep_the_value_and_print_it() {
    fn check<D: EnterSection<Hazards = ()>>(domain: D) {
        let (drops, _) = counter();
        let value = Rcu::new_in((String::from("old"), Tracked(drops)), domain.clone());
        let (all, part) = (value.read(), Ref::map(value.read(), |value| value.0.as_str()));
        let old = value.replace((String::from("new"), Tracked(counter().0)));
        let readers = GracePeriod::start_in(domain.clone());
        drop(all);
        assert_eq!((part.len(), format!("{part} {part:?}")), (3, "old \"old\"".into()));
        assert!(!readers.is_elapsed());
        assert_eq!(drops.load(Acquire), 0);
        drop(part);
        drop(old.wait());
        assert_eq!(drops.load(Acquire), 1);
        // A panic in `map` ends the section.
        let failing = || drop(Ref::map(value.read(), |_| -> &str { panic!("the closure failed") }));
        assert!(catch_unwind(AssertUnwindSafe(failing)).is_err());
        domain.synchronize();
    }
    own!(Own);
    check(Own);
    check(srcu::Domain::new());
}
