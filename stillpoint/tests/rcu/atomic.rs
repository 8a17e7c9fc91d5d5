//! `Atomic`, `Owned` and `Shared` in all kinds of domains.

use std::fmt::Debug;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::rcu::{self, Atomic, DeferOptions, Owned, Pointable, Shared};
use stillpoint::{Domain, qsbr, srcu};
use support::deadline::deadline;
use support::tracked::Tracked;

const THREADS: usize = 3;
/// Values of each thread.
const VALUES: usize = if cfg!(miri) { 20 } else { 3000 };
/// For how long readers are to read as often.
const TIME: Duration = Duration::from_secs(3);

/// A domain of any kind.
trait Flavour: Domain {
    fn in_section<R>(&self, f: impl FnOnce(&<Self as Domain>::Section) -> R) -> R;
}

stillpoint::domain! { struct Rcu; }
qsbr::domain! { struct Qsbr; }

impl Flavour for Rcu {
    fn in_section<R>(&self, f: impl FnOnce(&rcu::Guard<Self>) -> R) -> R {
        f(&Rcu::enter())
    }
}

impl Flavour for Qsbr {
    fn in_section<R>(&self, f: impl FnOnce(&qsbr::Handle<Self>) -> R) -> R {
        f(&Qsbr::register())
    }
}

impl Flavour for srcu::Domain {
    fn in_section<R>(&self, f: impl FnOnce(&srcu::Section) -> R) -> R {
        f(&self.enter())
    }
}

/// A stack whose nodes count their drop.
struct Stack<D: Domain> {
    head: Atomic<Node<D>, D>,
    domain: D,
}

struct Node<D: Domain> {
    value: usize,
    next: Atomic<Node<D>, D>,
    _tracked: Tracked,
}

impl<D: Flavour> Stack<D> {
    fn push(&self, value: usize, drops: &'static AtomicUsize) {
        self.domain.in_section(|section| {
            let mut node = Owned::new(Node { value, next: Atomic::null(), _tracked: Tracked(drops) });
            let mut head = self.head.load(section);
            loop {
                node.next.store(head);
                match self.head.compare_exchange_weak(head, node, section) {
                    Ok(_) => return,
                    Err(error) => (head, node) = (error.current, error.new),
                }
            }
        });
    }

    fn peek(&self) -> Option<usize> {
        self.domain.in_section(|section| Some(self.head.load(section).as_ref()?.value))
    }

    fn pop(&self) -> Option<usize> {
        self.domain.in_section(|section| {
            let mut head = self.head.load(section);
            loop {
                let node = head.as_ref()?;
                match self.head.compare_exchange(head, node.next.load(section), section) {
                    Ok(_) => {
                        // SAFETY: unlinked by this thread, and not linked again.
                        unsafe { self.domain.retire_shared(head, DeferOptions::new()) };
                        return Some(node.value);
                    }
                    Err(error) => head = error.current,
                }
            }
        })
    }
}

impl<D: Domain> Drop for Stack<D> {
    fn drop(&mut self) {
        let mut next = mem::take(&mut self.head);
        // SAFETY: no other thread has the stack, and each node is in it once.
        while let Some(node) = unsafe { next.take() } {
            next = mem::take(&mut node.into_box().next);
        }
    }
}

