//! Pointers and tags: what the documented examples of crossbeam-epoch, which `ci/compat.sh` runs, do not show.
//! Nothing is pinned, so Miri can run all of it.

use std::borrow::{Borrow, BorrowMut};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::Ordering::*;
use std::thread;

use ::support::tracked::OnDrop;
use crossbeam_epoch::{
    self as epoch, Atomic, Collector, Guard, LocalHandle, Owned, Pointable, Pointer, Shared,
};

/// A guard for pointers that no other thread has.
fn guard() -> &'static Guard {
    // SAFETY: the tests change what they load by themselves.
    unsafe { epoch::unprotected() }
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn owned_is_a_box_with_a_tag() {
    let dropped = Rc::new(());
    let mut owned = Owned::new((Rc::clone(&dropped), 7_u64)).with_tag(5);
    assert_eq!((owned.tag(), owned.1), (5, 7));
    owned.1 += 1;
    BorrowMut::<(Rc<()>, u64)>::borrow_mut(&mut owned).1 += 1;
    owned.as_mut().1 += 1;
    assert_eq!((Borrow::<(Rc<()>, u64)>::borrow(&owned).1, owned.as_ref().1), (10, 10));
    let clone = owned.clone();
    assert_eq!((clone.tag(), Rc::strong_count(&dropped)), (5, 3));
    drop(clone);
    let boxed: Box<(Rc<()>, u64)> = owned.into_box();
    assert_eq!(boxed.1, 10);
    drop(Owned::<(Rc<()>, u64)>::from(boxed));
    assert_eq!(Rc::strong_count(&dropped), 1);
    assert_eq!(*Owned::<i32>::from(3), 3);
}

#[test]
fn tags_have_the_bits_below_the_alignment() {
    assert_eq!(Shared::<u8>::null().with_tag(usize::MAX).tag(), 0);
    assert_eq!(Shared::<u64>::null().with_tag(usize::MAX).tag(), 7);
    #[repr(align(128))]
    struct Line;
    assert_eq!(Shared::<Line>::null().with_tag(usize::MAX).tag(), 127);
    // A slice has a length before its items.
    assert_eq!(Shared::<[MaybeUninit<u8>]>::null().with_tag(usize::MAX).tag(), align_of::<usize>() - 1);
}

#[test]
fn shared_is_compared_with_its_tag() {
    let atomic = Atomic::new(1_u32);
    let shared = atomic.load(Relaxed, guard());
    let tagged = shared.with_tag(2);
    assert!(shared != tagged && shared < tagged && shared == tagged.with_tag(0));
    assert_eq!(shared.as_raw(), tagged.as_raw());
    assert!(!tagged.is_null() && Shared::<u32>::null().with_tag(2).is_null());
    assert!(Shared::default() < shared);
    assert_eq!(BTreeSet::from([tagged, shared, tagged]).len(), 2);
    // SAFETY: no other thread has the pointer.
    unsafe {
        assert_eq!((tagged.deref(), tagged.as_ref()), (&1, Some(&1)));
        *atomic.load(Relaxed, guard()).deref_mut() = 2;
        assert_eq!(*tagged.into_owned(), 2);
    }
}

#[test]
fn unaligned_pointers_are_refused() {
    // Nothing reads what it points to.
    let raw = ptr::without_provenance::<u32>(0x1002);
    assert!(panics(|| _ = Atomic::<u32>::from(raw)));
    assert!(panics(|| _ = Shared::from(raw)));
    // SAFETY: refused.
    assert!(panics(|| _ = unsafe { Owned::from_raw(raw.cast_mut()) }));
}

#[test]
fn null_is_a_constant() {
    static FIRST: Atomic<u32> = Atomic::null();
    const NULL: Shared<'static, u32> = Shared::null();
    assert_eq!(FIRST.load(Relaxed, guard()), NULL);
    assert!(Atomic::<[MaybeUninit<u8>]>::default().load(Relaxed, guard()).is_null());
}

#[test]
fn slices_have_their_length_with_them() {
    for len in [0, 1, 1000] {
        let mut slice = Owned::<[MaybeUninit<u16>]>::init(len).with_tag(1);
        slice.iter_mut().enumerate().for_each(|(i, item)| _ = item.write(i as u16));
        let atomic: Atomic<[MaybeUninit<u16>]> = Atomic::from(slice);
        let shared = atomic.load(Relaxed, guard());
        // SAFETY: all were written, and no other thread has the pointer.
        unsafe {
            assert_eq!((shared.tag(), shared.deref().len()), (1, len));
            assert!(shared.deref().iter().enumerate().all(|(i, item)| item.assume_init() == i as u16));
            drop(shared.into_owned());
        }
    }
    #[repr(align(64))]
    struct Line(#[expect(dead_code, reason = "it has a size")] u8);
    let lines = Owned::<[MaybeUninit<Line>]>::init(3);
    assert!(lines.iter().all(|line| line.as_ptr().is_aligned()));
    assert!(panics(|| _ = Owned::<[MaybeUninit<u64>]>::init(usize::MAX / 8)));
}

/// A type of a program's own that is pointed to by addresses.
struct Text(str);

impl Pointable for Text {
    const ALIGN: usize = align_of::<String>();

    type Init = String;

    unsafe fn init(init: String) -> usize {
        Box::into_raw(Box::new(init)).expose_provenance()
    }

    unsafe fn deref<'a>(ptr: usize) -> &'a Self {
        // SAFETY: the caller's contract. `Text` is a `str` with a name.
        unsafe { &*(ptr::from_ref((*ptr::with_exposed_provenance::<String>(ptr)).as_str()) as *const Self) }
    }

    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self {
        let string = ptr::with_exposed_provenance_mut::<String>(ptr);
        // SAFETY: as above.
        unsafe { &mut *(ptr::from_mut((*string).as_mut_str()) as *mut Self) }
    }

    unsafe fn drop(ptr: usize) {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<String>(ptr)) });
    }
}

