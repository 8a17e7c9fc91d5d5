//! The process-wide fence.
#![cfg(not(loom))]

#[path = "support/child.rs"]
mod child;
#[path = "support/deadline.rs"]
mod deadline;
#[path = "support/far.rs"]
mod far;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use std::{hint, iter, mem, panic, ptr, thread};

use deadline::deadline;
use far::Far;
use stillpoint::fence::{self, Backend};

const ROUNDS: usize = 20_000;

/// Waits for the other of two threads, `round` after `round`.
fn meet(arrived: &AtomicUsize, round: usize) {
    arrived.fetch_add(1, AcqRel);
    let mut looks = 0;
    while arrived.load(Acquire) < 2 * (round + 1) {
        looks += 1;
        if looks % 100 == 0 { thread::yield_now() } else { hint::spin_loop() }
    }
}

/// Store buffering: each of two threads writes its own location, executes its fence, and reads the other's. True if
/// both ever missed the other's write. The first fence is that of the calling thread.
fn both_miss(fences: [fn(); 2]) -> bool {
    let _running = deadline();
    let cells = || (0..ROUNDS).map(|_| AtomicBool::new(false)).collect::<Vec<_>>();
    let written = [cells(), cells()];
    let arrived = AtomicUsize::new(0);
    let side = |own: usize| {
        let mut far = Far::default();
        let round = |round| {
            meet(&arrived, round);
            if own == 0 {
                // Where the second fence does not reach, this thread's store comes too late.
                far.store();
            }
            written[own][round].store(true, Relaxed);
            fences[own]();
            !written[1 - own][round].load(Relaxed)
        };
        (0..ROUNDS).map(round).collect::<Vec<bool>>()
    };
    let (one, two) = thread::scope(|scope| {
        let two = scope.spawn(|| side(1));
        (side(0), two.join().expect("the side ends"))
    });
    one.iter().zip(&two).any(|(one, two)| *one && *two)
}

/// The light fence of a thread that is known to the backend.
fn registered_light() {
    fence::register_thread();
    fence::light();
}

#[test]
fn light_and_heavy_never_both_miss() {
    fence::init();
    assert!(!both_miss([fence::light, fence::heavy]));
}

#[test]
fn light_in_a_registered_thread_and_heavy_never_both_miss() {
    assert!(!both_miss([registered_light, fence::heavy]));
}

#[test]
fn heavy_and_heavy_never_both_miss() {
    assert!(!both_miss([fence::heavy, fence::heavy]));
}

#[test]
fn without_fences_both_miss() {
    // Not a property of the library: the tests above could have failed.
    let _running = deadline();
    if thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        while !both_miss([|| (), || ()]) {}
    }
}

#[test]
fn heavy_may_be_called_by_many_threads_at_once() {
    const CALLERS: u64 = 8;
    const CALLS: u64 = 1000;
    let _running = deadline();
    let before = fence::stats();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || {
                if caller % 2 == 0 {
                    fence::register_thread();
                }
                for _ in 0..CALLS {
                    fence::heavy();
                }
            });
        }
    });
    let after = fence::stats();
    assert!(after.calls >= before.calls + CALLERS * CALLS);
    assert!(after.issued > before.issued);
}

#[test]
fn never_more_fences_are_issued_than_asked_for() {
    let _running = deadline();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // More threads than CPUs, so that the one below is interrupted between any two instructions.
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    fence::heavy();
                }
            });
        }
        let start = Instant::now();
        let mut looks =
            iter::repeat_with(fence::stats).take_while(|_| start.elapsed() < Duration::from_secs(1));
        let wrong = looks.find(|stats| stats.issued > stats.calls);
        stop.store(true, Relaxed);
        assert_eq!(wrong, None);
    });
}

