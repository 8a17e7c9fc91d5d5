//! liburcu's memb and qsbr flavors. The measured loops are C (`peers/liburcu.c`), because readers are inline C
//! functions.

use std::hint::black_box;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering;

use super::{BoxSlot, GracePeriods, Object, ReadSide, Reclaim, VALUE};

mod ffi {
    use std::ffi::{c_int, c_ulong};

    use super::Head;

    unsafe extern "C" {
        pub(super) safe fn urcu_memb_register_thread();
        pub(super) safe fn urcu_memb_unregister_thread();
        pub(super) safe fn urcu_memb_barrier();
        pub(super) safe fn urcu_memb_synchronize_rcu();
        pub(super) fn urcu_memb_call_rcu(head: *mut Head, func: unsafe extern "C" fn(*mut Head));
        pub(super) safe fn urcu_memb_create_all_cpu_call_rcu_data(flags: c_ulong) -> c_int;
        pub(super) safe fn urcu_memb_free_all_cpu_call_rcu_data();
        pub(super) safe fn urcu_qsbr_register_thread();
        pub(super) safe fn urcu_qsbr_unregister_thread();
        pub(super) safe fn urcu_qsbr_synchronize_rcu();

        pub(super) fn lab_urcu_enter();
        pub(super) fn lab_urcu_exit();
        pub(super) fn lab_urcu_read(slot: *const *mut u64, pairs: u32) -> u64;
        pub(super) fn lab_qsbr_read(slot: *const *mut u64, reads: u32) -> u64;
        pub(super) safe fn lab_qsbr_quiescent(reports: u32) -> u64;
    }
}

/// `synchronize_rcu()`. The calling thread must not be inside a section.
pub fn synchronize() {
    ffi::urcu_memb_synchronize_rcu();
}

/// `rcu_barrier()`: waits until everything that was deferred before has run. The calling thread must not be inside a
/// section.
pub fn barrier() {
    ffi::urcu_memb_barrier();
}

/// The calling thread as a registered reader of the memb flavor, until dropped.
#[derive(Debug)]
pub struct Reader(PhantomData<*const ()>);

impl Reader {
    /// Registers the calling thread, which must not be registered already.
    pub(super) fn register() -> Self {
        ffi::urcu_memb_register_thread();
        Self(PhantomData)
    }

    #[inline]
    fn enter(&self) -> Section<'_> {
        // SAFETY: the thread is registered, as `self` is not `Send`.
        unsafe { ffi::lab_urcu_enter() };
        Section(PhantomData)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        ffi::urcu_memb_unregister_thread();
    }
}

/// A section of a [`Reader`].
#[derive(Debug)]
pub struct Section<'a>(PhantomData<&'a Reader>);

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the thread is inside a section, which it entered in `Reader::enter`.
        unsafe { ffi::lab_urcu_exit() };
    }
}

/// The readers of the memb flavor.
pub struct Readers(BoxSlot<u64>);

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

    fn read(&self, _: &Reader, n: u32) -> u64 {
        // SAFETY: the thread is registered, as a reader is not `Send`; the slot points at a live number.
        unsafe { ffi::lab_urcu_read(black_box(&self.0).0.as_ptr(), n) }
    }
}

impl GracePeriods for Readers {
    fn synchronize(&self) {
        synchronize();
    }
}

/// The calling thread as a registered reader of the qsbr flavor, until dropped.
#[derive(Debug)]
pub struct QsbrReader(PhantomData<*const ()>);

impl Drop for QsbrReader {
    fn drop(&mut self) {
        ffi::urcu_qsbr_unregister_thread();
    }
}

/// The readers of the qsbr flavor.
pub struct QsbrReaders(BoxSlot<u64>);

impl ReadSide for QsbrReaders {
    const NAME: &'static str = super::LIBURCU_QSBR;
    type Reader<'a> = QsbrReader;
    type Guard<'a> = &'a QsbrReader;

    fn new() -> Self {
        Self(BoxSlot::new(Box::new(VALUE)))
    }

    fn reader(&self) -> QsbrReader {
        ffi::urcu_qsbr_register_thread();
        QsbrReader(PhantomData)
    }

    fn enter<'a>(&'a self, reader: &'a QsbrReader) -> &'a QsbrReader {
        reader
    }

    fn load(&self, guard: &&QsbrReader) -> u64 {
        self.read(guard, 1)
    }

    fn read(&self, _: &QsbrReader, n: u32) -> u64 {
        // SAFETY: the thread is registered, as a reader is not `Send`; the slot points at a live number.
        unsafe { ffi::lab_qsbr_read(black_box(&self.0).0.as_ptr(), n) }
    }

    fn load_many(&self, reader: &QsbrReader, n: u32) -> u64 {
        self.read(reader, n)
    }

    fn quiescent(_: &mut QsbrReader, n: u32) -> u64 {
        ffi::lab_qsbr_quiescent(n)
    }
}

impl GracePeriods for QsbrReaders {
    fn synchronize(&self) {
        ffi::urcu_qsbr_synchronize_rcu();
    }
}