/// Threads push and pop. Each value is popped once, and each node is dropped once.
fn exercise_stack(domain: impl Flavour, drops: &'static AtomicUsize) {
    let _running = deadline();
    let stack = Stack { head: Atomic::null(), domain };
    let mut popped: Vec<usize> = thread::scope(|scope| {
        let threads: [_; THREADS] = std::array::from_fn(|thread| {
            let stack = &stack;
            scope.spawn(move || {
                let mut popped = Vec::new();
                for value in 0..VALUES {
                    stack.push(thread * VALUES + value, drops);
                    if value % 3 != 0 {
                        popped.extend(stack.pop());
                    }
                }
                popped
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    stack.domain.barrier();
    assert_eq!(drops.load(Acquire), popped.len());
    while popped.len() < THREADS * VALUES - 1 {
        popped.extend(stack.pop());
    }
    popped.push(stack.peek().expect("one is left"));
    popped.sort_unstable();
    assert!(popped.into_iter().eq(0..THREADS * VALUES));
    stack.domain.barrier();
    assert_eq!(drops.load(Acquire), THREADS * VALUES - 1);
    drop(stack);
    assert_eq!(drops.load(Acquire), THREADS * VALUES);
}

#[test]
fn rcu_stack_passes_each_value_once() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    exercise_stack(Rcu, &DROPS);
}

#[test]
fn qsbr_stack_passes_each_value_once() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    exercise_stack(Qsbr, &DROPS);
}

#[test]
fn srcu_stack_passes_each_value_once() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    exercise_stack(srcu::Domain::new(), &DROPS);
}

/// A value that is 0 once it has been dropped.
struct Zeroed(AtomicU64);

impl Drop for Zeroed {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

/// A writer replaces a node by swap, compare-exchange and store, while readers use what they loaded. For sized nodes
/// (from `new`) and for slices of the same.
fn exercise_readers<T, D>(domain: D, new: fn() -> Owned<T>, read: fn(&T) -> u64)
where
    T: ?Sized + Pointable + Send + Sync + 'static,
    D: Flavour,
{
    let _running = deadline();
    let current = Atomic::<T, D>::new(new());
    let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    domain.in_section(|section| {
                        let node = current.load(section);
                        assert!(node.tag() <= 1);
                        thread::yield_now();
                        assert_ne!(read(node.as_ref().expect("never null")), 0, "read a dropped node");
                    });
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        let (mut round, begin) = (0, Instant::now());
        // Beside other load it takes long to yield, so there are fewer reads.
        let least = || if begin.elapsed() < TIME { VALUES / 2 } else { VALUES / 100 };
        while round < VALUES / 2 || reads.load(Relaxed) < least() {
            round += 1;
            domain.in_section(|section| {
                let old = match round % 3 {
                    0 => current.swap(new(), section),
                    1 => {
                        let marked = current.fetch_or(1, section).with_tag(1);
                        assert!(
                            current.compare_exchange(marked, new(), section).is_ok(),
                            "there is one writer"
                        );
                        marked
                    }
                    _ => {
                        let old = current.load(section);
                        current.store(new());
                        old
                    }
                };
                // SAFETY: the only writer has unlinked it.
                unsafe { domain.retire_shared(old, DeferOptions::new()) };
            });
        }
        ended.store(true, Relaxed);
    });
    domain.barrier();
    let mut current = current;
    // SAFETY: the threads have ended.
    drop(unsafe { current.take() });
}

fn new_value() -> Owned<Zeroed> {
    Owned::new(Zeroed(AtomicU64::new(7)))
}

fn new_slice() -> Owned<[Zeroed]> {
    Owned::init((0..3).map(|_| Zeroed(AtomicU64::new(7))).collect())
}

fn read_value(value: &Zeroed) -> u64 {
    value.0.load(Relaxed)
}

fn read_slice(values: &[Zeroed]) -> u64 {
    values.iter().map(read_value).min().expect("not empty")
}

#[test]
fn rcu_reader_never_sees_a_dropped_node() {
    exercise_readers(Rcu, new_value, read_value);
    exercise_readers(Rcu, new_slice, read_slice);
}

#[test]
fn qsbr_reader_never_sees_a_dropped_node() {
    exercise_readers(Qsbr, new_value, read_value);
    exercise_readers(Qsbr, new_slice, read_slice);
}

#[test]
fn srcu_reader_never_sees_a_dropped_node() {
    exercise_readers(srcu::Domain::new(), new_value, read_value);
    exercise_readers(srcu::Domain::new(), new_slice, read_slice);
}

#[test]
fn tag_has_the_bits_below_the_alignment() {
    fn check<T: ?Sized + Pointable>(init: T::Init, bits: usize) {
        let mut next: Atomic<T, Rcu> = Atomic::new(Owned::<T>::init(init).with_tag(usize::MAX));
        let guard = Rcu::enter();
        let node = next.load(&guard);
        assert_eq!((node.tag(), node.is_null()), (bits, false));
        assert_eq!(next.fetch_and(0b101, &guard), node);
        assert_eq!(next.load(&guard).tag(), bits & 0b101);
        assert_eq!(next.fetch_or(0b10, &guard).tag(), bits & 0b101);
        assert_eq!(next.load(&guard).tag(), bits & 0b111);
        assert!(Shared::<T>::null().with_tag(usize::MAX).is_null());
        assert_eq!(Shared::<T>::null().with_tag(usize::MAX).tag(), bits);
        // SAFETY: no other thread has the pointer.
        let owned = unsafe { next.take() }.expect("not null");
        assert_eq!(owned.tag(), bits & 0b111);
        assert!(next.get_mut().is_null());
    }
    #[repr(align(64))]
    struct Aligned;

    check::<()>((), 0);
    check::<u8>(1, 0);
    check::<[u64; 0]>([], 7);
    check::<Aligned>(Aligned, 63);
    check::<str>(String::new(), 7);
    check::<[()]>(vec![()], 7);
    check::<[Aligned]>(vec![Aligned], 63);
}

#[test]
fn null_pointers_differ_from_values_without_size() {
    let mut next: Atomic<(), Rcu> = Atomic::default();
    assert!(next.get_mut().as_ref().is_none());
    next.store(Owned::new(()));
    assert!(next.get_mut().as_ref().is_some());
    // SAFETY: no other thread has the pointer.
    assert!(unsafe { next.take() }.is_some());
    // SAFETY: as above.
    assert!(unsafe { next.take() }.is_none());
    // SAFETY: there is no node.
    let of_null = catch_unwind(|| unsafe { Shared::<()>::null().into_owned() });
    assert!(of_null.is_err());
}

#[test]
fn unsized_values_of_every_alignment_keep_their_parts() {
    fn check<T: Debug + Clone + PartialEq>(item: T) {
        for len in [0, 1, 2, 3, 17] {
            let items = vec![item.clone(); len];
            let mut slice = Owned::<[T]>::init(items.clone()).with_tag(1);
            slice.iter_mut().for_each(|slot| *slot = item.clone());
            assert_eq!((&*slice, slice.tag()), (&items[..], 1));
            assert_eq!(slice.as_ptr().addr() % align_of::<T>(), 0);
        }
    }
    #[derive(Debug, Clone, PartialEq)]
    #[repr(align(32))]
    struct Wide(u8);

    check(1_u8);
    check(2_u16);
    check(3_u64);
    check(());
    check(Wide(1));
    check(String::from("item"));
}

#[test]
fn failed_exchange_gives_the_new_pointer_back() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let mut first: Atomic<Tracked, Rcu> = Atomic::new(Owned::new(Tracked(&DROPS)));
    let guard = Rcu::enter();
    let current = first.load(&guard);
    for exchange in [Atomic::compare_exchange, Atomic::compare_exchange_weak] {
        let before = DROPS.load(Relaxed);
        let new = Owned::new(Tracked(&DROPS)).with_tag(1);
        let address = &raw const *new;
        let error = exchange(&first, current.with_tag(1), new, &guard).expect_err("another tag");
        assert_eq!(error.current, current);
        assert_eq!((&raw const *error.new, error.new.tag()), (address, 1));
        assert_eq!(DROPS.load(Relaxed), before);
        drop(error);
        assert_eq!(DROPS.load(Relaxed), before + 1);
    }
    let new = Owned::new(Tracked(&DROPS)).with_tag(1);
    let new = first.try_store(current.with_tag(1), new).expect_err("another tag");
    assert_eq!((new.tag(), first.load(&guard)), (1, current));
    drop(new);
    let stored = first.compare_exchange(current, current.with_tag(3), &guard).expect("no other thread");
    assert_eq!((stored, stored.as_ptr()), (first.load(&guard), current.as_ptr()));
    // SAFETY: no other thread has the pointer.
    drop(unsafe { first.take() });
    assert_eq!(DROPS.load(Relaxed), 4);
}

#[test]
fn concurrent_tag_changes_are_all_kept() {
    let _running = deadline();
    let mut next: Atomic<u64, Rcu> = Atomic::new(Owned::new(0));
    thread::scope(|scope| {
        for bit in [1, 2, 4] {
            let next = &next;
            scope.spawn(move || {
                for _ in 0..VALUES {
                    let guard = Rcu::enter();
                    assert_eq!(next.fetch_or(bit, &guard).tag() & bit, 0);
                    assert_eq!(next.fetch_and(!bit, &guard).tag() & bit, bit);
                }
            });
        }
    });
    assert_eq!(next.get_mut().tag(), 0);
    // SAFETY: the threads have ended.
    drop(unsafe { next.take() });
}

#[test]
fn retiring_a_null_pointer_does_nothing() {
    stillpoint::domain! { struct Own; }
    // SAFETY: there is no node.
    unsafe { Own.retire_shared(Shared::<String>::null().with_tag(1), DeferOptions::new()) };
    Own.barrier();
    assert_eq!((Own.stats().queued, Own.stats().done), (0, 0));
}

/// Panics when it is dropped, and then counts that.
struct Fragile(#[expect(dead_code, reason = "counts its drop")] Tracked);

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn panicking_destructors_of_nodes_are_counted() {
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let before = Own.stats().panics;
    let guard = Own::enter();
    let first: Atomic<Fragile, Own> = Atomic::new(Owned::new(Fragile(Tracked(&DROPS))));
    let slice: Atomic<[Fragile], Own> = Atomic::new(Owned::init(vec![Fragile(Tracked(&DROPS))]));
    // SAFETY: unlinked, and not linked again.
    unsafe {
        Own.retire_shared(first.swap(Shared::null(), &guard), DeferOptions::new());
        Own.retire_shared(slice.swap(Shared::null(), &guard), DeferOptions::new());
    }
    drop(guard);
    Own.barrier();
    // Panics are counted for the whole process, other tests included.
    assert!(Own.stats().panics >= before + 2);
    assert_eq!(DROPS.load(Acquire), 2);
}

#[test]
fn panic_in_an_item_does_not_leak_the_others() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let tracked = || Tracked(&DROPS);
    type Parts = (Tracked, Result<Fragile, Tracked>);
    let items: Vec<Parts> =
        vec![(tracked(), Err(tracked())), (tracked(), Ok(Fragile(tracked()))), (tracked(), Err(tracked()))];
    let owned = Owned::<[Parts]>::init(items);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(owned))).is_err());
    assert_eq!(DROPS.load(Relaxed), 6);
}

