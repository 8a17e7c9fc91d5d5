//! The bound on memory in the guide's stack: its nodes are retired inside read-side critical sections, and nowhere
//! else.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, Guard, Limits, RcuDomain, Shared};
use support::deadline::deadline;
use support::until::until;

const THREADS: u64 = 4;
/// Operations per thread, each a push and a pop.
const OPERATIONS: u64 = 40_000;
const LIMITS: Limits = Limits { count: 4096, bytes: 1 << 20 };

/// The nodes that exist.
#[derive(Default)]
struct Live {
    now: AtomicU64,
    peak: AtomicU64,
}

struct Node {
    value: String,
    next: *mut Node,
    live: &'static Live,
}
// SAFETY: a node is sent to be freed only.
unsafe impl Send for Node {}

impl Drop for Node {
    fn drop(&mut self) {
        // Relaxed, here and below: statistics only.
        self.live.now.fetch_sub(1, Relaxed);
    }
}

struct Stack {
    head: AtomicPtr<Node>,
    live: &'static Live,
    /// The heap bytes that a node is retired with.
    owning: usize,
}

impl Stack {
    fn push(&self, value: String) {
        self.live.peak.fetch_max(self.live.now.fetch_add(1, Relaxed) + 1, Relaxed);
        let node = Box::into_raw(Box::new(Node { value, next: ptr::null_mut(), live: self.live }));
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: no other thread has the node yet.
            unsafe { (*node).next = head };
            // Release: publishes the node; pairs with the Acquire loads in `unlink`.
            match self.head.compare_exchange_weak(head, node, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Removes a node, for the caller to retire. The caller is inside a section of `D`.
    fn unlink<D: RcuDomain>(&self) -> Option<NonNull<Node>> {
        assert!(D::in_read_section());
        loop {
            // Acquire: the node; pairs with the Release in `push`.
            let head = NonNull::new(self.head.load(Acquire))?;
            // SAFETY: in the caller's section no node is freed that was in the stack, and no address is reused.
            let next = unsafe { head.as_ref() }.next;
            // Acquire: as above.
            if self.head.compare_exchange(head.as_ptr(), next, Acquire, Relaxed).is_ok() {
                // SAFETY: as above.
                assert!(unsafe { head.as_ref() }.value.starts_with("node"));
                return Some(head);
            }
        }
    }

    fn retire<D: RcuDomain>(&self, node: NonNull<Node>) {
        // SAFETY: from a box, and removed from the stack by the caller.
        unsafe {
            D::INSTANCE
                .retire_shared(Shared::from_ptr(node.as_ptr()), DeferOptions::new().heap_bytes(self.owning))
        };
    }

    /// The pop of the guide.
    fn pop<D: RcuDomain>(&self) {
        let _guard = D::enter();
        if let Some(node) = self.unlink::<D>() {
            self.retire::<D>(node);
        }
    }
}

/// Pushes and pops values of `len` bytes in all threads, and checks the backlog. `operation` is a push of a value and a
/// pop; it gets its number, and may hold a guard until the next one. A reader stalls until a writer is throttled, a few
/// times.
fn check<D: RcuDomain>(len: usize, operation: impl Fn(&Stack, String, u64, &mut Option<Guard<D>>) + Sync) {
    let _running = deadline();
    D::INSTANCE.set_limits(LIMITS);
    // Where threads wait for a CPU for ten seconds, a writer overruns the limit.
    until(|| is_bounded::<D>(len, &operation));
}

/// Checks it once. Returns `false` if a writer was throttled for so long that it went on nevertheless.
fn is_bounded<D: RcuDomain>(
    len: usize,
    operation: &(impl Fn(&Stack, String, u64, &mut Option<Guard<D>>) + Sync),
) -> bool {
    let first = D::INSTANCE.stats();
    let stack = Stack {
        head: AtomicPtr::default(),
        live: Box::leak(Box::default()),
        owning: if len > 100 { len } else { 0 },
    };
    let (most, most_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let sample = || {
        let stats = D::INSTANCE.stats();
        most.fetch_max(stats.queued, Relaxed);
        most_bytes.fetch_max(stats.queued_bytes, Relaxed);
        stats
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [(); THREADS as usize].map(|()| {
            scope.spawn(|| {
                let mut held = None;
                for number in 0..OPERATIONS {
                    operation(&stack, format!("node {number:>len$}"), number, &mut held);
                    if number % 16 == 0 {
                        sample();
                    }
                }
            })
        });
        scope.spawn(|| {
            let is_stopped = || stop.load(Relaxed);
            for _ in 0..5 {
                let mut before = sample();
                // Until no writer is throttled, or needs to be any longer: then the next throttled writer is counted.
                until(|| {
                    before = sample();
                    before.queued < LIMITS.count / 2 && before.queued_bytes < LIMITS.bytes / 2 || is_stopped()
                });
                let guard = D::enter();
                until(|| {
                    let now = sample();
                    now.limit_waits > before.limit_waits || now.queued > 4 * LIMITS.count || is_stopped()
                });
                drop(guard);
            }
            until(|| {
                sample();
                is_stopped()
            });
        });
        let ended = writers.map(|writer| writer.join());
        stop.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("no panic"));
    });
    D::INSTANCE.barrier();
    let (stats, live) = (D::INSTANCE.stats(), stack.live);
    assert_eq!((live.now.load(Relaxed), stats.done - first.done), (0, THREADS * OPERATIONS));
    let is_in_time = stats.limit_overruns == first.limit_overruns;
    let (most, most_bytes, live) = (most.into_inner(), most_bytes.into_inner(), live.peak.load(Relaxed));
    let seen = format!("at most {most} nodes of {most_bytes} bytes waited, {live} existed; {LIMITS:?}");
    // The stack has a node for each thread that has not popped yet.
    let bounded =
        most <= 2 * LIMITS.count && most_bytes <= 2 * LIMITS.bytes && live <= 2 * LIMITS.count + THREADS;
    assert!(bounded || !is_in_time, "{seen}");
    is_in_time
}

#[test]
fn stack_with_guards_in_its_pop_stays_within_the_limit() {
    stillpoint::domain! { struct Own; }
    check::<Own>(0, |stack, value, _, _| {
        stack.push(value);
        stack.pop::<Own>();
    });
}

#[test]
fn stack_of_large_values_stays_within_the_limit_of_bytes() {
    stillpoint::domain! { struct Own; }
    check::<Own>(1000, |stack, value, _, _| {
        stack.push(value);
        stack.pop::<Own>();
    });
}

#[test]
fn stack_used_inside_sections_stays_within_the_limit() {
    stillpoint::domain! { struct Own; }
    check::<Own>(0, |stack, value, _, _| {
        let _guard = Own::enter();
        stack.push(value);
        stack.pop::<Own>();
    });
}

#[test]
fn stack_used_inside_a_longer_section_stays_within_the_limit() {
    stillpoint::domain! { struct Own; }
    check::<Own>(0, |stack, value, number, held| {
        held.get_or_insert_with(Own::enter);
        stack.push(value);
        stack.pop::<Own>();
        if number % 8 == 7 {
            *held = None;
        }
    });
}

#[test]
fn stack_retiring_outside_at_times_stays_within_the_limit() {
    stillpoint::domain! { struct Own; }
    check::<Own>(0, |stack, value, number, _| {
        stack.push(value);
        if number % 64 != 0 {
            return stack.pop::<Own>();
        }
        let guard = Own::enter();
        let node = stack.unlink::<Own>();
        drop(guard);
        if let Some(node) = node {
            stack.retire::<Own>(node);
        }
    });
}

#[test]
fn stack_used_between_repins_stays_within_the_limit() {
    stillpoint::domain! { struct Own; }
    check::<Own>(0, |stack, value, _, held| {
        let guard = held.get_or_insert_with(Own::enter);
        stack.push(value);
        if let Some(node) = stack.unlink::<Own>() {
            stack.retire::<Own>(node);
        }
        guard.repin();
    });
}
