//! The process-wide fence.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use std::{hint, mem, ptr, thread};

use stillpoint::Domain as _;
use stillpoint::fence::{self, Backend};
use support::backends;
use support::child;
use support::deadline::deadline;
#[cfg(not(stillpoint_portable))]
use support::fork;
use support::store_buffer::StoreBuffer;
use support::time_limit::{TIME_LIMIT, repetitions};

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
    fence::init();
    assert!(!both_miss([fence::light, fence::heavy]));
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
    const CALLERS: u64 = 8;
    let (_running, calls) = (deadline(), repetitions(1000) as u64);
    let before = fence::calls();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| (0..calls).for_each(|_| fence::heavy()));
        }
    });
    assert!(fence::calls() >= before + CALLERS * calls);
}

#[test]
fn backend_is_chosen_once() {
    let report = fence::init();
    let backend = report.backend();
    assert_eq!(fence::backend(), backend);
    assert!(ptr::eq(fence::report(), report));
    assert_eq!(fence::backend(), backend);
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
    let report = fence::init();
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
    let report = fence::init();
    assert_eq!(report.backend(), Backend::SeqCst);
    assert_eq!(report.why().to_string(), "STILLPOINT_FENCE names no backend (membarrier, seqcst)");
    assert_eq!(report.to_string(), format!("seqcst: {}", report.why()));
    assert_fences();
}

#[test]
fn first_reader_chooses_the_backend() {
    if child::variant().is_none() {
        let test = first_reader_chooses_the_backend;
        return child::run(test, "", None);
    }
    drop(stillpoint::rcu::enter());
    assert_fences();
}

#[cfg(not(stillpoint_portable))]
#[test]
fn forked_child_can_fence() {
    if !on_each_backend(forked_child_can_fence) {
        return;
    }
    drop(stillpoint::rcu::enter());
    fork::in_child(|| {
        // Repeated, because a missing fence seldom shows.
        assert!((0..repetitions(3)).all(|_| !both_miss([fence::light, fence::heavy])));
        assert_fences();
    });
    assert_fences();
}

/// Threads of the C library that end in unusual ways.
#[cfg(target_os = "linux")]
mod ends {
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU32, Ordering::*};
    use std::{mem, ptr};

    /// A stack larger than those that the C library keeps of threads that have ended.
    const STACK: usize = 256 << 20;

    /// Runs `body` in a thread whose memory is unmapped when it has ended, and waits for that.
    pub fn unmapped_thread(body: extern "C" fn(*mut c_void) -> *mut c_void) {
        // SAFETY: attributes are plain data, initialized before use; all places outlive the calls.
        unsafe {
            let mut attributes = mem::zeroed();
            assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
            assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, STACK), 0);
            let mut thread = mem::zeroed();
            assert_eq!(libc::pthread_create(&mut thread, &attributes, body, ptr::null_mut()), 0);
            assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
        }
    }

    static KEYS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

    /// Makes the key `index`.
    pub fn make_key(index: usize, destructor: unsafe extern "C" fn(*mut c_void)) {
        let mut key = 0;
        // SAFETY: the place outlives the call.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(destructor)) }, 0);
        KEYS[index].store(key, Relaxed);
    }

    /// Has the destructor of the key run with `value` when the calling thread ends.
    pub fn arm_key(index: usize, value: usize) {
        let key = KEYS[index].load(Relaxed);
        // SAFETY: the key exists; its destructor takes the value for a number.
        assert_eq!(unsafe { libc::pthread_setspecific(key, ptr::without_provenance(value)) }, 0);
    }

    /// A destructor that uses the library in every round. Its value is the key's index plus 1.
    pub unsafe extern "C" fn use_all_each_time(value: *mut c_void) {
        super::use_all();
        arm_key(value.addr() - 1, value.addr());
    }

    /// A destructor of key 0 that uses the library in the last round. Its value is the number of the round.
    pub unsafe extern "C" fn use_all_last(round: *mut c_void) {
        // `PTHREAD_DESTRUCTOR_ITERATIONS`.
        if round.addr() == 4 {
            super::use_all();
        } else {
            arm_key(0, round.addr() + 1);
        }
    }
}

/// Registers the thread as a reader, and defers a callback.
fn use_all() {
    fence::light();
    drop(stillpoint::rcu::enter());
    stillpoint::rcu::retire(Box::new([0_u8; 10]));
    drop(stillpoint::qsbr::register());
}

/// Runs the test in a process of its own for each backend. Returns `true` in such a process.
fn on_each_backend<T: Fn() + Copy>(test: T) -> bool {
    if child::variant().is_none() {
        for backend in backends!() {
            child::run(test, backend, Some(backend));
        }
        return false;
    }
    true
}

#[cfg(target_os = "linux")]
#[test]
fn destructors_that_use_everything_leave_nothing() {
    if !on_each_backend(destructors_that_use_everything_leave_nothing) {
        return;
    }
    let _running = deadline();
    // One key comes before those of the library, and one after.
    ends::make_key(0, ends::use_all_each_time);
    use_all();
    ends::make_key(1, ends::use_all_each_time);
    let readers = || [stillpoint::rcu::stats().readers, stillpoint::qsbr::Global.stats().readers];
    extern "C" fn body(_: *mut std::ffi::c_void) -> *mut std::ffi::c_void {
        use_all();
        ends::arm_key(0, 1);
        ends::arm_key(1, 2);
        ptr::null_mut()
    }
    ends::unmapped_thread(body);
    stillpoint::rcu::barrier();
    let before = readers();
    for _ in 0..100 {
        ends::unmapped_thread(body);
        fence::heavy();
    }
    stillpoint::rcu::barrier();
    stillpoint::qsbr::synchronize();
    assert_eq!(readers(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn first_use_in_the_last_destructor_blocks_nothing() {
    if !on_each_backend(first_use_in_the_last_destructor_blocks_nothing) {
        return;
    }
    let _running = deadline();
    use_all();
    ends::make_key(0, ends::use_all_last);
    extern "C" fn body(_: *mut std::ffi::c_void) -> *mut std::ffi::c_void {
        ends::arm_key(0, 1);
        ptr::null_mut()
    }
    for _ in 0..100 {
        ends::unmapped_thread(body);
        fence::heavy();
    }
    stillpoint::rcu::barrier();
    stillpoint::qsbr::synchronize();
}

#[cfg(target_os = "linux")]
#[test]
fn thread_that_skips_destructors_blocks_nothing() {
    if !on_each_backend(thread_that_skips_destructors_blocks_nothing) {
        return;
    }
    let _running = deadline();
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
        while REGISTERED.load(Acquire) != round {
            thread::yield_now();
        }
        // The thread may be about to end.
        fence::heavy();
    }
    stillpoint::rcu::barrier();
}