#[test]
fn programs_may_implement_pointable_by_addresses() {
    let mut owned = Owned::<Text>::init("abc".into()).with_tag(1);
    owned.0.make_ascii_uppercase();
    let atomic: Atomic<Text> = Atomic::from(owned);
    let shared = atomic.load(Relaxed, guard());
    // SAFETY: no other thread has the pointer.
    unsafe {
        assert_eq!((&shared.deref().0, shared.tag()), ("ABC", 1));
        guard().defer_destroy(shared);
    }
}

#[test]
fn pointers_go_through_addresses() {
    let address = Pointer::<u64>::into_usize(Owned::new(1_u64).with_tag(3));
    // SAFETY: comes from `into_usize`.
    unsafe {
        let shared = <Shared<'_, u64> as Pointer<u64>>::from_usize(address);
        assert_eq!((Pointer::into_usize(shared), shared.tag(), *shared.deref()), (address, 3, 1));
        let owned = <Owned<u64> as Pointer<u64>>::from_usize(address);
        assert_eq!((owned.tag(), *owned), (3, 1));
    }
    // SAFETY: as the functions say.
    unsafe {
        let address = <[MaybeUninit<u8>] as Pointable>::init(3);
        <[MaybeUninit<u8>] as Pointable>::deref_mut(address)[0].write(1);
        assert_eq!(<[MaybeUninit<u8>] as Pointable>::deref(address).len(), 3);
        <[MaybeUninit<u8>] as Pointable>::drop(address);
    }
}

#[test]
fn pointers_are_formatted_without_being_read() {
    // Nothing is there.
    let shared = Shared::from(ptr::without_provenance::<u64>(0x1000)).with_tag(3);
    assert_eq!(format!("{shared:p} {shared:?}"), "0x1000 Shared { raw: 0x1000, tag: 3 }");
    let atomic: Atomic<u64> = Atomic::from(shared);
    assert_eq!(format!("{atomic:p} {atomic:?}"), "0x1000 Atomic { raw: 0x1000, tag: 3 }");
    let null = Atomic::<u64>::null();
    assert_eq!(format!("{null:p} {:p}", Shared::<u64>::null()), "0x0 0x0");
    let error = null.compare_exchange(shared, shared, SeqCst, SeqCst, guard()).unwrap_err();
    assert!(format!("{error:?}").starts_with("CompareExchangeError { current: Shared"));
    assert!(format!("{:?}", Owned::new(1_u64).with_tag(2)).ends_with("tag: 2 }"));
}

#[test]
fn unprotected_guard_defers_nothing() {
    let ran = Cell::new(0);
    let call = || ran.set(ran.get() + 1);
    let guard = guard();
    // SAFETY: they run at once, and no other thread has the pointers.
    unsafe {
        guard.defer_unchecked(call);
        guard.defer_destroy(Owned::new(OnDrop(call)).into_shared(guard));
    }
    assert_eq!(ran.get(), 2);
    guard.defer(|| ());
    guard.flush();
    assert!(guard.collector().is_none());
    assert!(!epoch::is_pinned());
}

#[test]
fn types_have_the_auto_traits_of_the_original() {
    trait No {
        const IS: bool = false;
    }
    impl<T: ?Sized> No for T {}
    struct IsSend<T>(std::marker::PhantomData<T>);
    impl<T: Send> IsSend<T> {
        const IS: bool = true;
    }
    struct IsSync<T>(std::marker::PhantomData<T>);
    impl<T: Sync> IsSync<T> {
        const IS: bool = true;
    }
    macro_rules! traits {
        ($($type:ty),*) => { [$((IsSend::<$type>::IS, IsSync::<$type>::IS)),*] };
    }
    let shared_types = traits!(Atomic<u32>, Owned<u32>, Owned<Cell<u32>>, Collector);
    assert_eq!(shared_types, [(true, true), (true, true), (true, false), (true, true)]);
    let others =
        traits!(Atomic<Cell<u32>>, Atomic<Rc<u32>>, Owned<Rc<u32>>, Shared<'static, u32>, Guard, LocalHandle);
    assert_eq!(others, [(false, false); 6]);
}

#[test]
fn nodes_pushed_by_many_threads_are_all_found() {
    const THREADS: usize = 4;
    const NODES: usize = if cfg!(miri) { 20 } else { 1000 };
    struct Node(#[expect(dead_code, reason = "it has a size")] usize, Atomic<Node>);
    let first = Atomic::null();
    thread::scope(|scope| {
        for i in 0..THREADS {
            let first = &first;
            scope.spawn(move || {
                for _ in 0..NODES {
                    let mut node = Owned::new(Node(i, Atomic::null()));
                    let mut current = first.load(Relaxed, guard());
                    loop {
                        node.1.store(current, Relaxed);
                        match first.compare_exchange_weak(current, node, Release, Relaxed, guard()) {
                            Ok(_) => break,
                            Err(error) => (current, node) = (error.current, error.new),
                        }
                    }
                }
            });
        }
    });
    let (mut next, mut found) = (first, 0);
    // SAFETY: the threads have ended, and each node is found once.
    while let Some(node) = unsafe { next.try_into_owned() } {
        next = node.into_box().1;
        found += 1;
    }
    assert_eq!(found, THREADS * NODES);
}
