//! A thread that waits for locks: its node, a count of steals, and for how long it has contended.
//!
//! A thread allocates a node at its first wait and frees it when it exits. A destructor that waits after that borrows a
//! node for each wait: nothing would free one that it keeps, as the C library runs destructors four times at most.
//! [`Waiter::node_in_use`] is set while the thread uses a node. A signal handler that finds it set must not touch the
//! node: it [polls](super::mutex::polling).
//!
//! A wait that times out may leave the node in the queue: the node is *abandoned*. When the thread waits for that
//! lock again, it rejoins the queue at the same place. Once a promoter has unlinked the node, the thread can use it
//! for any lock. Meanwhile it borrows a node for each wait for another lock. A borrowed node cannot be abandoned, so
//! timed waits poll then, and a thread leaves one node behind at most.
//!
//! If the thread exits, an abandoned node stays in the queue until a promoter unlinks it, which takes as long as the
//! lock is held. Threads that come, wait in vain and exit would use up all nodes of the process. So once
//! [`MANY_EXITED`](super::nodes::MANY_EXITED) are left in queues, timed waits poll, unless they rejoin a queue.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;

use super::nodes::{ABANDONED, IDLE, WAITING, table};
use super::patience::Patience;
use super::policy::{CLOCK_CHECK_EVERY, SLEEPER_NS};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{now, step};

/// See the [module](self). Only the thread and its signal handlers access it, so it uses `core`'s atomics in the
/// models too.
#[derive(Debug)]
pub struct Waiter {
    /// 1 while the thread uses a node or looks for one. A signal handler that finds 1 leaves the nodes alone.
    node_in_use: AtomicU32,
    /// The node that the thread keeps, or 0.
    pub(super) own: Cell<u32>,
    /// The address of the lock in whose queue it was abandoned, if it has not been used since; otherwise 0.
    pub(super) abandoned_at: Cell<usize>,
    /// Whether the node has been given up.
    pub(super) has_exited: Cell<bool>,
    /// Locks taken past a queue.
    steals: Cell<u32>,
    /// The address of the lock for which the thread last contended, and when.
    contended: Cell<(usize, u64)>,
    /// When the thread began to contend, after a pause or a yield; or when it may begin to, after a sleep.
    contends_since: Cell<u64>,
    /// How long it spins for condition variables.
    pub patience: Patience,
}

/// The place where a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the queue, with this node, which the thread has yet to enqueue.
    Tail(u32),
    /// In the queue, with this node, which is still in it.
    Rejoined(u32),
    /// Without a node.
    None,
}

#[cfg(loom)]
loom::thread_local! {
    static WAITER: Waiter = Waiter::new();
}

/// Calls `f` with the state of the calling thread.
#[inline(always)]
pub fn with<R>(f: impl FnOnce(&Waiter) -> R) -> R {
    #[cfg(loom)]
    return WAITER.with(f);
    #[cfg(not(loom))]
    crate::with_thread_variable!(Waiter = Waiter::new(), late = Waiter::ended(), end = Waiter::exit, f)
}

impl Waiter {
    const fn new() -> Self {
        Self {
            node_in_use: AtomicU32::new(0),
            own: Cell::new(0),
            abandoned_at: Cell::new(0),
            has_exited: Cell::new(false),
            steals: Cell::new(0),
            contended: Cell::new((0, 0)),
            contends_since: Cell::new(0),
            patience: Patience::new(),
        }
    }

    /// Returns the state of a thread whose destructors run: it has no nodes, as in a signal handler.
    #[cfg(stillpoint_portable)]
    const fn ended() -> Self {
        Self { node_in_use: AtomicU32::new(1), ..Self::new() }
    }

    /// Finds a place to wait for the lock at this address. The node is in use until [`release`](Self::release).
    pub fn acquire(&self, lock: usize, is_timed: bool) -> Place {
        // Acquire and Release, here and below: between the thread and its signal handlers.
        if self.node_in_use.swap(1, Acquire) != 0 {
            return Place::None;
        }
        let place = self.find_place(lock, is_timed);
        if place == Place::None {
            self.node_in_use.store(0, Release);
        }
        place
    }

