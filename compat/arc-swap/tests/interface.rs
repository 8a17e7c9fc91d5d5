//! What programs use of arc-swap, and what its own tests cannot check from outside.

use std::rc::Rc;
use std::sync::{Arc, RwLock};
use std::thread;

use arc_swap::access::{Access, AccessConvert, Constant, DynAccess, Map};
use arc_swap::cache::Access as _;
use arc_swap::strategy::{CaS, DefaultStrategy, Deferred, Strategy};
use arc_swap::{ArcSwap, ArcSwapAny, ArcSwapOption, ArcSwapWeak, Cache, Guard, RefCnt};

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
fn access_is_generic_and_dynamic() {
    fn answer(access: impl Access<usize>) -> usize {
        *access.load()
    }
    let shared = Arc::new(ArcSwap::from_pointee(outer(42)));
    assert_eq!(answer(shared.map(|outer: &Outer| &outer.inner.answer)), 42);
    let inner: Arc<dyn DynAccess<Inner> + Send + Sync> =
        Arc::new(Map::new(Arc::clone(&shared), |outer: &Outer| &outer.inner));
    shared.store(Arc::new(outer(43)));
    assert_eq!(answer(Map::new(Arc::clone(&inner), |inner: &Inner| &inner.answer)), 43);
    assert_eq!(answer(Map::new(AccessConvert(inner), |inner: &Inner| &inner.answer)), 43);
    assert_eq!(answer(Constant(7)), 7);
    assert_eq!(answer(ArcSwapAny::<Rc<usize>>::from(Rc::new(8))), 8);
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

#[test]
fn other_pointers_are_held() {
    static EMPTY: ArcSwapOption<String> = ArcSwapOption::const_empty();
    assert!(EMPTY.load().is_none());
    let value = Arc::new(1);
    let weak = ArcSwapWeak::new(Arc::downgrade(&value));
    assert!(Arc::ptr_eq(&weak.load().upgrade().unwrap(), &value));
    let pinned = ArcSwapAny::<_>::new(Arc::pin(2));
    assert_eq!(**pinned.load(), 2);
    assert_eq!(RefCnt::as_ptr(&*pinned.load()), RefCnt::as_ptr(&pinned.load_full()));
}

#[test]
#[cfg(feature = "serde")]
fn pointers_are_serialized_as_their_values() {
    let shared = ArcSwapOption::from_pointee(vec![1, 2]);
    assert_eq!(serde_json::to_string(&shared).unwrap(), "[1,2]");
    let read: ArcSwapOption<Vec<u32>> = serde_json::from_str("null").unwrap();
    assert!(read.load().is_none());
}
