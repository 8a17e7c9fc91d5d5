//! Pools: no object is lost, and none has two owners.

use stillpoint::percpu::Pool;
#[cfg(not(stillpoint_portable))]
use support::fork;
use support::prelude::*;
#[cfg(target_os = "linux")]
use support::rseq;

/// An object that knows whether it has an owner.
#[derive(Debug)]
struct Token {
    number: usize,
    held: AtomicBool,
}

impl Token {
    fn new(number: usize) -> Box<Self> {
        Box::new(Self { number, held: AtomicBool::new(true) })
    }

    fn take(&self) {
        assert!(!self.held.swap(true, AcqRel), "token {} has two owners", self.number);
    }

    fn give(&self) {
        assert!(self.held.swap(false, AcqRel), "token {} is given back twice", self.number);
    }
}

/// Pops and pushes in several threads; afterwards the pool has every token once.
#[cfg(target_os = "linux")]
fn exchange(threads: usize, rounds: usize, tokens: usize, unregistered: impl Fn(usize) -> bool + Sync) {
    let _running = deadline();
    let pool = Pool::new(16);
    let mut kept = 0;
    for number in 0..tokens {
        let token = Token::new(number);
        token.give();
        if let Err(token) = pool.push(token) {
            token.take();
            break;
        }
        kept += 1;
    }
    let cpus = rseq::allowed_cpus();
    let exchanged = AtomicUsize::new(0);
    in_threads(threads, |thread| {
        if unregistered(thread) {
            rseq::unregister();
        }
        let mut mine = Vec::new();
        for round in 0..rounds {
            match (round + thread) % 7 {
                0 => {
                    mine.extend(std::iter::from_fn(|| pool.pop()).take(5));
                    mine.iter().for_each(|token| Token::take(token));
                    mine.iter().for_each(|token| token.give());
                    while let Some(token) = mine.pop() {
                        mine.extend(pool.push(token).err());
                    }
                }
                _ => {
                    if let Some(token) = pool.pop() {
                        token.take();
                        exchanged.fetch_add(1, Relaxed);
                        if round % 64 == 0 {
                            thread::yield_now();
                        }
                        token.give();
                        let mut refused = pool.push(token);
                        while let Err(token) = refused {
                            thread::yield_now();
                            refused = pool.push(token);
                        }
                    }
                }
            }
            if round % 300 == 0 {
                rseq::pin(&[cpus[(round / 300 + thread) % cpus.len()]]);
            } else if round % 300 == 150 {
                rseq::pin(&cpus);
            }
        }
    });
    assert!(exchanged.into_inner() > 0, "nothing was exchanged");
    assert_eq!(pool.len(), kept);
    let mut found = vec![false; tokens];
    while let Some(token) = pool.pop() {
        token.take();
        assert!(!std::mem::replace(&mut found[token.number], true), "token {} twice", token.number);
    }
    assert_eq!(found.iter().filter(|found| **found).count(), kept);
}

#[cfg(target_os = "linux")]
#[test]
fn pool_neither_loses_nor_duplicates() {
    alone!(in each variant);
    exchange(8, repetitions(10_000), 24, |_| false);
}

#[cfg(target_os = "linux")]
#[test]
fn registered_and_unregistered_threads_share_a_pool() {
    exchange(8, repetitions(10_000), 24, |thread| thread % 2 == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn pop_takes_from_another_cpu() {
    alone!(in each variant);
    let cpus = rseq::allowed_cpus();
    let pool = Pool::new(64);
    for (number, &cpu) in cpus.iter().enumerate() {
        rseq::pin(&[cpu]);
        for value in 0..10 {
            pool.push(Box::new(number * 10 + value)).expect("there is room");
        }
    }
    // Every object can be popped on any CPU.
    rseq::pin(&cpus[..1]);
    let mut found: Vec<usize> = std::iter::from_fn(|| pool.pop()).map(|value| *value).collect();
    found.sort_unstable();
    assert_eq!(found, (0..10 * cpus.len()).collect::<Vec<_>>());
}

/// Refutes: overflow-cpu-not-marked
#[cfg(target_os = "linux")]
#[test]
fn pop_finds_a_value_in_a_remote_overflow() {
    alone!(in each variant);
    let pool = Pool::new(4);
    thread::scope(|scope| {
        scope.spawn(|| {
            rseq::unregister();
            pool.push(Box::new(7)).expect("there is room");
        });
    });
    assert_eq!(pool.pop().as_deref(), Some(&7));
}

#[cfg(target_os = "linux")]
#[test]
fn full_pool_refuses_push() {
    alone!(in each variant);
    rseq::pin(&rseq::allowed_cpus()[..1]);
    let pool = Pool::new(10);
    let mut kept = 0;
    while pool.push(Box::new(kept)).is_ok() {
        kept += 1;
        assert!(kept <= 20 * stillpoint::percpu::report().cpus());
    }
    assert!(kept >= 10);
    assert_eq!(pool.len(), kept);
    assert!(pool.pop().is_some());
    assert!(pool.push(Box::new(1)).is_ok());
    assert!(pool.push(Box::new(2)).is_err(), "room for one");
    let pool = Pool::new(0);
    assert!(pool.push(Box::new(1)).is_err() && pool.pop().is_none());
}

#[cfg(target_os = "linux")]
#[test]
fn dropped_pool_drops_its_objects() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    alone!(in each variant);
    let pool = Pool::new(16);
    thread::scope(|scope| {
        let pushes = || (0..5).for_each(|_| pool.push(Box::new(Tracked(&DROPS))).expect("there is room"));
        // One after the other: with a single CPU, a push is refused while the other thread holds the lock.
        scope.spawn(pushes).join().expect("no panic");
        scope.spawn(|| {
            // For an overflow array.
            rseq::unregister();
            pool.push(Box::new(Tracked(&DROPS))).expect("there is room");
        });
    });
    drop(pool.pop());
    assert_eq!(DROPS.load(Acquire), 1);
    drop(pool);
    assert_eq!(DROPS.load(Acquire), 6);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn fork_child_uses_the_pool() {
    alone!(in each variant);
    // Boxes without size: the child need not allocate.
    let pool = Pool::new(4);
    (0..8).for_each(|_| _ = pool.push(Box::new(())));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    if let Some(value) = pool.pop() {
                        let _ = pool.push(value);
                    }
                }
            });
        }
        for _ in 0..100 {
            fork::in_child(|| {
                // Fewer than 8, if other threads were moving some.
                assert!(std::iter::from_fn(|| pool.pop()).count() <= 8);
                (0..4).for_each(|_| pool.push(Box::new(())).expect("there is room"));
            });
        }
        stop.store(true, Relaxed);
    });
}