#[test]
fn known_threads_come_and_go_while_others_call_heavy() {
    let _running = deadline();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                fence::heavy();
            }
        });
        for _ in 0..500 {
            let known = || {
                assert_eq!(fence::register_thread(), fence::backend() != Backend::SeqCst);
                fence::light();
            };
            for thread in [(); 4].map(|()| scope.spawn(known)) {
                thread.join().expect("the thread ends");
            }
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn the_choice_is_made_once() {
    let report = fence::init();
    let backend = report.backend();
    assert_eq!(fence::backend(), backend);
    assert!(ptr::eq(fence::report(), report));
    assert!(fence::choose(backend).is_ok_and(|again| ptr::eq(again, report)));
    for other in [Backend::Membarrier, Backend::Signal, Backend::SeqCst] {
        if other != backend {
            let error = fence::choose(other).expect_err("another backend is in use").to_string();
            assert!(error.contains("chosen already") && error.contains(&report.to_string()), "{error}");
        }
    }
    assert_eq!(fence::backend(), backend);
    assert_eq!(report.signal().is_some(), backend == Backend::Signal);
}

/// The fence works, whatever it is.
fn assert_fences() {
    assert!(!both_miss([registered_light, fence::heavy]));
    stillpoint::rcu::synchronize();
}

#[test]
fn the_environment_asks_for_a_backend() {
    let Some(asked) = child::variant() else {
        for backend in ["membarrier", "signal", "seqcst"] {
            child::run("the_environment_asks_for_a_backend", backend, Some(backend));
        }
        return;
    };
    let report = fence::init();
    assert!(report.why().starts_with(&format!("{asked} was asked for; ")), "{report}");
    let refused = asked == "membarrier" && report.backend() == Backend::SeqCst;
    if refused {
        eprintln!("not checked that membarrier can be had: {report}");
        assert!(report.why().contains("membarrier has no") || report.why().contains("failed"), "{report}");
    } else {
        assert_eq!(report.backend().to_string(), asked, "{report}");
    }
    let signals = libc::SIGRTMIN()..=libc::SIGRTMAX();
    assert!(report.signal().is_none_or(|signal| signals.contains(&signal)), "{report}");
    assert_eq!(report.signal().is_some(), asked == "signal");
    assert_fences();
}

#[test]
fn an_unknown_backend_falls_back_and_the_report_says_why() {
    let Some(asked) = child::variant() else {
        for unknown in ["rseq", "SEQCST", ""] {
            let test = "an_unknown_backend_falls_back_and_the_report_says_why";
            child::run(test, unknown, Some(unknown));
        }
        return;
    };
    let report = fence::init();
    assert_eq!(report.backend(), Backend::SeqCst);
    assert_eq!(report.why(), format!("{asked} was asked for; no backend has that name"));
    assert_eq!(report.to_string(), format!("seqcst: {}", report.why()));
    assert_fences();
}

#[test]
fn the_program_chooses_before_the_environment_is_asked() {
    if child::variant().is_none() {
        let test = "the_program_chooses_before_the_environment_is_asked";
        return child::run(test, "signal", Some("seqcst"));
    }
    let report = fence::choose(Backend::Signal).expect("nothing was chosen before");
    assert_eq!(report.backend(), Backend::Signal, "{report}");
    assert_eq!(fence::init().backend(), Backend::Signal);
    assert_fences();
}

#[test]
fn the_signal_backend_takes_no_signal_that_has_a_handler() {
    let Some(free) = child::variant() else {
        for free in ["some", "none"] {
            child::run("the_signal_backend_takes_no_signal_that_has_a_handler", free, Some("signal"));
        }
        return;
    };
    extern "C" fn ignore(_signal: libc::c_int) {}
    let left = libc::SIGRTMAX() - 2;
    for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        if free == "none" || signal != left {
            // SAFETY: a handler that does nothing.
            unsafe { libc::signal(signal, ignore as *const () as libc::sighandler_t) };
        }
    }
    let report = fence::init();
    if free == "some" {
        assert_eq!((report.backend(), report.signal()), (Backend::Signal, Some(left)), "{report}");
    } else {
        assert_eq!((report.backend(), report.signal()), (Backend::SeqCst, None), "{report}");
        assert!(report.why().contains("every real-time signal has a handler"), "{report}");
    }
    assert_fences();
}

#[test]
fn the_signal_reaches_threads_that_were_started_with_all_signals_blocked() {
    if child::variant().is_none() {
        let test = "the_signal_reaches_threads_that_were_started_with_all_signals_blocked";
        return child::run(test, "", Some("signal"));
    }
    // SAFETY: the set is plain data, initialized before use; threads started from here on inherit the mask.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, ptr::null_mut());
    }
    assert_eq!(fence::init().backend(), Backend::Signal);
    assert_fences();
}

#[test]
fn the_first_reader_chooses_if_nobody_did() {
    if child::variant().is_none() {
        let test = "the_first_reader_chooses_if_nobody_did";
        return child::run(test, "", None);
    }
    // The first reader chooses, if nobody else did.
    drop(stillpoint::rcu::enter());
    assert!(fence::choose(fence::backend()).is_ok());
    assert_fences();
}

#[test]
fn the_child_of_a_process_with_one_thread_can_fence() {
    let Some(asked) = child::variant() else {
        for backend in ["membarrier", "signal", "seqcst"] {
            child::run("the_child_of_a_process_with_one_thread_can_fence", backend, Some(backend));
        }
        return;
    };
    fence::register_thread();
    drop(stillpoint::rcu::enter());
    // SAFETY: this process has one thread, so nobody holds a lock that the child would miss.
    match unsafe { libc::fork() } {
        0 => {
            let ordered = panic::catch_unwind(|| {
                // Often: what misses here misses seldom.
                assert!((0..8).all(|_| !both_miss([fence::light, fence::heavy])));
                assert_fences();
            });
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if ordered.is_ok() { 0 } else { 1 }) };
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for our own child, into a place that outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{asked}: {status:#x}");
        }
    }
    assert_fences();
}
