//! Rings: every record is read once, in order, or counted as lost.
#![cfg(not(loom))]

#[allow(dead_code, reason = "one way to start a child is enough here")]
#[path = "support/child.rs"]
mod child;
#[path = "support/deadline.rs"]
mod deadline;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "support/rseq.rs"]
mod rseq;
#[path = "support/ways.rs"]
mod ways;

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;

use deadline::deadline;
use stillpoint::percpu::{OverflowPolicy, Ring};
use ways::in_every_way;

const THREADS: usize = 6;
const RECORDS: u64 = 20_000;

/// A record that shows whether it is torn.
fn record(thread: u64, number: u64) -> [u64; 4] {
    [thread, number, thread ^ number, thread.wrapping_mul(number) ^ 0x5555]
}

/// Writes in several threads, reads in one, and checks the records read and lost.
fn write_and_read(ring: &Ring<4>, unregistered: impl Fn(usize) -> bool + Sync) {
    let _running = deadline();
    let cpus = rseq::allowed_cpus();
    let (refused, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut read = 0u64;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cpus, unregistered, refused, done) = (&cpus, &unregistered, &refused, &done);
            scope.spawn(move || {
                if unregistered(thread) {
                    rseq::unregister();
                }
                for number in 0..RECORDS {
                    if !ring.push(&record(thread as u64, number)) {
                        refused.fetch_add(1, Relaxed);
                    }
                    if number % 700 == 0 {
                        rseq::pin(&[cpus[(number as usize / 700 + thread) % cpus.len()]]);
                    } else if number % 700 == 300 {
                        rseq::pin(cpus);
                    }
                }
                done.fetch_add(1, Release);
            });
        }
        let mut reader = ring.reader().expect("there is no other reader");
        assert!(ring.reader().is_none() && ring.reader().is_none(), "two readers");
        // By CPU and thread, the last number: records of a thread on a CPU are in order. A thread without registration and
        // one with write to different tracks, but a thread to one kind only.
        let mut last = vec![[None; THREADS]; stillpoint::percpu::report().cpus()];
        loop {
            let all_written = done.load(Acquire) == THREADS;
            reader.drain(|event| {
                let [thread, number, ..] = event.words;
                assert_eq!(event.words, record(thread, number), "a torn record");
                let last = &mut last[event.cpu][thread as usize];
                assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
                *last = Some(number);
                read += 1;
            });
            if all_written {
                break;
            }
        }
    });
    assert_eq!(read + ring.lost(), THREADS as u64 * RECORDS);
    assert!(ring.lost() >= refused.into_inner() as u64);
    assert!(read > 0);
}

#[test]
fn refusing_ring_accounts_for_every_record() {
    if in_every_way("refusing_ring_accounts_for_every_record") {
        write_and_read(&Ring::new(64, OverflowPolicy::Refuse), |_| false);
    }
}

#[test]
fn overwriting_ring_accounts_for_every_record() {
    if in_every_way("overwriting_ring_accounts_for_every_record") {
        write_and_read(&Ring::new(3, OverflowPolicy::Overwrite), |_| false);
        write_and_read(&Ring::new(64, OverflowPolicy::Overwrite), |_| false);
    }
}

#[test]
fn registered_and_unregistered_threads_share_a_ring() {
    for when_full in [OverflowPolicy::Refuse, OverflowPolicy::Overwrite] {
        write_and_read(&Ring::new(30, when_full), |thread| thread % 2 == 0);
    }
}

#[test]
fn full_ring_follows_its_overflow_policy() {
    if !in_every_way("full_ring_follows_its_overflow_policy") {
        return;
    }
    rseq::pin(&rseq::allowed_cpus()[..1]);
    for (when_full, kept) in [(OverflowPolicy::Overwrite, 3..10), (OverflowPolicy::Refuse, 0..8)] {
        let ring: Ring<1> = Ring::new(7, when_full);
        let accepted = (0..10).filter(|&number| ring.push(&[number])).count();
        assert_eq!(accepted, if when_full == OverflowPolicy::Refuse { 8 } else { 10 });
        let mut read = Vec::new();
        ring.reader().expect("there is no other reader").drain(|event| read.push(event.words[0]));
        assert_eq!(read, kept.collect::<Vec<_>>());
        assert_eq!(ring.lost(), 10 - read.len() as u64);
        // There is room again.
        assert!(ring.push(&[10]));
        ring.reader().expect("the first is gone").drain(|event| read.push(event.words[0]));
        assert_eq!(read.last(), Some(&10));
    }
}

#[test]
fn panicking_reader_leaves_the_rest() {
    let ring: Ring<1> = Ring::new(8, OverflowPolicy::Refuse);
    rseq::pin(&rseq::allowed_cpus()[..1]);
    (0..4).for_each(|number| assert!(ring.push(&[number])));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ring.reader()
            .expect("there is no other reader")
            .drain(|event| assert!(event.words[0] < 1, "as it should"));
    }));
    assert!(panicked.is_err());
    let mut rest = Vec::new();
    ring.reader().expect("the first is gone").drain(|event| rest.push(event.words[0]));
    assert_eq!(rest, [2, 3]);
}
