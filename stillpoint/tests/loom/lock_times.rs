//! Models of the time limits of the queued lock, with a clock that the model sets: the quantum of the head, after
//! which the lock is reserved for it, and the time after which a head counts as stalled.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillpoint::lock::model::{CAPACITY, Policy, Raw, table};
use stillpoint::sync::model::set_now;
use support::model::*;

/// Steals reserve the lock for a head that has waited for [`RESERVE`]. It is stalled [`STALL`] later.
struct Scripted;

const RESERVE: u64 = 10;
const STALL: u64 = 2;
/// For how long a head that was bypassed gets no reservation.
const DELAY: u64 = 16 * STALL;

impl Policy for Scripted {
    const QUANTUM_NS: u64 = RESERVE;
    const RESERVE_NS: u64 = RESERVE;
    const BYPASS_NS: u64 = STALL;
}

/// Releases the lock, which the model holds.
fn unlock<P: Policy>(lock: &Raw<P>) {
    // SAFETY: the caller's contract.
    unsafe { lock.unlock() };
}

/// Takes and releases the lock at this time. Returns `true` if it could be taken.
fn steals<P: Policy>(lock: &Raw<P>, time: u64) -> bool {
    set_now(time);
    let taken = lock.try_lock();
    if taken {
        unlock(lock);
    }
    taken
}

/// Creates a free lock with a queue of `waiters`, whose head waits from now on, at time 0.
fn with_queue<P: Policy>(waiters: u32) -> Raw<P> {
    set_now(0);
    let lock = Raw::with_queue(waiters);
    unlock(&lock);
    lock
}

/// Refutes: steals-reserve-nothing
#[test]
fn steal_after_the_quantum_reserves_the_lock() {
    check(0, 2, || {
        let lock = with_queue::<Scripted>(1);
        assert!((0..RESERVE).all(|time| steals(&lock, time)), "reserved before the quantum is over");
        assert!(steals(&lock, RESERVE), "this one reserves it");
        assert!(!steals(&lock, RESERVE));
        assert!(lock.in_queue(|queue| queue.rejoin(1, None)));
    });
}

/// Refutes: bypass-keeps-quantum, quantum-keeps-reservation-time
#[test]
fn bypassed_head_gets_a_new_quantum_after_a_delay() {
    check(0, 2, || {
        let lock = with_queue::<Scripted>(1);
        let mut begin = 0;
        for _ in 0..2 {
            let reserved = begin + RESERVE;
            assert!((begin..=reserved).all(|time| steals(&lock, time)), "reserved early");
            assert!((reserved..reserved + STALL).all(|time| !steals(&lock, time)), "bypassed early");
            assert!(steals(&lock, reserved + STALL), "the head is stalled");
            // The time of the bypass, and the delay.
            begin = reserved + STALL + DELAY;
            assert!((reserved + STALL..begin).all(|time| steals(&lock, time)), "reserved during the delay");
        }
    });
}

/// Heads reserve the lock, steals do not.
struct HeadsReserve;

/// How often the head has parked in this execution of the model.
static PARKS: AtomicU64 = AtomicU64::new(0);

impl Policy for HeadsReserve {
    const QUANTUM_NS: u64 = RESERVE;
    const RESERVE_NS: u64 = u64::MAX;
    const BYPASS: bool = false;

    fn head_parks() {
        PARKS.fetch_add(1, Relaxed);
    }
}

/// The head waits since time 0. Its quantum is over before it parks for the first time, or before the second.
/// Refutes: heads-never-reserve
#[test]
fn head_reserves_the_lock_after_its_quantum() {
    for reserves_at in [1, 2] {
        check(0, 2, move || {
            set_now(if reserves_at == 1 { RESERVE } else { 0 });
            PARKS.store(0, Relaxed);
            let lock = Arc::new(Raw::<HeadsReserve>::with_queue(1));
            let l = lock.clone();
            let head = thread::spawn(move || assert!(l.in_queue(|queue| queue.rejoin(1, None))));
            for parks in 1..=reserves_at {
                while PARKS.load(Relaxed) < parks {
                    thread::yield_now();
                }
                set_now(RESERVE);
                unlock(&lock);
                if !lock.try_lock() {
                    // The head holds the lock, or will.
                    head.join().unwrap();
                    return;
                }
            }
            panic!("the head has not reserved the lock");
        });
    }
}

/// A thread steals the lock again and again, and each section takes one unit of time. The waiters get it in turn.
#[test]
fn each_waiter_gets_the_lock_after_a_quantum() {
    check(0, 2, || {
        let waiters = CAPACITY as u32 - 1;
        let lock = with_queue::<Scripted>(waiters);
        let mut time = 0;
        for waiter in 1..=waiters {
            let begin = time;
            while steals(&lock, time) {
                time += 1;
            }
            // Steals before, and one at the end of the quantum.
            assert_eq!(time - begin, RESERVE + 1);
            assert_eq!(lock.head(), waiter);
            assert!(lock.in_queue(|queue| queue.rejoin(waiter, None)));
            unlock(&lock);
        }
        assert_eq!(lock.head(), 0);
    });
}

/// A promoted waiter has a quantum of its own, also if the head has timed out, and a reservation stays.
#[test]
fn promoted_waiter_starts_its_quantum() {
    check(0, 2, || {
        set_now(0);
        let lock = Raw::<Scripted>::with_queue(2);
        // From an earlier wait.
        table().node(2).reserved_since.store(1, Relaxed);
        set_now(RESERVE);
        assert!(!lock.in_queue(|queue| queue.dequeue_head(1)));
        assert_eq!(table().node(2).reserved_since.load(Relaxed), 0);
        unlock(&lock);
        assert!((RESERVE..=2 * RESERVE).all(|time| steals(&lock, time)));
        assert!(!steals(&lock, 2 * RESERVE));
    });
}

/// A signal handler may have interrupted the head. The head then counts as stalled only after another while.
/// Refutes: poll-keeps-reservation-time
#[test]
fn thread_without_a_node_takes_a_reserved_lock() {
    check(0, 2, || {
        let lock = with_queue::<Scripted>(1);
        let _all: Vec<_> = std::iter::from_fn(|| table().alloc()).collect();
        assert!((0..=RESERVE).all(|time| steals(&lock, time)));
        assert!(!steals(&lock, RESERVE));
        set_now(RESERVE + STALL - 1);
        lock.lock();
        unlock(&lock);
        assert!(!steals(&lock, RESERVE + STALL), "the lock was taken since");
        assert!(steals(&lock, RESERVE + 2 * STALL));
    });
}
