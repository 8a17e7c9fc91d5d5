//! What a thread keeps for locks: its slot, and a memory of what it did.
//!
//! # The slot
//!
//! A thread leases a slot at its first wait and gives it back when it ends; a destructor that locks after that leases one for
//! as long as it waits. [`Local::busy`] says that the slot is in use. A signal handler that finds it must not stand in a queue,
//! perhaps behind the thread that it has interrupted; it waits [outside](super::outside).
//!
//! A wait that times out may leave the slot in the queue. The thread keeps it, to take its place again when it comes back to
//! that lock, or to use it elsewhere once it has been passed over. Until then it leases another one for a single wait, which
//! it does not leave before it has been the head; or, if it would wait for a limited time again, waits outside: so no thread leaves
//! more than one slot behind.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;

use super::table::{FORKED, GONE, IDLE, WAIT, table};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{mutant, now, step};

/// See the [module](self). Only this thread and its signal handlers touch it, which is why `core`'s atomics do in the model too.
#[derive(Debug)]
pub struct Local {
    /// Changes by single instructions, for signal handlers, which leave what concerns slots alone if it is 1.
    busy: AtomicU32,
    /// The slot, or 0.
    own: Cell<u32>,
    /// The lock, by address, in whose queue the slot was left; 0 if none.
    left_at: Cell<usize>,
    /// The slot whose owner the thread is about to wake, or 0; for signal handlers.
    kicking: AtomicU32,
    /// How often the thread is outside: more than once if a handler has interrupted it there.
    outside: AtomicU32,
    /// The slot that it waits in, or 0; and the one that it promotes. For the child of a fork, that a handler makes.
    waits_in: AtomicU32,
    promoting: AtomicU32,
    /// The slot has been given back by the destructor.
    has_ended: Cell<bool>,
    /// The lock, by address, at which the thread has ended a quantum; 0 if none.
    ended_at: Cell<usize>,
    /// When it last got a lock by waiting in a queue.
    came_at: Cell<u64>,
    /// Locks taken past a queue; and how often, since the last look, a lock was not to be had at once.
    steals: Cell<u32>,
    found_taken: Cell<u32>,
    /// The time of the last look, and how long the lock was held that was taken then; whether it is held yet.
    looked_at: Cell<u64>,
    held: Cell<u64>,
    times: Cell<bool>,
    /// Slow acquisitions for which the thread still takes its time.
    patient: Cell<u32>,
    /// How often the thread has lost races: [`LOST`] up with each, one down with each slow acquisition.
    lost: Cell<u32>,
}

/// Slow acquisitions for which a lost race is remembered.
const PATIENT: u32 = 256;
/// Weight of a lost race, the sum that makes it often, and the most.
const LOST: u32 = 16;
const LOST_OFTEN: u32 = 64;
const LOST_MOST: u32 = 512;

/// Where a thread is to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the end of the queue, in this slot.
    Last(u32),
    /// Where the slot is in the queue already.
    Back(u32),
    /// Outside the queue.
    Outside,
}

#[cfg(not(loom))]
thread_local! {
    static LOCAL: Local = const { Local::new() };
}
#[cfg(loom)]
loom::thread_local! {
    static LOCAL: Local = Local::new();
}

/// Calls `f` with what the calling thread keeps.
#[inline(always)]
pub fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

impl Local {
    const fn new() -> Self {
        Self {
            busy: AtomicU32::new(0),
            own: Cell::new(0),
            left_at: Cell::new(0),
            kicking: AtomicU32::new(0),
            outside: AtomicU32::new(0),
            waits_in: AtomicU32::new(0),
            promoting: AtomicU32::new(0),
            has_ended: Cell::new(false),
            ended_at: Cell::new(0),
            came_at: Cell::new(0),
            steals: Cell::new(0),
            found_taken: Cell::new(0),
            looked_at: Cell::new(0),
            held: Cell::new(0),
            times: Cell::new(false),
            patient: Cell::new(0),
            lost: Cell::new(0),
        }
    }

    /// Whether the thread has left its slot in the queue of the lock with this address, or has it there again.
    pub fn has_left(&self, lock: usize) -> bool {
        self.left_at.get() == lock
    }