/// `struct rcu_head`, which each object has that liburcu frees.
#[repr(C)]
#[derive(Debug)]
struct Head {
    next: *mut Head,
    func: Option<unsafe extern "C" fn(*mut Head)>,
}

/// An object that liburcu can free.
#[repr(C)]
#[derive(Debug)]
pub struct Node<T> {
    /// First, so that a pointer to it is a pointer to the node.
    head: Head,
    value: T,
}

impl<T> Node<T> {
    fn new(value: T) -> Box<Self> {
        Box::new(Self { head: Head { next: ptr::null_mut(), func: None }, value })
    }

    /// `call_rcu()`: drops `node` after a grace period, in a worker.
    ///
    /// # Safety
    ///
    /// The thread is registered. `node` comes from a `Box`. It is not freed otherwise, nor used after the sections
    /// that are open now.
    unsafe fn retire(node: *mut Self) {
        unsafe extern "C" fn free<T>(head: *mut Head) {
            // SAFETY: `retire` handed over a node of this type, whose head comes first.
            drop(unsafe { Box::from_raw(head.cast::<Node<T>>()) });
        }
        // SAFETY: the caller's contract; the node is retired once, and `free` is the function for its type.
        unsafe { ffi::urcu_memb_call_rcu(node.cast(), free::<T>) };
    }
}

/// With the single default worker, which is asleep while nothing is queued, and sleeps 10 ms too when it is woken. If
/// `POLLING`, with a worker for each CPU that checks its queue every 10 ms (`URCU_CALL_RCU_RT`): the fastest form, as
/// no thread wakes it, and the one with the longest queue.
pub struct Workers<const POLLING: bool>(());

impl<const POLLING: bool> Drop for Workers<POLLING> {
    fn drop(&mut self) {
        if POLLING {
            ffi::urcu_memb_free_all_cpu_call_rcu_data();
        }
    }
}

impl<const POLLING: bool> Reclaim for Workers<POLLING> {
    const NAME: &'static str = if POLLING { "liburcu-memb-rt" } else { super::LIBURCU };
    type Thread<'a> = Reader;
    type Guard<'a> = Section<'a>;
    type Slot<P: Object> = BoxSlot<Node<P>>;

    fn new() -> anyhow::Result<Self> {
        const URCU_CALL_RCU_RT: u64 = 1;
        if POLLING {
            let error = ffi::urcu_memb_create_all_cpu_call_rcu_data(URCU_CALL_RCU_RT);
            anyhow::ensure!(error == 0, "liburcu cannot start its workers: error {error}");
        }
        Ok(Self(()))
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
        // SAFETY: a published node lives until the sections end that were open when it was retired. Only the value is
        // borrowed: the head is liburcu's.
        unsafe { &(*slot.0.load(Ordering::Acquire)).value }
    }

    #[inline]
    fn replace<P: Object>(_: &Reader, slot: &BoxSlot<Node<P>>, value: P) {
        let old = slot.swap(Node::new(value));
        // SAFETY: a reader is a registered thread; the node came from a Box and is published no more.
        unsafe { Node::retire(old) };
    }

    fn call<F: FnOnce() + Send + 'static>(_: &Reader, f: F) {
        unsafe extern "C" fn run<F: FnOnce()>(head: *mut Head) {
            // SAFETY: `call` handed over a node of this type, whose head comes first.
            let node = unsafe { Box::from_raw(head.cast::<Node<F>>()) };
            (node.value)();
        }
        let node = Box::into_raw(Node::new(f));
        // SAFETY: a reader is a registered thread; the node is liburcu's alone, and `run` is the function for its
        // type.
        unsafe { ffi::urcu_memb_call_rcu(node.cast(), run::<F>) };
    }

    fn finish(self) -> impl Sized {
        barrier();
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// All in one test, as registration with liburcu concerns the whole process.
    #[test]
    fn liburcu_reads_waits_and_runs_callbacks() {
        let readers = Readers::new();
        let reader = readers.reader();
        assert_eq!(readers.read(&reader, 10), 70);
        drop((reader.enter(), reader.enter()));
        readers.synchronize();
        drop(reader);
        barrier_waits_for_deferred_work::<false>();
        barrier_waits_for_deferred_work::<true>();
    }

    fn barrier_waits_for_deferred_work<const POLLING: bool>() {
        struct Counted(&'static AtomicUsize);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        static DONE: AtomicUsize = AtomicUsize::new(0);
        DONE.store(0, Relaxed);
        let workers = Workers::<POLLING>::new().expect("workers");
        let (thread, slot) = (workers.thread(), Workers::<POLLING>::slot(Counted(&DONE)));
        for _ in 0..100 {
            Workers::<POLLING>::replace(&thread, &slot, Counted(&DONE));
            Workers::<POLLING>::call(&thread, || {
                DONE.fetch_add(1, Relaxed);
            });
        }
        drop(thread);
        drop(workers.finish());
        assert_eq!(DONE.load(Relaxed), 200);
    }
}
