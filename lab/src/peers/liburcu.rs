//! liburcu's memb flavor. The measured loops are C (`peers/liburcu.c`), because its readers are inline C functions.

use std::hint::black_box;
use std::marker::PhantomData;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::{BoxSlot, Events, GracePeriods, Object, ReadSide, Reclaim, VALUE};

mod ffi {
    use super::{Events, Head};

    unsafe extern "C" {
        pub(super) safe fn lab_urcu_barrier();
        pub(super) safe fn lab_urcu_start_polling_workers() -> i32;
        pub(super) safe fn lab_urcu_stop_polling_workers();
        pub(super) fn lab_urcu_enter();
        pub(super) fn lab_urcu_exit();
        pub(super) fn lab_urcu_call(head: *mut Head, func: unsafe extern "C" fn(*mut Head));
        pub(super) safe fn lab_urcu_register();
        pub(super) safe fn lab_urcu_unregister();
        pub(super) safe fn lab_urcu_synchronize();
        pub(super) safe fn lab_urcu_counters() -> Events;
        pub(super) fn lab_urcu_read(slot: *const *mut u64, pairs: u32) -> u64;
        pub(super) fn lab_urcu_read_nested(slot: *const *mut u64, pairs: u32) -> u64;
    }
}

/// What liburcu did since the program started: grace periods driven while a thread was registered, calls of `membarrier`, and
/// calls of `FUTEX_WAKE` (by readers that let a grace period go on, and by leaders for the callers they served).
pub(crate) fn counters() -> Events {
    ffi::lab_urcu_counters()
}

/// `synchronize_rcu()`. The calling thread must not hold a section.
pub(crate) fn synchronize() {
    ffi::lab_urcu_synchronize();
}

/// `rcu_barrier()`: waits until all that was handed to [`Reader::retire`] and [`Reader::call`] before has run. The calling
/// thread must not hold a section.
pub(crate) fn barrier() {
    ffi::lab_urcu_barrier();
}

/// A worker thread for each CPU that checks its queue every 10 ms (`URCU_CALL_RCU_RT`), in place of the single default
/// one that sleeps until it is woken; until dropped.
#[derive(Debug)]
pub(crate) struct PollingWorkers(());

impl PollingWorkers {
    /// Starts the workers. There must be none yet.
    pub(crate) fn start() -> anyhow::Result<Self> {
        match ffi::lab_urcu_start_polling_workers() {
            0 => Ok(Self(())),
            error => anyhow::bail!("liburcu cannot start its workers: error {error}"),
        }
    }
}

impl Drop for PollingWorkers {
    fn drop(&mut self) {
        ffi::lab_urcu_stop_polling_workers();
    }
}

/// `struct rcu_head`: what liburcu needs in each object that it is to free.
#[repr(C)]
#[derive(Debug)]
struct Head {
    next: *mut Head,
    func: Option<unsafe extern "C" fn(*mut Head)>,
}

/// An object that liburcu can free.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Node<T> {
    /// First, so that a pointer to it is a pointer to the node.
    head: Head,
    pub(crate) value: T,
}

// SAFETY: the head belongs to liburcu from `retire` on, and is not used before.
unsafe impl<T: Send> Send for Node<T> {}
// SAFETY: as for `Send`; shared, only the value can be reached.
unsafe impl<T: Sync> Sync for Node<T> {}

impl<T> Node<T> {
    pub(crate) fn new(value: T) -> Box<Self> {
        Box::new(Self { head: Head { next: ptr::null_mut(), func: None }, value })
    }

    /// The value of a new node.
    pub(crate) fn leak(value: T) -> NonNull<T> {
        let node = Box::into_raw(Self::new(value));
        // SAFETY: the node lives; the pointer may be used for all of it, as none is made to a reference.
        unsafe { NonNull::new_unchecked(&raw mut (*node).value) }
    }

    /// The node of a value that comes from [`leak`](Self::leak).
    pub(crate) fn of(value: NonNull<T>) -> *mut Self {
        value.as_ptr().wrapping_byte_sub(mem::offset_of!(Self, value)).cast()
    }
}

/// The calling thread as a registered reader, until dropped.
#[derive(Debug)]
pub(crate) struct Reader(PhantomData<*const ()>);

impl Reader {
    /// Registers the calling thread, which must not be registered already.
    pub(crate) fn register() -> Self {
        ffi::lab_urcu_register();
        Self(PhantomData)
    }

