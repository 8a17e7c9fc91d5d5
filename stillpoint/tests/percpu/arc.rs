//! Pointers whose clones are counted on each CPU.

use super::races;
use stillpoint::percpu::{Arc, ArcOwner, IntoInner};
#[cfg(not(stillpoint_portable))]
use support::fork;
use support::futures::poll;
use support::prelude::*;

/// Counts its drops, which follow all uses.
#[derive(Debug)]
struct Value<'a> {
    drops: &'a AtomicU64,
    uses: AtomicU64,
}

impl<'a> Value<'a> {
    fn new(drops: &'a AtomicU64) -> ArcOwner<Self> {
        ArcOwner::new(Self { drops, uses: AtomicU64::new(0) })
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        assert_eq!(self.drops.fetch_add(1, Relaxed), 0, "dropped twice");
    }
}

/// Clones and uses in several threads, while `end` ends the owner. Returns what that returned.
fn share_while<'a, R>(owner: ArcOwner<Value<'a>>, end: impl FnOnce(ArcOwner<Value<'a>>) -> R) -> R {
    const CLONES: u64 = if cfg!(miri) { 20 } else { 200 };
    thread::scope(|scope| {
        for _ in 0..3 {
            let state = ArcOwner::share(&owner);
            scope.spawn(move || {
                for _ in 0..CLONES {
                    let clone = state.clone();
                    // Not a read-modify-write: the drop of the clone orders this before the end.
                    clone.uses.store(clone.uses.load(Relaxed) + 1, Relaxed);
                    assert_eq!(clone.drops.load(Relaxed), 0, "used after it was dropped");
                }
            });
        }
        until(|| owner.uses.load(Relaxed) != 0);
        end(owner)
    })
}

#[test]
fn last_clone_drops_the_value_once() {
    alone!(in each variant);
    for _ in 0..races(200) {
        let drops = AtomicU64::new(0);
        share_while(Value::new(&drops), drop);
        assert_eq!(drops.into_inner(), 1);
    }
}

#[test]
fn owner_gets_the_value_back_when_all_clones_are_gone() {
    alone!(in each variant);
    for _ in 0..races(200) {
        let drops = AtomicU64::new(0);
        let value = share_while(Value::new(&drops), |owner| ArcOwner::into_inner(owner).wait());
        assert_eq!(drops.load(Relaxed), 0);
        assert!(value.uses.load(Relaxed) > 0);
        drop(value);
        assert_eq!(drops.into_inner(), 1);
    }
}

#[test]
fn owner_without_clones_gets_the_value_at_once() {
    let owner = ArcOwner::new("state".to_owned());
    drop(ArcOwner::share(&owner));
    assert_eq!(owner.len(), 5);
    let inner = ArcOwner::into_inner(owner);
    assert_eq!(format!("{inner:?}"), "IntoInner { is_ready: true, .. }");
    assert_eq!(inner.wait(), "state");
}

#[test]
fn into_inner_is_a_future() {
    let _running = deadline();
    let owner = ArcOwner::new(vec![1, 2]);
    let clone = ArcOwner::share(&owner);
    let mut future = ArcOwner::into_inner(owner);
    assert!(poll(&mut future, Waker::noop()).is_pending());
    assert_eq!(*clone.clone(), [1, 2]);
    thread::spawn(move || drop(clone)).join().unwrap();
    assert_eq!(poll(&mut future, Waker::noop()), Poll::Ready(vec![1, 2]));
    let again = catch_unwind(AssertUnwindSafe(|| poll(&mut future, Waker::noop())));
    assert!(again.is_err(), "the value is given once");
}

/// A waker that is not called.
struct Unused;

impl Wake for Unused {
    fn wake(self: std::sync::Arc<Self>) {
        unreachable!("the future is gone");
    }
}

#[test]
fn dropped_into_inner_leaves_the_value_to_the_last_clone() {
    for polled in [false, true] {
        let drops = AtomicU64::new(0);
        let owner = Value::new(&drops);
        let clone = ArcOwner::share(&owner);
        let mut inner = ArcOwner::into_inner(owner);
        let wakes = std::sync::Arc::new(Unused);
        if polled {
            let waker = Waker::from(wakes.clone());
            assert!(poll(&mut inner, &waker).is_pending());
        }
        drop(inner);
        assert_eq!(std::sync::Arc::strong_count(&wakes), 1, "the waker is gone");
        assert_eq!(drops.load(Relaxed), 0);
        drop(clone);
        assert_eq!(drops.load(Relaxed), 1);
    }
}

#[test]
fn pointers_are_covariant_and_sent_as_those_of_std() {
    fn shorten<'a>(
        owner: ArcOwner<&'static str>,
        clone: Arc<&'static str>,
    ) -> (ArcOwner<&'a str>, Arc<&'a str>) {
        (owner, clone)
    }
    fn sent<T: Send + Sync>() {}
    sent::<(ArcOwner<u64>, Arc<u64>)>();
    sent::<IntoInner<AtomicU64>>();
    let owner = ArcOwner::from("text");
    let clone = ArcOwner::share(&owner);
    let (owner, clone) = shorten(owner, clone);
    assert_eq!(format!("{owner} {clone:?}"), "text \"text\"");
    assert!(Arc::ptr_eq(&clone, &clone.clone()));
}

#[cfg(not(stillpoint_portable))]
#[test]
fn fork_child_frees_its_copy() {
    alone!(on each backend);
    let drops = AtomicU64::new(0);
    let owner = Value::new(&drops);
    let clone = ArcOwner::share(&owner);
    let mut parts = Some((owner, clone));
    fork::in_child(|| {
        let (owner, clone) = parts.take().expect("they are there");
        let inner = ArcOwner::into_inner(owner);
        let inner = inner.wait_timeout(Duration::ZERO).expect_err("there is a clone");
        drop(clone);
        drop(inner.wait_timeout(Duration::ZERO).expect("there is none"));
        assert_eq!(drops.load(Relaxed), 1);
    });
    drop(parts);
    assert_eq!(drops.load(Relaxed), 1);
}
