//! What programs use of arc-swap, and what its own tests cannot check from outside.

use std::sync::{Arc, RwLock};
use std::thread;

use arc_swap::cache::Access as _;
use arc_swap::strategy::{CaS, DefaultStrategy, Deferred, Strategy};
use arc_swap::{ArcSwap, ArcSwapAny, ArcSwapOption, Cache, Guard};

struct Outer {
    inner: Inner,
}

struct Inner {
    answer: usize,
}

fn outer(answer: usize) -> Outer {
    Outer { inner: Inner { answer } }
}

#[test]
fn cache_lends_its_value_and_parts_of_it() {
    let shared = Arc::new(ArcSwap::from_pointee(outer(42)));
    let mut whole = Cache::from(Arc::clone(&shared));
    let mut part = whole.clone().map(|outer| &outer.inner.answer);
    assert_eq!(*part.load(), 42);
    shared.store(Arc::new(outer(43)));
    assert!(Arc::ptr_eq(whole.load(), &shared.load_full()));
    assert!(std::ptr::eq(whole.arc_swap(), &*shared));
    assert_eq!((whole.load().inner.answer, *part.load()), (43, 43));
    let mut option = Cache::new(&*Box::leak(Box::new(ArcSwapOption::from_pointee(1))));
    option.arc_swap().store(None);
    assert!(option.load().is_none());
}

#[test]
fn guards_are_send_and_sync_and_made_of_pointers() {
    fn is_send_and_sync<T: Send + Sync>(value: T) -> T {
        value
    }
    let shared = is_send_and_sync(ArcSwap::from_pointee(1));
    let guard = is_send_and_sync(shared.load());
    thread::spawn(move || assert_eq!((**guard, format!("{guard:?} {guard}")), (1, "1 1".into())))
        .join()
        .unwrap();
    let guard: Guard<Arc<u8>> = Guard::default();
    assert_eq!(Arc::strong_count(&Guard::into_inner(guard)), 1);
    let guard = Guard::<_, DefaultStrategy>::from_inner(Arc::new(2));
    assert_eq!(format!("{:?} {shared}", ArcSwap::from(Arc::clone(&guard))), "ArcSwapAny(2) 1");
}

#[test]
fn strategies_are_types() {
    fn replace<S: Strategy<Arc<u32>> + CaS<Arc<u32>> + Default>() {
        let shared = ArcSwapAny::<Arc<u32>, S>::from_pointee(1);
        let before = shared.load_full();
        drop(shared.compare_and_swap(&before, Arc::new(2)));
        assert_eq!(*shared.rcu(|value| **value + 1), 2);
        assert_eq!(*shared.into_inner(), 3);
        assert_eq!(*before, 1);
    }
    replace::<DefaultStrategy>();
    replace::<Deferred>();
    replace::<RwLock<()>>();
}