    /// Opens, reads and closes `pairs` sections, one after the other.
    pub(crate) fn read(&self, slot: &BoxSlot<u64>, pairs: u32) -> u64 {
        // SAFETY: the thread is registered, as `self` is not `Send`; the slot points at a live number.
        unsafe { ffi::lab_urcu_read(slot.0.as_ptr(), pairs) }
    }

    /// Like [`Reader::read`], with a second section inside each.
    pub(crate) fn read_nested(&self, slot: &BoxSlot<u64>, pairs: u32) -> u64 {
        // SAFETY: as in `read`.
        unsafe { ffi::lab_urcu_read_nested(slot.0.as_ptr(), pairs) }
    }

    /// Begins a section, which lasts until the guard is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> Section<'_> {
        // SAFETY: the thread is registered, as `self` is not `Send`.
        unsafe { ffi::lab_urcu_enter() };
        Section(self)
    }

    /// `call_rcu()`: drops `node` after a grace period, in a worker.
    ///
    /// # Safety
    ///
    /// `node` comes from a `Box`. It is not freed otherwise, nor used after the sections that are open now.
    pub(crate) unsafe fn retire<T: Send + 'static>(&self, node: *mut Node<T>) {
        unsafe extern "C" fn free<T>(head: *mut Head) {
            // SAFETY: `retire` handed over a node of this type, whose head comes first.
            drop(unsafe { Box::from_raw(head.cast::<Node<T>>()) });
        }
        // SAFETY: the thread is registered; the node is retired once, and `free` is the function for its type.
        unsafe { ffi::lab_urcu_call(node.cast(), free::<T>) };
    }

    /// `call_rcu()`: calls `function` after a grace period, in a worker.
    pub(crate) fn call<F: FnOnce() + Send + 'static>(&self, function: F) {
        unsafe extern "C" fn run<F: FnOnce()>(head: *mut Head) {
            // SAFETY: `call` handed over a node of this type, whose head comes first.
            let node = unsafe { Box::from_raw(head.cast::<Node<F>>()) };
            (node.value)();
        }
        let node = Box::into_raw(Node::new(function));
        // SAFETY: the thread is registered; the node is liburcu's alone, and `run` is the function for its type.
        unsafe { ffi::lab_urcu_call(node.cast(), run::<F>) };
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        ffi::lab_urcu_unregister();
    }
}

/// A section of a [`Reader`].
#[derive(Debug)]
pub(crate) struct Section<'a>(&'a Reader);

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the thread is inside a section, which it entered in `Reader::enter`.
        unsafe { ffi::lab_urcu_exit() };
    }
}

/// The readers of the memb flavor, whose loops are inlined in C.
pub(crate) struct Readers(BoxSlot<u64>);

impl ReadSide for Readers {
    const NAME: &'static str = super::LIBURCU;
    type Reader<'a> = Reader;
    type Guard<'a> = Section<'a>;

    fn new() -> Self {
        Self(BoxSlot::new(Box::new(VALUE)))
    }

    fn reader(&self) -> Reader {
        Reader::register()
    }

    fn enter<'a>(&'a self, reader: &'a Reader) -> Section<'a> {
        reader.enter()
    }

    fn load(&self, _: &Section<'_>) -> u64 {
        // SAFETY: the number is not freed before the slot, which is borrowed.
        unsafe { *black_box(&self.0).0.load(Ordering::Acquire) }
    }

    fn read(&self, reader: &Reader, n: u32) -> u64 {
        reader.read(black_box(&self.0), n)
    }

    fn read_nested(&self, reader: &Reader, n: u32) -> u64 {
        reader.read_nested(black_box(&self.0), n)
    }

    fn load_many(&self, reader: &Reader, n: u32) -> u64 {
        let _section = reader.enter();
        self.read(reader, n)
    }
}

impl GracePeriods for Readers {
    fn synchronize(&self) {
        synchronize();
    }

    fn events() -> Events {
        counters()
    }
}

/// With the single default worker, which is asleep while nothing is queued, and sleeps 10 ms too when it is woken. If `POLLING`,
/// with a worker for each CPU that never sleeps longer than 10 ms: the fastest form, as no thread wakes it, and the one with
/// the longest queue.
pub(crate) struct Workers<const POLLING: bool>(Option<PollingWorkers>);