#[test]
fn retired_slice_counts_its_size() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let guard = Own::enter();
    let buffer: Atomic<[u8], Own> = Atomic::new(Owned::init(vec![1; 1000]));
    let old = buffer.swap(Shared::null(), &guard);
    // SAFETY: unlinked, and not linked again.
    unsafe { Own.retire_shared(old, DeferOptions::new().heap_bytes(24)) };
    assert_eq!(old.as_ref(), Some(&[1; 1000][..]));
    assert_eq!(Own.stats().queued_bytes, 1024);
    drop(guard);
    Own.barrier();
    assert_eq!(Own.stats().queued_bytes, 0);
}

#[test]
fn section_of_another_srcu_domain_is_refused() {
    let (here, there) = (srcu::Domain::new(), srcu::Domain::new());
    here.check_section(&here.clone().enter());
    assert!(catch_unwind(AssertUnwindSafe(|| here.check_section(&there.enter()))).is_err());
}

#[test]
fn pointers_are_formatted_without_their_nodes() {
    struct Opaque;
    let mut first: Atomic<Opaque, Rcu> = Atomic::null();
    assert_eq!(format!("{:?}", first.get_mut().with_tag(0)), "Shared { address: 0x0, tag: 0 }");
    assert_eq!(format!("{first:?}"), "Atomic(Shared { address: 0x0, tag: 0 })");
    assert_eq!(format!("{:?}", Owned::new(7_u64).with_tag(2)), "Owned { value: 7, tag: 2 }");
}

#[test]
fn owned_pointer_becomes_shared_and_back() {
    let guard = Rcu::enter();
    let first: Atomic<u64, Rcu> = Atomic::new(Owned::from(Box::new(7_u64)).with_tag(1));
    let shared = first.load(&guard);
    // SAFETY: from a pointer to the node, which exists.
    let same = unsafe { Shared::from_ptr(shared.as_ptr()) };
    assert_eq!((same.tag(), same.with_tag(1)), (0, shared));
    assert_ne!(same, shared);
    // SAFETY: no other thread has the pointer.
    let mut owned = unsafe { shared.into_owned() };
    *owned += 1;
    assert_eq!(*owned.into_box(), 8);
    assert_eq!(size_of::<Option<Owned<[u8]>>>(), size_of::<usize>());
}