    /// A place to wait in for the lock with this address. A slot is in use until [`put`](Self::put) or
    /// [`leave`](Self::leave).
    pub fn take(&self, lock: usize, is_timed: bool) -> Place {
        // Acquire and Release, here and below, between the thread and its handlers.
        if self.busy.swap(1, Acquire) != 0 {
            return Place::Outside;
        }
        let place = self.find_place(lock, is_timed);
        match place {
            Place::Last(slot) | Place::Back(slot) => {
                self.waits_in.swap(slot, AcqRel);
            }
            Place::Outside => {
                self.waits_in.swap(0, AcqRel);
                self.busy.store(0, Release);
            }
        }
        place
    }

    fn find_place(&self, lock: usize, is_timed: bool) -> Place {
        let own = self.own.get();
        let left_at = self.left_at.get();
        if left_at == 0 && own != 0 {
            return Place::Last(own);
        }
        if left_at != 0 {
            let state = &table().node(own).state;
            // Before the slot is one to wait in, for the child of a fork.
            self.waits_in.swap(own, AcqRel);
            // In the child of a fork a lock may be made anew although there is somebody in its queue: no thread comes back to one.
            let may_come_back = left_at == lock && table().unusual.load(Relaxed) & FORKED == 0;
            // Relaxed: only its owner has used the slot.
            if may_come_back && state.compare_exchange(GONE, WAIT, Relaxed, Relaxed).is_ok() {
                self.left_at.set(0);
                return Place::Back(own);
            }
            // Acquire: who passed it over has done with it; partner: the Release in `pass_over`.
            if state.load(Acquire) == IDLE {
                self.left_at.set(0);
                return Place::Last(own);
            }
        }
        let keeps = own == 0 && !self.has_ended.get() && exit::arm();
        if is_timed && !keeps {
            return Place::Outside;
        }
        let Some(slot) = table().lease() else { return Place::Outside };
        if keeps {
            self.own.set(slot);
        }
        Place::Last(slot)
    }

    /// Whether the thread keeps this slot, and so may leave it in a queue.
    pub fn owns(&self, slot: u32) -> bool {
        self.own.get() == slot
    }

    /// For tests: whether a slot is in use, or being looked for.
    #[cfg(all(test, not(loom)))]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    /// For tests: the slot, or 0.
    #[cfg(all(test, not(loom)))]
    pub fn own(&self) -> u32 {
        self.own.get()
    }

    /// Ends the use of a slot that is in no queue.
    pub fn put(&self, slot: u32) {
        self.waits_in.swap(0, AcqRel);
        if slot != self.own.get() {
            step!("borrowed-node-leaked", table().give_back(slot));
        }
        self.busy.store(0, Release);
    }

    /// Ends the use of the own slot, which stays in the queue of the lock with this address.
    pub fn leave(&self, lock: usize) {
        self.left_at.set(lock);
        self.waits_in.swap(0, AcqRel);
        self.busy.store(0, Release);
    }

    /// Slots are in use from now on, or as before: `was` of the call that began it.
    pub fn holds(&self, was: u32) -> u32 {
        self.busy.swap(was, AcqRel)
    }

    /// The thread is about to take `slot` out of a queue, or to make it the first; for which it was before.
    pub fn promotes(&self, slot: u32) -> u32 {
        self.promoting.swap(slot, AcqRel)
    }

    /// The thread is about to wake the owner of `slot`; of whom it was about to do that before.
    pub fn kicks(&self, slot: u32) -> u32 {
        // Between the thread and its handlers.
        self.kicking.swap(slot, AcqRel)
    }

    /// See [`kicks`](Self::kicks).
    pub fn kicking(&self) -> u32 {
        self.kicking.load(Acquire)
    }

    /// The thread is outside from now on; for the child of a fork, that a handler makes.
    pub fn goes_outside(&self) {
        self.outside.fetch_add(1, AcqRel);
    }

    /// The thread is not outside any more.
    pub fn comes_inside(&self) {
        self.outside.fetch_sub(1, AcqRel);
    }

    /// The thread ends. If it locks after that, in a later destructor, it leases slots for single waits.
    pub fn end(&self) {
        let busy = self.busy.swap(1, Acquire);
        self.has_ended.set(true);
        let slot = self.own.replace(0);
        if self.left_at.replace(0) != 0 {
            table().orphan(slot);
        } else if slot != 0 && !mutant("own-node-leaked") {
            table().give_back(slot);
        }
        self.busy.store(busy, Release);
    }

    /// Whether the thread looks at the clock when it takes a lock past a queue: one time in `every`.
    #[inline]
    pub fn looks_next(&self, every: u32) -> bool {
        self.steals.get() % every == every - 1
    }

