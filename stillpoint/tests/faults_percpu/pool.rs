//! Faults in the sections of pools: pushes and pops beside migrations, drains, stops and forks.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc;
use std::thread;

use super::operations::Token;
use super::{AGAIN, Action, alone, alone_on_one_cpu, arm, two_cpus};
use stillpoint::percpu::Pool;
use stillpoint::percpu::faults::{self, Fault};
use support::fork;
use support::rseq;

/// Refutes: cpu-read-before-arming
#[test]
fn migrated_push_stores_on_the_new_cpu() {
    let _alone = alone();
    let Some([first, second]) = two_cpus() else { return };
    let pool = Pool::new(8);
    for cpu in [second, first] {
        // The first push on a CPU gives its stack a capacity.
        rseq::pin(&[cpu]);
        pool.push(Box::new(0)).expect("there is room");
    }
    for point in 0..5 {
        rseq::pin(&[first]);
        let before = pool.local_len(second);
        arm(point, Action::Move);
        pool.push(Box::new(point)).expect("there is room");
        assert_eq!(pool.local_len(second), before + 1, "moved at point {point}");
    }
}

/// Refutes: interrupted-pop-finds-nothing
#[test]
fn interrupted_pop_is_retried() {
    let _alone = alone_on_one_cpu();
    for point in 1..5 {
        let pool = Pool::new(4);
        (0..4).for_each(|number| pool.push(Box::new(number)).expect("there is room"));
        // Interrupts the fast path, and the first retry.
        AGAIN.store(1, Relaxed);
        arm(point, Action::Nothing);
        let found: Vec<i32> = std::iter::from_fn(|| pool.pop()).map(|number| *number).collect();
        assert_eq!(found, [3, 2, 1, 0], "interrupted at point {point}");
        assert_eq!(AGAIN.load(Relaxed), 0);
    }
}

/// Forks while another thread has stopped the pool's area of this CPU, and runs `child` in the child.
fn in_child_with_area_stopped(pool: &Pool<u64>, child: impl FnOnce()) {
    let cpu = stillpoint::percpu::cpu();
    let (stopped, fork_may_come) = mpsc::channel();
    let (forked, may_open) = mpsc::channel::<()>();
    // Owns `forked`: the thread ends also if the child panics.
    thread::scope(move |scope| {
        scope.spawn(move || {
            pool.with_area_stopped(cpu, || {
                stopped.send(()).expect("the test receives it");
                let _ = may_open.recv();
            });
        });
        fork_may_come.recv().expect("the area is stopped");
        fork::in_child(child);
        forked.send(()).expect("the thread waits for it");
    });
}

/// Refutes: owner-never-dead, push-does-not-reopen
#[test]
fn push_reopens_an_area_stopped_at_fork() {
    let _alone = alone_on_one_cpu();
    let (pool, cpus) = (Pool::new(4), stillpoint::percpu::report().cpus());
    in_child_with_area_stopped(&pool, || {
        let kept = (0..).take_while(|&number| pool.push(Box::new(number)).is_ok()).count();
        assert_eq!(kept, 4 * (1 + cpus), "the local stack, and all overflow arrays");
    });
}

/// Refutes: pop-does-not-reopen
#[test]
fn pop_reopens_an_area_stopped_at_fork() {
    let _alone = alone_on_one_cpu();
    let pool = Pool::new(4);
    (0..4).for_each(|number| pool.push(Box::new(number)).expect("there is room"));
    in_child_with_area_stopped(&pool, || {
        let found: Vec<u64> = std::iter::from_fn(|| pool.pop()).map(|number| *number).collect();
        assert_eq!(found, [3, 2, 1, 0], "in the order of a stack, as nothing was stolen");
    });
}

/// Refutes: room-not-checked
#[test]
fn full_stack_refuses() {
    let _alone = alone_on_one_cpu();
    let (pool, cpus) = (Pool::new(4), stillpoint::percpu::report().cpus());
    let kept = (0..100).filter(|&number| pool.push(Box::new(number)).is_ok()).count();
    assert!(kept <= 8 * cpus, "{kept} kept");
}

/// Refutes: stop-kept, stop-not-checked
#[test]
fn stopped_area_takes_nothing_until_it_is_reopened() {
    let _alone = alone_on_one_cpu();
    let (pool, cpu) = (Pool::new(4), stillpoint::percpu::cpu());
    let push = |number| pool.push(Box::new(number)).expect("there is room");
    pool.with_area_stopped(cpu, || push(1));
    assert_eq!((pool.local_len(cpu), pool.len()), (0, 1));
    push(2);
    assert_eq!((pool.local_len(cpu), pool.len()), (1, 2));
}

/// Refutes: not-interrupted
#[test]
fn drain_aborts_a_section_past_the_stop() {
    let _alone = alone();
    let Some([first, second]) = two_cpus() else { return };
    let pool: Pool<Token> = Pool::new(8);
    (0..8).for_each(|_| pool.push(Box::default()).expect("there is room"));
    let (stop, exchanges) = (AtomicBool::new(false), AtomicUsize::new(0));
    let exchange = || {
        if let Some(token) = pool.pop() {
            token.take();
            hint::spin_loop();
            token.give();
            pool.push(token).expect("there is room");
        }
    };
    /// Stops the other thread, also when this one panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            rseq::pin(&[first]);
            while !stop.load(Relaxed) {
                // Slow between the check of the stop and the commit.
                faults::set(3, Fault::Delay);
                exchange();
                exchanges.fetch_add(1, Relaxed);
            }
        });
        rseq::pin(&[second]);
        let _stop = Stop(&stop);
        // Only drains during which the other thread runs count.
        let mut met = 0;
        while met < 4000 && !other.is_finished() {
            let before = exchanges.load(Relaxed);
            let tokens: Vec<_> = std::iter::from_fn(|| pool.pop()).collect();
            tokens.iter().for_each(|token| token.take());
            tokens.iter().for_each(|token| token.give());
            for token in tokens {
                pool.push(token).expect("the pool has as many tokens as before");
            }
            met += u32::from(exchanges.load(Relaxed) != before);
        }
    });
    faults::disarm(3);
}