    fn find_place(&self, lock: usize, is_timed: bool) -> Place {
        let id = self.own.get();
        if id != 0 {
            let state = &table().node(id).state;
            // Relaxed: only the owner has used the node.
            if self.has_abandoned_at(lock)
                && state.compare_exchange(ABANDONED, WAITING, Relaxed, Relaxed).is_ok()
            {
                self.abandoned_at.set(0);
                return Place::Rejoined(id);
            }
            if is_timed && table().has_many_exited() {
                return Place::None;
            }
            // Acquire: the promoter is done with the node; pairs with the Release in `unlink_abandoned_head`.
            if state.load(Acquire) == IDLE {
                self.abandoned_at.set(0);
                return Place::Tail(id);
            }
        }
        let keeps = id == 0 && !self.has_exited.get() && exit::arm();
        if is_timed && (!keeps || table().has_many_exited()) {
            return Place::None;
        }
        let Some(id) = table().alloc() else { return Place::None };
        if keeps {
            self.own.set(id);
        }
        Place::Tail(id)
    }

    /// Returns `true` if the thread keeps this node, and so may abandon it.
    pub fn owns(&self, id: u32) -> bool {
        self.own.get() == id
    }

    /// Records that the thread has abandoned a node that it keeps, in the queue of the lock at this address.
    pub fn abandons(&self, id: u32, lock: usize) {
        // In some models the node is no thread's.
        if self.owns(id) {
            self.abandoned_at.set(lock);
        }
    }

    /// Returns `true` if a node of this thread may still be in the queue of the lock at this address.
    pub fn has_abandoned_at(&self, lock: usize) -> bool {
        self.abandoned_at.get() == lock
    }

    /// Ends the use of a node. A borrowed node, which is in no queue, is freed.
    pub fn release(&self, id: u32) {
        if !self.owns(id) {
            step!("borrowed-node-leaked", table().free(id));
        }
        self.node_in_use.store(0, Release);
    }

    /// Gives up the node when the thread exits. The thread keeps none from then on.
    pub fn exit(&self) {
        let was = self.node_in_use.swap(1, Acquire);
        self.has_exited.set(true);
        self.patience.exit();
        let id = self.own.replace(0);
        if self.abandoned_at.replace(0) != 0 {
            table().free_at_exit(id);
        } else if id != 0 {
            step!("own-node-leaked", table().free(id));
        }
        self.node_in_use.store(was, Release);
    }

    /// Records that the thread contends for the lock at this address, at this `time`. Returns `true` if it has done
    /// so for `period` nanoseconds, without a pause of that length or another lock in between, since it last yielded
    /// its CPU.
    pub fn has_contended_for(&self, lock: usize, period: u64, time: u64) -> bool {
        let (last, at) = self.contended.replace((lock, time));
        if last != lock || time.saturating_sub(at) >= period {
            self.contends_not_before(time);
        }
        time.saturating_sub(self.contends_since.get()) >= period
    }

    /// Records that the thread has yielded its CPU until this `time`.
    pub fn has_yielded(&self, time: u64) {
        self.contended.set((self.contended.get().0, time));
        self.contends_not_before(time);
    }

    /// Returns `true` if the thread has waited for a condition variable within [`SLEEPER_NS`] before this `time`.
    pub fn has_slept_lately(&self, time: u64) -> bool {
        self.contends_since.get() > time
    }

    /// The thread does not count as one that contends before this `time`.
    pub fn contends_not_before(&self, time: u64) {
        self.contends_since.set(self.contends_since.get().max(time));
    }

    /// Ends the use of the node of a wait for a condition variable.
    pub fn finish_wait(&self, id: u32) {
        self.release(id);
        self.contends_not_before(now().saturating_add(SLEEPER_NS));
    }

    /// Returns `true` if the next steal is to check the clock.
    #[inline]
    pub fn clock_check_due(&self) -> bool {
        self.steals.get() % CLOCK_CHECK_EVERY == CLOCK_CHECK_EVERY - 1
    }

    /// Counts a steal.
    #[inline]
    pub fn count_steal(&self) {
        self.steals.set(self.steals.get().wrapping_add(1));
    }
}

#[cfg(loom)]
mod exit {
    /// The model's threads keep their nodes.
    pub fn arm() -> bool {
        true
    }
}

#[cfg(not(loom))]
mod exit {
    use core::ffi::c_void;
    use core::ptr;

    use super::{Waiter, step, table, with};
    use crate::sys::fork::{ForkHook, register_for_fork};
    use crate::sys::init_array;
    use crate::sys::tls_destructor::AtThreadExit;