impl<const POLLING: bool> Reclaim for Workers<POLLING> {
    const NAME: &'static str = if POLLING { "liburcu-memb-rt" } else { super::LIBURCU };
    type Thread<'a> = Reader;
    type Guard<'a> = Section<'a>;
    type Slot<P: Object> = BoxSlot<Node<P>>;

    fn new() -> anyhow::Result<Self> {
        POLLING.then(PollingWorkers::start).transpose().map(Self)
    }

    fn thread(&self) -> Reader {
        Reader::register()
    }

    #[inline]
    fn enter<'a>(thread: &'a Reader) -> Section<'a> {
        thread.enter()
    }

    fn slot<P: Object>(value: P) -> BoxSlot<Node<P>> {
        BoxSlot::new(Node::new(value))
    }

    #[inline]
    fn get<'a, P: Object>(_: &'a Section<'_>, slot: &'a BoxSlot<Node<P>>) -> &'a P {
        // SAFETY: what is published lives until the sections end that were open when it was retired. Only the value is
        // borrowed: the head is liburcu's.
        unsafe { &(*slot.0.load(Ordering::Acquire)).value }
    }

    #[inline]
    fn replace<P: Object>(thread: &Reader, slot: &BoxSlot<Node<P>>, value: P) {
        let old = slot.swap(Node::new(value));
        // SAFETY: the node came from a Box and is published no more.
        unsafe { thread.retire(old) };
    }

    /// The node is the value of one of liburcu's.
    #[inline]
    fn allocate<N: Send + 'static>(node: N) -> NonNull<N> {
        Node::leak(node)
    }

    #[inline]
    unsafe fn retire<N: Send + 'static>(guard: &Section<'_>, node: NonNull<N>) {
        // SAFETY: the caller's contract; the value comes from `Node::leak`.
        unsafe { guard.0.retire(Node::of(node)) };
    }

    fn call(thread: &Reader, f: impl FnOnce() + Send + 'static) {
        thread.call(f);
    }

    fn finish(self) -> impl Sized {
        barrier();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Everything is in one test, as what is registered with liburcu concerns the whole process.
    #[test]
    fn liburcu_counts_grace_periods_and_runs_callbacks() {
        a_call_counts_as_a_grace_period_only_if_it_issued_barriers();
        a_barrier_waits_for_what_was_deferred_before();
    }

    fn a_barrier_waits_for_what_was_deferred_before() {
        struct Counted(&'static AtomicUsize);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        static FREED: AtomicUsize = AtomicUsize::new(0);
        static CALLED: AtomicUsize = AtomicUsize::new(0);
        let reader = Reader::register();
        let defer = || {
            assert_eq!(FREED.load(Ordering::Relaxed), CALLED.load(Ordering::Relaxed));
            for _ in 0..100 {
                // SAFETY: the node was never published.
                unsafe { reader.retire(Box::into_raw(Node::new(Counted(&FREED)))) };
                reader.call(|| {
                    CALLED.fetch_add(1, Ordering::Relaxed);
                });
            }
            barrier();
        };
        defer();
        assert_eq!((FREED.load(Ordering::Relaxed), CALLED.load(Ordering::Relaxed)), (100, 100));
        let workers = PollingWorkers::start().expect("workers");
        defer();
        drop(workers);
        assert_eq!((FREED.load(Ordering::Relaxed), CALLED.load(Ordering::Relaxed)), (200, 200));
    }

    fn a_call_counts_as_a_grace_period_only_if_it_issued_barriers() {
        // Nothing is registered: there is nothing to wait for.
        let before = counters();
        synchronize();
        let after = counters();
        assert_eq!(after.grace_periods - before.grace_periods, 0);
        assert_eq!(after.heavy - before.heavy, 0);

        let slot = BoxSlot::new(Box::new(7));
        let reader = Reader::register();
        assert_eq!(reader.read(&slot, 10), 70);
        assert_eq!(reader.read_nested(&slot, 10), 70);
        drop((reader.enter(), reader.enter()));

        let before = counters();
        synchronize();
        let after = counters();
        if after.heavy == before.heavy {
            // membarrier is denied here, and liburcu uses fences that cannot be counted.
            return;
        }
        assert_eq!(after.grace_periods - before.grace_periods, 1);
        assert_eq!(after.heavy - before.heavy, 2);
        assert_eq!(after.wakes - before.wakes, 0);
    }
}
