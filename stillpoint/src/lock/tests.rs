//! What needs a look behind the public API.

use std::thread;
use std::time::Duration;

use super::table::{SLOTS, table};
use super::{Mutex, RawMutex};
use crate::deadline::deadline;

/// Slots that nobody else can have, given back when dropped. Other tests of this process wait outside meanwhile.
struct All(Vec<u32>);

impl All {
    fn lease() -> Self {
        let all = Self(std::iter::from_fn(|| table().lease()).collect());
        assert!(all.0.len() > SLOTS / 2);
        all
    }
}

impl Drop for All {
    fn drop(&mut self) {
        self.0.iter().for_each(|&slot| table().give_back(slot));
    }
}

#[test]
fn when_all_slots_are_in_use_threads_exclude_each_other_none_sleeps_for_ever_and_timeouts_work() {
    let _running = deadline();
    let _all = All::lease();
    let total = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..500 {
                    *total.lock() += 1;
                    if n % 16 == 0 {
                        let guard = total.lock();
                        thread::yield_now();
                        drop(guard);
                    }
                }
            });
        }
    });
    let guard = total.lock();
    thread::scope(|scope| {
        scope.spawn(|| assert!(total.try_lock_for(Duration::from_millis(5)).is_none()));
    });
    assert_eq!(*guard, 4000);
}

#[test]
fn a_node_takes_a_cache_line_and_a_lock_four_bytes() {
    assert_eq!(size_of::<super::table::Node>(), 64);
    assert_eq!(size_of::<RawMutex>(), 4);
}

/// Forks from a signal handler in the middle of waits: after each instruction of who leases a slot, waits in it or not, first or
/// behind another, leaves it in a queue, comes back, and gives it back when the thread ends.
#[cfg(target_arch = "x86_64")]
mod stepped {
    use std::arch::asm;
    use std::collections::HashSet;
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
    use std::thread;

    use super::super::local;
    use super::super::policy::Shipped;
    use super::super::raw::Raw;
    use super::super::table::{HPARK, table};
    use super::super::word::head;
    use crate::deadline::deadline;
    use crate::sync::now;

    /// The flag of the processor that traps after each instruction.
    const TRAP: i64 = 0x100;

    static LOCK: Raw<Shipped> = Raw::new();
    static OTHER: Raw<Shipped> = Raw::new();
    /// When there have been forks enough, where they take long.
    static UNTIL: AtomicU64 = AtomicU64::new(0);
    static FORKS: AtomicU32 = AtomicU32::new(0);
    static WRONG: AtomicU32 = AtomicU32::new(0);
    static IS_CHILD: AtomicBool = AtomicBool::new(false);
    /// Places in the code, by a part of their address, after which there was a fork.
    static SEEN: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];

    extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel gives the handler a context.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let place = registers[libc::REG_RIP as usize] as usize % SEEN.len();
        let is_over = now() > UNTIL.load(Relaxed);
        if is_over || !local::with(local::Local::is_busy) || SEEN[place].swap(true, Relaxed) {
            return;
        }
        FORKS.fetch_add(1, Relaxed);
        // SAFETY: the child does what may be done by the only thread of a process.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: a plain call; a child that hangs is killed. The locks are held by a thread that did not survive.
                unsafe {
                    libc::alarm(20);
                    LOCK.unlock();
                    OTHER.unlock();
                }
                IS_CHILD.store(true, Relaxed);
                registers[libc::REG_EFL as usize] &= !TRAP;
            }
            pid => {
                let mut status = -1;
                // SAFETY: `status` outlives the call.
                unsafe { libc::waitpid(pid, &mut status, 0) };
                WRONG.fetch_add(u32::from(status != 0), Relaxed);
            }
        }
    }

    /// In the child: whether every slot has one owner at most, as far as can be seen from those that are leased next, and locks work.
    fn is_sound() -> bool {
        LOCK.lock();
        OTHER.lock();
        let own = local::with(local::Local::own);
        let free: Vec<u32> = std::iter::from_fn(|| table().lease()).take(256).collect();
        let different: HashSet<u32> = free.iter().copied().collect();
        different.len() == free.len() && !different.contains(&own)
    }

    /// Runs `f` in steps. A child ends after it.
    fn stepped(f: impl FnOnce()) {
        SEEN.iter().for_each(|seen| seen.store(false, Relaxed));
        UNTIL.store(now() + 3_000_000_000, Relaxed);
        // SAFETY: this thread handles the traps.
        unsafe { asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const TRAP) };
        f();
        // SAFETY: as above.
        unsafe { asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !TRAP) };
        if IS_CHILD.load(Relaxed) {
            // SAFETY: ends the child without the destructors of the parent's tests.
            unsafe { libc::_exit(i32::from(!is_sound())) };
        }
    }

    /// Waits for a limited time, which in the child may be enough.
    fn wait(lock: &Raw<Shipped>) {
        if lock.lock_until(now() + 1_000_000) {
            // SAFETY: as it says.
            unsafe { lock.unlock() };
        }
    }

    fn wait_in_steps() {
        // SAFETY: all zero is a valid action, whose handler is of the kind that it says.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction =
                step as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
        }
        stepped(|| wait(&LOCK));
        stepped(|| wait(&LOCK));
        let first = thread::spawn(|| {
            LOCK.lock();
            // SAFETY: this thread holds it.
            unsafe { LOCK.unlock() };
        });
        while table().node(head(LOCK.word().load(Relaxed))).state.load(Relaxed) != HPARK {
            thread::yield_now();
        }
        stepped(|| wait(&LOCK));
        stepped(|| wait(&LOCK));
        stepped(|| wait(&OTHER));
        stepped(|| local::with(local::Local::end));
        // SAFETY: the test's thread holds it, and leaves it to this one.
        unsafe { LOCK.unlock() };
        first.join().expect("it has not panicked");
    }

    #[test]
    fn in_the_child_of_a_fork_in_the_middle_of_a_wait_each_slot_has_one_owner() {
        let _running = deadline();
        LOCK.lock();
        OTHER.lock();
        thread::spawn(wait_in_steps).join().expect("it has not panicked");
        // SAFETY: this thread holds it.
        unsafe { OTHER.unlock() };
        assert!(FORKS.load(Relaxed) > 100, "{} forks", FORKS.load(Relaxed));
        assert_eq!(WRONG.load(Relaxed), 0, "of {} forks", FORKS.load(Relaxed));
    }
}
