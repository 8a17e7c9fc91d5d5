//! Programs that give the library no threads, as language runtimes and plugins do.

use std::fs;
use std::future::IntoFuture as _;
use std::sync::mpsc::sync_channel;

use stillpoint::Domain;
use support::futures::block_on;
use support::prelude::*;

use crate::many_domains::threads;

/// Does all that needs a thread elsewhere.
fn exercise<D: Domain>(domain: &D) {
    let (runs, run) = counter();
    for round in 1..=100 {
        let value = Rcu::new_in(Tracked(runs), domain.clone());
        drop(value.replace(Tracked::leaked()));
        domain.retire(Box::new(Tracked(runs)));
        domain.call(run);
        match round % 3 {
            0 => while domain.poll() {},
            1 => domain.barrier(),
            _ => block_on(domain.barrier_async()),
        }
        assert_eq!(runs.load(Relaxed), 3 * round, "in round {round}");
        drop(value);
        let period = GracePeriod::start_in(domain.clone());
        if round % 2 == 0 {
            block_on(period.clone().into_future());
        }
        assert!(period.wait_timeout(Duration::MAX) && period.is_elapsed());
    }
    domain.synchronize();
    domain.barrier();
    assert_eq!(threads(), 0);
}

#[test]
fn library_without_threads_does_its_work_in_its_callers() {
    alone!();
    rcu::start_no_threads();
    rcu::start_no_threads();
    let all = || {
        exercise(&rcu::Global);
        exercise(&qsbr::Global);
        exercise(&srcu::Domain::new());
    };
    all();
    in_child(all);
}

#[test]
fn poll_without_threads_waits_for_no_reader() {
    stillpoint::domain! { struct Own; }
    alone!();
    rcu::start_no_threads();
    let (runs, run) = counter();
    let leave = support::owner::section_elsewhere::<Own>();
    Own.call(run);
    for _ in 0..100 {
        assert!(Own.poll());
    }
    assert!(!GracePeriod::now_in(Own).wait_timeout(Duration::from_millis(10)));
    assert_eq!(runs.load(Relaxed), 0);
    leave();
    // Inside a section of another domain.
    let guard = rcu::enter();
    while Own.poll() {}
    drop(guard);
    assert_eq!((runs.load(Relaxed), threads()), (1, 0));
}

#[test]
fn poll_panics_where_it_would_wait_for_itself() {
    stillpoint::domain! { struct Own; }
    alone!();
    let poll = || _ = catch_unwind(|| Own.poll()).expect_err("it panics");
    let guard = Own::enter();
    poll();
    drop(guard);
    for domain in [0, 1] {
        let (sender, receiver) = channel();
        let callback = move || {
            poll();
            sender.send(()).expect("the test listens");
        };
        if domain == 0 {
            Own.call(callback)
        } else {
            rcu::call(callback)
        }
        receiver.recv().expect("it runs");
    }
}

/// Beside threads of the library, too.
#[test]
fn threads_that_poll_run_each_callback_once() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let (runs, run) = counter();
    let each = repetitions(2000);
    in_threads(4, |_| {
        for _ in 0..each {
            Own.call(run);
            Own.poll();
        }
    });
    Own.barrier();
    assert_eq!(runs.load(Relaxed), 4 * each);
}

const BLOCK: usize = 24_000_000;

/// Returns the most memory that the process has had, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// A thread fills blocks and hands them over by a queue of two; another one reads them and retires them. Both report
/// after each. Returns the peak.
fn hand_over_blocks(polls: bool) -> usize {
    let (sender, receiver) = sync_channel::<Vec<u8>>(2);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut thread = qsbr::register();
            for _ in 0..40 {
                let block = vec![1; BLOCK];
                thread.offline(|| sender.send(block)).expect("the other thread listens");
                thread.quiescent();
            }
        });
        let mut thread = qsbr::register();
        while let Ok(block) = thread.offline(|| receiver.recv()) {
            assert_eq!(block[BLOCK / 2], 1);
            if polls {
                qsbr::Global.retire(Box::new(block));
                thread.offline(|| qsbr::Global.poll());
            } else {
                qsbr::Global.retire_with(Box::new(block), DeferOptions::new().run_on_retiring_thread());
            }
            thread.quiescent();
        }
    });
    peak()
}

/// As CPython's build without a global lock, where peaks of 6.7 GB were reported.
#[test]
fn blocks_that_are_handed_over_and_retired_peak_at_150_megabytes() {
    if let Some(variant) = child::variant() {
        let _running = deadline();
        if variant != "threads" {
            rcu::start_no_threads();
        }
        let peak = hand_over_blocks(variant == "polls");
        eprintln!("{variant}: a peak of {} MB", peak / 1_000_000);
        // Where a thread of the library frees the blocks, it may wait for a CPU.
        let most = if variant == "threads" { 250_000_000 } else { 150_000_000 };
        return assert!(peak <= most, "{variant}: {peak} bytes");
    }
    for variant in ["polls", "limits", "threads"] {
        child::run(blocks_that_are_handed_over_and_retired_peak_at_150_megabytes, variant, None);
    }
}