    /// The thread has taken a lock past a queue.
    #[inline]
    pub fn has_stolen(&self) {
        self.steals.set(self.steals.get().wrapping_add(1));
    }

    /// The thread did not get a lock at once.
    pub fn has_found_it_taken(&self) {
        self.found_taken.set(self.found_taken.get().saturating_add(1));
    }

    /// The thread has released a lock with a queue.
    #[inline]
    pub fn has_released(&self) {
        if self.times.get() {
            self.times.set(false);
            self.held.set(now().saturating_sub(self.looked_at.get()));
        }
    }

    /// At the last of `every` steals: whether the lock hardly rests, as far as this thread can tell. It was not to be had at once a
    /// quarter of the times, or the thread itself held it for an eighth of the time.
    pub fn is_in_demand(&self, every: u32, time: u64) -> bool {
        let passed = time.saturating_sub(self.looked_at.replace(time));
        let (held, found_taken) = (self.held.replace(0), self.found_taken.replace(0));
        self.times.set(true);
        found_taken.saturating_mul(4) >= every || held.saturating_mul(u64::from(every) * 8) >= passed
    }

    /// The thread has got a lock by waiting in a queue.
    pub fn comes(&self, time: u64) {
        self.came_at.set(time);
    }

    /// Nanoseconds since the thread got a lock by waiting in a queue.
    pub fn has_stayed(&self, time: u64) -> u64 {
        time.saturating_sub(self.came_at.get())
    }

    /// The thread has ended a quantum at the lock with this address.
    pub fn end_quantum(&self, lock: usize) {
        self.ended_at.set(lock);
    }

    /// Whether the thread has ended a quantum at this lock; says so once.
    pub fn has_ended_quantum(&self, lock: usize) -> bool {
        let has = self.ended_at.get() == lock;
        if has {
            self.ended_at.set(0);
        }
        has
    }

    /// The thread has lost a race for a lock.
    pub fn lose_race(&self) {
        self.patient.set(PATIENT);
        self.lost.set((self.lost.get() + LOST).min(LOST_MOST));
    }

    /// Whether the thread is to take its time before it looks at a lock again, as it has lost a race; and between all looks, as it
    /// loses races again and again. Counts a slow acquisition.
    pub fn takes_its_time(&self) -> (bool, bool) {
        let (patient, lost) = (self.patient.get(), self.lost.get());
        self.patient.set(patient.saturating_sub(1));
        self.lost.set(lost.saturating_sub(1));
        (patient > 0, lost > LOST_OFTEN)
    }
}

#[cfg(loom)]
mod exit {
    /// The model's threads keep their slots.
    pub fn arm() -> bool {
        true
    }
}

#[cfg(not(loom))]
mod exit {
    use core::ffi::c_void;
    use core::ptr;

    use super::{Acquire, Relaxed, Release, table, with};
    use crate::sys::at_exit::AtThreadExit;
    use crate::sys::signal::{at_fork, before_main};

    static EXIT: AtThreadExit = AtThreadExit::new(at_exit);

    before_main!(prepare);

    /// Early, so that the key is one of those for which the C library needs no memory: the first contended lock of a thread
    /// may be in a signal handler.
    extern "C" fn prepare() {
        EXIT.prepare();
        // Without memory, children of forks lack the slots of their parents' other threads.
        let _ = at_fork(in_child);
    }

    /// Has the slot given back at the end of the thread. False if that cannot be done.
    pub fn arm() -> bool {
        // SAFETY: `at_exit` does not use the pointer, which is not null only because it would not be called else.
        unsafe { EXIT.arm(ptr::without_provenance_mut(1)) }
    }

    unsafe extern "C" fn at_exit(_: *mut c_void) {
        with(super::Local::end);
    }

    unsafe extern "C" fn in_child() {
        with(|local| {
            let busy = local.busy.swap(1, Acquire);
            // In the middle of something, which goes on, nobody knows whose a slot is that is in no queue. Else one that was
            // left in a queue stays there, and is dead.
            if busy == 0 && local.left_at.get() != 0 {
                local.left_at.set(0);
                local.own.set(0);
            }
            let used = [local.own.get(), local.waits_in.load(Relaxed), local.promoting.load(Relaxed)];
            table().reset_in_child(used, busy == 0, local.outside.load(Relaxed));
            local.busy.store(busy, Release);
        });
    }
}