    static EXIT: AtThreadExit = AtThreadExit::new(at_exit);
    static FORK: ForkHook = ForkHook::in_child(2, in_child);

    init_array!(prepare());

    /// Runs before `main`, so that the C library needs no memory for the key: a thread's first contended release may
    /// be in a signal handler.
    fn prepare() {
        EXIT.prepare();
        // If there is no memory for the handler, children of forks keep the queues that they inherit.
        register_for_fork(&FORK);
    }

    /// Has the node freed when the thread exits. Returns `false` if that is not possible.
    pub fn arm() -> bool {
        // SAFETY: `at_exit` ignores its argument; any non-null pointer makes the C library call it.
        unsafe { EXIT.arm(ptr::without_provenance_mut(1)) }
    }

    unsafe extern "C" fn at_exit(_: *mut c_void) {
        with(Waiter::exit);
    }

    fn in_child() {
        // The table frees those that are in no queue.
        with(|waiter| {
            waiter.patience.in_child();
            step!("child-keeps-nodes", waiter.own.set(0));
            step!("child-remembers-queues", waiter.abandoned_at.set(0));
        });
        table().reset_in_child();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::nodes::exclude_other_tests;
    use super::*;

    fn tail(waiter: &Waiter, lock: usize, is_timed: bool) -> u32 {
        let Place::Tail(id) = waiter.acquire(lock, is_timed) else { panic!("no new node") };
        id
    }

    #[test]
    fn thread_keeps_its_place_in_one_queue() {
        let _alone = exclude_other_tests();
        let waiter = Waiter::new();
        let id = tail(&waiter, 1, true);
        table().node(id).state.store(ABANDONED, Relaxed);
        waiter.abandons(id, 1);
        waiter.release(id);
        assert_eq!(waiter.acquire(2, true), Place::None, "a borrowed node cannot be abandoned");
        let borrowed = tail(&waiter, 2, false);
        assert!(!waiter.owns(borrowed) && borrowed != id);
        waiter.release(borrowed);
        assert!(waiter.has_abandoned_at(1));
        assert_eq!(waiter.acquire(1, true), Place::Rejoined(id));
        assert!(!waiter.has_abandoned_at(1));
        table().node(id).state.store(IDLE, Relaxed);
        waiter.release(id);
        assert_eq!(waiter.acquire(2, true), Place::Tail(id));
        waiter.release(id);
        waiter.exit();
        assert!(!waiter.owns(id));
    }

    #[test]
    fn destructor_that_waits_after_the_exit_keeps_no_node() {
        let _alone = exclude_other_tests();
        let waiter = Waiter::new();
        waiter.release(tail(&waiter, 1, true));
        waiter.exit();
        assert_eq!(waiter.acquire(1, true), Place::None, "a borrowed node cannot be abandoned");
        let borrowed = tail(&waiter, 1, false);
        assert!(!waiter.owns(borrowed));
        waiter.release(borrowed);
        assert_eq!(table().alloc(), Some(borrowed), "it is free");
        table().free(borrowed);
    }

    #[test]
    fn thread_yields_once_a_period_while_it_contends() {
        let waiter = Waiter::new();
        let yields = |time| waiter.has_contended_for(1, 50, time);
        assert!(![1000, 1049, 1020].map(yields).contains(&true), "the period is not over");
        assert!(yields(1051));
        waiter.has_yielded(1060);
        assert!(![1070, 1109].map(yields).contains(&true));
        assert!(yields(1110));
        assert!(![1160, 1200].map(yields).contains(&true), "there was a pause");
        assert!(!waiter.has_contended_for(2, 50, 1205) && !yields(1215), "there was another lock");
        assert!(![1264].map(yields).contains(&true) && yields(1265));
    }

    #[test]
    fn thread_does_not_yield_soon_after_a_sleep() {
        let waiter = Waiter::new();
        let yields = |time| waiter.has_contended_for(1, 50, time);
        waiter.contends_not_before(2000);
        assert!(![1000, 1040, 1080, 1120].map(yields).contains(&true), "it has slept");
        waiter.has_yielded(1500);
        assert!(
            ![1520, 1560, 1600].map(yields).contains(&true),
            "it has slept, and yielded for another reason"
        );
        assert!(![1990, 2030, 2049].map(yields).contains(&true) && yields(2050));
    }
}
