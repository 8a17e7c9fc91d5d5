//! The process-wide fence.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

use std::hint;

use stillpoint::fence::{self, Backend};
use support::prelude::*;
use support::store_buffer::StoreBuffer;
#[cfg(not(stillpoint_portable))]
use support::{fork, signals};

const ROUNDS: usize = 20_000;
/// For how long two threads meet. Beside other load a meeting may take as long as the scheduler's turns.
const TIME: Duration = Duration::from_secs(1);

/// Waits until both of two threads have arrived in this round.
fn meet(arrived: &AtomicUsize, round: usize) {
    arrived.fetch_add(1, AcqRel);
    let mut spins = 0;
    while arrived.load(Acquire) < 2 * (round + 1) {
        spins += 1;
        if spins % 100 == 0 { thread::yield_now() } else { hint::spin_loop() }
    }
}

/// Store buffering: each of two threads writes its own location, executes its fence, and reads the other's. Returns
/// `true` if both ever missed the other's write. The calling thread executes the first fence.
fn both_miss(fences: [fn(); 2]) -> bool {
    let (_running, rounds) = (deadline(), repetitions(ROUNDS));
    let cells = || (0..rounds).map(|_| AtomicBool::new(false)).collect::<Vec<_>>();
    let written = [cells(), cells()];
    let (arrived, end) = (AtomicUsize::new(0), AtomicUsize::new(rounds));
    let side = |own: usize| {
        let (mut buffer, start) = (StoreBuffer::default(), Instant::now());
        let round = |round| {
            if own == 0 && start.elapsed() > TIME {
                // The other thread sees it when it has met this one.
                end.store(round, Relaxed);
            }
            meet(&arrived, round);
            if round == end.load(Relaxed) {
                return None;
            }
            if own == 0 {
                // If the second fence does not reach this thread, its store comes too late.
                buffer.fill();
            }
            written[own][round].store(true, Relaxed);
            fences[own]();
            Some(!written[1 - own][round].load(Relaxed))
        };
        (0..rounds).map_while(round).collect::<Vec<bool>>()
    };
    let (one, two) = thread::scope(|scope| {
        let two = scope.spawn(|| side(1));
        (side(0), two.join().expect("the side ends"))
    });
    one.iter().zip(&two).any(|(one, two)| *one && *two)
}

#[test]
fn light_and_heavy_never_both_miss() {
    fence::report();
    assert!(!both_miss([fence::light, fence::heavy]));
}

#[cfg(target_os = "linux")]
#[test]
fn heavy_quiet_counts_as_a_call_and_says_whether_it_is_quiet() {
    alone!(on each backend);
    let before = fence::calls();
    let is_quiet = fence::heavy_quiet();
    assert_eq!(fence::calls(), before + 1);
    if fence::report().backend() == Backend::SeqCst {
        assert!(is_quiet);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn light_and_heavy_quiet_never_both_miss() {
    alone!(on each backend);
    let quiet = || _ = fence::heavy_quiet();
    assert!(!both_miss([fence::light, quiet]));
}

#[test]
fn heavy_and_heavy_never_both_miss() {
    assert!(!both_miss([fence::heavy, fence::heavy]));
}

#[test]
fn without_fences_both_miss() {
    // Not a property of the library: shows that the tests above can fail.
    let _running = deadline();
    let begin = Instant::now();
    // Where other load has the CPUs, the two threads hardly ever run at the same time.
    let has_time = || begin.elapsed() < *TIME_LIMIT / 6;
    if thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        while !both_miss([|| (), || ()]) {
            if !has_time() {
                return eprintln!(
                    "NOT CHECKED: that the tests of the fence can fail, as the machine is too busy"
                );
            }
        }
    }
}

#[test]
fn heavy_may_be_called_concurrently() {
    const CALLERS: usize = 8;
    let (_running, calls) = (deadline(), repetitions(1000) as u64);
    let before = fence::calls();
    in_threads(CALLERS, |_| (0..calls).for_each(|_| fence::heavy()));
    assert!(fence::calls() >= before + CALLERS as u64 * calls);
}

/// Checks that the fence works.
fn assert_fences() {
    assert!(!both_miss([fence::light, fence::heavy]));
    stillpoint::rcu::synchronize();
}

#[test]
fn environment_chooses_the_backend() {
    let Some(asked) = child::variant() else {
        for backend in backends!() {
            child::run(environment_chooses_the_backend, backend, Some(backend));
        }
        return;
    };
    let report = fence::report();
    assert!(report.why().to_string().starts_with(&format!("{asked} was asked for; ")), "{report}");
    let refused = asked == "membarrier" && report.backend() == Backend::SeqCst;
    if refused {
        eprintln!("not checked that membarrier can be had: {report}");
        let why = report.why().to_string();
        let known = ["membarrier has no", "failed", "no process-wide fence", "Wine"];
        assert!(known.iter().any(|known| why.contains(known)), "{report}");
    } else {
        assert_eq!(report.backend().to_string(), asked, "{report}");
    }
    assert_fences();
}

#[test]
fn unknown_backend_falls_back_with_a_reason() {
    if child::variant().is_none() {
        for unknown in ["signal", "SEQCST", ""] {
            let test = unknown_backend_falls_back_with_a_reason;
            child::run(test, unknown, Some(unknown));
        }
        return;
    }
    let report = fence::report();
    assert_eq!(report.backend(), Backend::SeqCst);
    assert_eq!(report.why().to_string(), "STILLPOINT_FENCE names no backend (membarrier, seqcst)");
    assert_eq!(report.to_string(), format!("seqcst: {}", report.why()));
    assert_fences();
}

#[test]
fn first_reader_chooses_the_backend() {
    alone!();
    drop(stillpoint::rcu::enter());
    assert_fences();
}

#[cfg(not(stillpoint_portable))]
#[test]
fn signal_handlers_may_call_heavy() {
    alone!(on each backend);
    let prepare = || _ = fence::report();
    signals::interrupt(fence::heavy, prepare, |_| fence::heavy(), |_| fence::heavy(), || true);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn forked_child_can_fence() {
    alone!(on each backend);
    drop(stillpoint::rcu::enter());
    fork::in_child(|| {
        // Repeated, because a missing fence seldom shows.
        assert!((0..repetitions(3)).all(|_| !both_miss([fence::light, fence::heavy])));
        assert_fences();
    });
    assert_fences();
}

/// Registers the thread as a reader, and defers a callback.
fn use_all() {
    fence::light();
    drop(stillpoint::rcu::enter());
    stillpoint::rcu::retire(Box::new([0_u8; 10]));
    drop(stillpoint::qsbr::register());
}

#[cfg(target_os = "linux")]
#[test]
fn thread_that_skips_destructors_blocks_nothing() {
    alone!(on each backend);
    static REGISTERED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn body(_: *mut std::ffi::c_void) -> *mut std::ffi::c_void {
        use_all();
        REGISTERED.fetch_add(1, Release);
        // SAFETY: ends the thread, which is never joined.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        ptr::null_mut()
    }
    for round in 1..=20 {
        // SAFETY: the thread owns nothing.
        unsafe {
            let mut thread = mem::zeroed();
            assert_eq!(libc::pthread_create(&mut thread, ptr::null(), body, ptr::null_mut()), 0);
        }
        until(|| REGISTERED.load(Acquire) == round);
        // The thread may be about to end.
        fence::heavy();
    }
    stillpoint::rcu::barrier();
}
