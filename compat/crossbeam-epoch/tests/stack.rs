//! A stack that threads push to and pop from: no node is used after it was destroyed, and all are destroyed.

mod support;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::thread;

use crossbeam_epoch::{Atomic, Guard, Owned};
use support::{Participant, Participants, Tracked, counter};

in_all_ways!(nodes_are_destroyed_once_and_not_too_early);

const THREADS: usize = 4;
const ROUNDS: usize = 20_000;

const LIVE: u64 = 0x6c69_7665;
const DEAD: u64 = 0x6465_6164;

/// Says whether it exists. Its memory is checked by those that read it, for as long as the allocator does not use it
/// again.
struct Life(AtomicU64, #[expect(dead_code, reason = "it is dropped")] Tracked);

impl Life {
    fn new(dropped: &'static AtomicUsize) -> Self {
        Self(AtomicU64::new(LIVE), Tracked(dropped))
    }

    fn check(&self) {
        assert_eq!(self.0.load(Relaxed), LIVE, "used after it was destroyed");
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.check();
        self.0.store(DEAD, Relaxed);
    }
}

struct Stack(Atomic<Node>);

struct Node {
    life: Life,
    next: Atomic<Node>,
}

impl Stack {
    fn push(&self, life: Life, guard: &Guard) {
        let mut node = Owned::new(Node { life, next: Atomic::null() });
        let mut head = self.0.load(Relaxed, guard);
        loop {
            node.next.store(head, Relaxed);
            match self.0.compare_exchange_weak(head, node, Release, Relaxed, guard) {
                Ok(_) => return,
                Err(error) => (head, node) = (error.current, error.new),
            }
        }
    }

    fn pop(&self, guard: &Guard) -> bool {
        let mut head = self.0.load(Acquire, guard);
        // SAFETY: the guard protects it.
        while let Some(node) = unsafe { head.as_ref() } {
            node.life.check();
            let next = node.next.load(Relaxed, guard);
            match self.0.compare_exchange_weak(head, next, AcqRel, Acquire, guard) {
                Ok(_) => {
                    // SAFETY: no thread finds it any more.
                    unsafe { guard.defer_destroy(head) };
                    node.life.check();
                    return true;
                }
                Err(error) => head = error.current,
            }
        }
        false
    }
}

fn nodes_are_destroyed_once_and_not_too_early(way: &impl Participants) {
    let dropped = counter();
    let stack = Stack(Atomic::null());
    let popped = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let participant = way.participant();
                for round in 0..ROUNDS {
                    let guard = &mut participant.pin();
                    stack.push(Life::new(dropped), guard);
                    if round % 3 == 0 {
                        guard.repin();
                    }
                    popped.fetch_add(usize::from(stack.pop(guard)), Relaxed);
                    if round % 50 == 0 {
                        guard.flush();
                    }
                }
            });
        }
    });
    let participant = way.participant();
    let rest = THREADS * ROUNDS - popped.into_inner();
    let guard = participant.pin();
    assert_eq!((0..).take_while(|_| stack.pop(&guard)).count(), rest);
    drop(guard);
    participant.until(|| dropped.load(Acquire) >= THREADS * ROUNDS);
    assert_eq!(dropped.load(Acquire), THREADS * ROUNDS);
}
