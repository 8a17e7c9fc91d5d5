//! Children of forks, at any moment of the other threads.

use std::ffi::c_void;
use std::sync::RwLock;
use std::sync::atomic::AtomicU8;

use stillpoint::rcu::Guard;
use stillpoint::{EnterSection, fence};
use support::fork::{await_child, exit, fork};
use support::futures::{block_on, poll};
use support::prelude::*;

use crate::exercise;

/// Counters that a process shares with its children.
struct SharedCounts(&'static [AtomicU8]);

impl SharedCounts {
    fn new(len: usize) -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        // SAFETY: `len` bytes, which are zero, aligned and never unmapped.
        Self(unsafe { std::slice::from_raw_parts(memory.cast(), len) })
    }

    /// Returns a callback that must run once.
    fn once(&self, index: usize) -> impl FnOnce() + Send + use<> {
        let place = &self.0[index];
        move || _ = place.fetch_add(1, AcqRel)
    }

    fn sum(&self) -> usize {
        self.0.iter().map(|times| usize::from(times.load(Acquire))).sum()
    }

    fn assert_once(&self, count: usize) {
        for (index, times) in self.0[..count].iter().enumerate() {
            assert_eq!(times.load(Acquire), 1, "number {index} of {count}");
        }
    }
}

/// [`exercise`], and a grace period that waits for a section of another thread.
fn exercise_with_threads<D: StaticDomain<Section = Guard<D>> + EnterSection<Hazards = ()>>(domain: D) {
    assert!(!Guard::<D>::in_read_section());
    exercise(&domain);
    let (inside, left) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let guard = Guard::<D>::enter();
            let before = D::INSTANCE.stats().sleeps;
            inside.wait();
            until(|| D::INSTANCE.stats().sleeps != before);
            left.store(true, Release);
            drop(guard);
            exercise(&domain);
        });
        inside.wait();
        D::INSTANCE.synchronize();
        assert!(left.load(Acquire));
        exercise(&domain);
        reader.join().expect("no panic");
    });
}

/// Runs `body` in a thread, and joins it. Not a thread of the standard library: if one of these starts or exits
/// during the fork, the child cannot start threads.
fn native_thread(body: fn()) {
    extern "C" fn start(body: *mut c_void) -> *mut c_void {
        // SAFETY: the pointer of such a function, from the call below.
        let body = unsafe { mem::transmute::<*mut c_void, fn()>(body) };
        body();
        ptr::null_mut()
    }
    // SAFETY: the thread borrows nothing, and is joined once.
    unsafe {
        let mut thread = mem::zeroed();
        assert_eq!(libc::pthread_create(&mut thread, ptr::null(), start, body as *mut c_void), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
}

/// Starts the other nine threads of a parent. They pause while the gate is locked, and end when `stop` is set.
fn start_background_threads<'scope, D: StaticDomain<Section = Guard<D>>>(
    scope: &'scope thread::Scope<'scope, '_>,
    domain: D,
    (stop, gate, started): (&'scope AtomicBool, &'scope RwLock<()>, &'scope Barrier),
    (counts, next): (&'scope SharedCounts, &'scope AtomicUsize),
) {
    let spawn = |body: fn(D)| {
        scope.spawn(move || {
            started.wait();
            while !stop.load(Relaxed) {
                drop(gate.read());
                body(domain);
            }
        });
    };
    spawn(|_| {
        let outer = Guard::<D>::enter();
        thread::yield_now();
        drop(Guard::<D>::enter());
        drop(outer);
    });
    spawn(|_| D::INSTANCE.synchronize());
    spawn(|_| D::INSTANCE.synchronize());
    spawn(|_| D::INSTANCE.barrier());
    spawn(|_| fence::heavy());
    spawn(|domain| {
        GracePeriod::start_in(domain);
        let readers = GracePeriod::now_in(domain);
        while !readers.wait_timeout(Duration::from_micros(50)) {}
        block_on(readers.into_future());
        block_on(GracePeriod::now_in(domain).into_future());
    });
    // Short-lived threads.
    spawn(|_| native_thread(|| drop(Guard::<D>::enter())));
    for _ in 0..2 {
        scope.spawn(|| {
            started.wait();
            while !stop.load(Relaxed) {
                drop(gate.read());
                for _ in 0..50 {
                    let index = next.fetch_add(1, Relaxed);
                    D::INSTANCE.call(counts.once(index));
                    D::INSTANCE.retire(Box::new(index));
                }
                thread::yield_now();
                if next.load(Relaxed) % 8 == 0 {
                    D::INSTANCE.barrier();
                }
            }
        });
    }
}

#[test]
fn child_works_whatever_other_threads_did() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct InTheChild; }
    const ROUNDS: usize = 30;
    fence::report();
    let (stop, gate, started) = (AtomicBool::new(false), RwLock::new(()), Barrier::new(10));
    let (counts, next) = (SharedCounts::new(1 << 30), AtomicUsize::new(0));
    let value = Rcu::new_in(String::from("value"), Own);
    thread::scope(|scope| {
        start_background_threads(scope, Own, (&stop, &gate, &started), (&counts, &next));
        started.wait();
        for round in 0..repetitions(ROUNDS) {
            let before = Own.stats().sleeps;
            let mut sections: Vec<_> = (0..round % 3).map(|_| Own::enter()).collect();
            // Pending at the fork, if a section is open.
            Own.call(counts.once(next.fetch_add(1, Relaxed)));
            drop(value.replace(format!("value {round}")));
            if !sections.is_empty() {
                // A grace period sleeps until this thread leaves.
                until(|| Own.stats().sleeps != before);
            }
            let in_child_alone = |child: &mut dyn FnMut()| match fork() {
                0 => exit(catch_unwind(AssertUnwindSafe(child)).is_ok()),
                pid => {
                    // Leaves the CPUs to the child.
                    let _closed = gate.write();
                    await_child(pid);
                }
            };
            in_child_alone(&mut || {
                let is_inside = !sections.is_empty();
                assert_eq!(Own::in_read_section(), is_inside);
                if let Some(guard) = sections.first() {
                    assert_eq!(*value.load(guard), format!("value {round}"));
                    let before = Own.stats().sleeps;
                    let writer = thread::spawn(|| Own.synchronize());
                    until(|| Own.stats().sleeps != before || writer.is_finished());
                    assert!(!writer.is_finished());
                    sections.clear();
                    writer.join().expect("the section was left");
                }
                exercise_with_threads(Own);
                exercise(&InTheChild);
                // A child of the child.
                in_child(|| exercise_with_threads(InTheChild));
                exercise(&Own);
            });
        }
        stop.store(true, Relaxed);
    });
    Own.barrier();
    exercise_with_threads(Own);
    counts.assert_once(next.into_inner());
}

#[test]
fn work_deferred_before_a_fork_runs_in_the_parent_only() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    const EACH: usize = 200;
    let counts = &SharedCounts::new(3 * EACH);
    // No callback runs until it is dropped.
    let mut guard = Some(Own::enter());
    for index in 0..EACH / 2 {
        Own.call(counts.once(index));
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| (EACH / 2..EACH).for_each(|index| Own.call(counts.once(index))));
        other.join().expect("no panic");
    });
    in_child(|| {
        (EACH..2 * EACH).for_each(|index| Own.call(counts.once(index)));
        guard = None;
        Own.barrier();
        assert_eq!((counts.sum(), Own.stats().queued), (EACH, 0));
    });
    assert_eq!(counts.sum(), EACH);
    (2 * EACH..3 * EACH).for_each(|index| Own.call(counts.once(index)));
    drop(guard);
    Own.barrier();
    counts.assert_once(3 * EACH);
}

#[test]
fn idle_thread_in_a_child_is_visited_once_it_reads() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    let synchronize = || {
        let writer = thread::spawn(|| {
            let before = Own.stats().scanned;
            Own.synchronize();
            Own.stats().scanned - before
        });
        writer.join().expect("no panic")
    };
    let step = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            Own::register();
            step.wait();
            step.wait();
        });
        step.wait();
        for is_idle in [false, true] {
            drop(Own::enter());
            if is_idle {
                Own::hint_idle();
            }
            in_child(|| {
                // The other thread is gone.
                assert_eq!(synchronize(), u64::from(!is_idle));
                let guard = Own::enter();
                let before = Own.stats().sleeps;
                let writer = thread::spawn(|| Own.synchronize());
                until(|| Own.stats().sleeps != before || writer.is_finished());
                assert!(!writer.is_finished());
                drop(guard);
                writer.join().expect("the section was left");
                assert_eq!(synchronize(), 1);
                Own::hint_idle();
                assert_eq!(synchronize(), 0);
            });
        }
        step.wait();
        other.join().expect("no panic");
    });
}

#[test]
fn child_ignores_guards_of_other_threads() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    let inside = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _guard = Own::enter();
            inside.wait();
            inside.wait();
        });
        inside.wait();
        for _ in 0..10 {
            in_child(|| exercise_with_threads(Own));
        }
        inside.wait();
        other.join().expect("no panic");
    });
    thread::spawn(|| mem::forget(Own::enter())).join().expect("no panic");
    let sleeps = Own.stats().sleeps;
    // Never returns.
    let writer = thread::spawn(|| Own.synchronize());
    until(|| Own.stats().sleeps > sleeps);
    for _ in 0..10 {
        in_child(|| exercise_with_threads(Own));
    }
    assert!(!writer.is_finished());
}

#[test]
fn fork_during_first_use_is_safe() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    // A new process each time, which has used nothing yet.
    for round in (0..99_u32).step_by(99 / repetitions(33)) {
        in_child(|| {
            let start = Barrier::new(4);
            thread::scope(|scope| {
                let first: [fn(); 3] = [|| drop(Own::enter()), || Own.call(|| ()), || Own.synchronize()];
                for first in first {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        first();
                        // Neither starts nor exits during the fork: see `native_thread`.
                        start.wait();
                    });
                }
                start.wait();
                for _ in 0..round * 20 {
                    std::hint::spin_loop();
                }
                in_child(|| exercise_with_threads(Own));
                start.wait();
            });
            exercise_with_threads(Own);
        });
    }
}

#[test]
fn future_polled_before_a_fork_works_in_the_child() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    let inside = Barrier::new(2);
    let mut future = GracePeriod::now_in(Own).into_future();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = Own::enter();
            inside.wait();
            inside.wait();
        });
        inside.wait();
        assert!(poll(&mut future, Waker::noop()).is_pending());
        in_child(|| {
            let mut other = GracePeriod::now_in(Own).into_future();
            assert!(poll(&mut other, Waker::noop()).is_pending());
            block_on(&mut future);
            drop(other);
            exercise(&Own);
        });
        assert!(poll(&mut future, Waker::noop()).is_pending());
        inside.wait();
    });
    block_on(&mut future);
}

#[test]
fn callbacks_destructors_and_wakers_may_fork_if_the_child_exits() {
    alone!(on each backend);
    stillpoint::domain! { struct Own; }
    const CALLBACKS: usize = 1000;
    static FORKS: AtomicUsize = AtomicUsize::new(0);
    static WAKES: AtomicUsize = AtomicUsize::new(0);
    fn forks() {
        in_child(|| ());
        FORKS.fetch_add(1, AcqRel);
    }
    struct Destructor;
    impl Drop for Destructor {
        fn drop(&mut self) {
            forks();
        }
    }
    struct Waker;
    impl Wake for Waker {
        fn wake(self: Arc<Self>) {
            forks();
            WAKES.fetch_add(1, Release);
        }
    }
    let (counts, mut futures) = (&SharedCounts::new(CALLBACKS), 0);
    for index in 0..CALLBACKS {
        Own.call(counts.once(index));
        match index % 100 {
            0 => Own.call(forks),
            // Runs in this thread, or in the worker.
            1 => Own.retire_with(Box::new(Destructor), DeferOptions::new().run_on_retiring_thread()),
            2 => {
                let mut future = GracePeriod::now_in(Own).into_future();
                while poll(&mut future, &Arc::new(Waker).into()).is_ready() {
                    future = GracePeriod::now_in(Own).into_future();
                }
                GracePeriod::now_in(Own).wait();
                // The waker of a future that is dropped first may not be called.
                futures += 1;
                until(|| WAKES.load(Acquire) == futures);
                drop(future);
            }
            _ => {}
        }
    }
    Own.barrier();
    counts.assert_once(CALLBACKS);
    assert_eq!(FORKS.load(Acquire), 3 * CALLBACKS / 100);
    exercise_with_threads(Own);
}

#[test]
fn fork_handlers_of_the_program_may_use_new_domains() {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler() {
        if !IS_ON.load(Acquire) {
            return;
        }
        stillpoint::domain! { struct Before; }
        stillpoint::domain! { struct InParent; }
        match RUNS.fetch_add(1, AcqRel) {
            0 => drop(Before::enter()),
            _ => drop(InParent::enter()),
        }
        stillpoint::srcu::Domain::new().prepare();
    }
    extern "C" fn register() {
        // SAFETY: functions without arguments that live as long as the program.
        unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) };
    }
    // Handlers that are registered before the library's, as a shared library may do, run between its hooks.
    #[used]
    // SAFETY: an array of such functions, which the C library calls in the order of these numbers.
    #[unsafe(link_section = ".init_array.00098")]
    static REGISTER: extern "C" fn() = register;
    alone!(on each backend);
    IS_ON.store(true, Release);
    for _ in 0..2 {
        in_child(|| assert_eq!(RUNS.load(Acquire) % 2, 0));
    }
    assert_eq!(RUNS.load(Acquire), 4);
}

/// After `exit` has finalized the program, destructors and other threads may fork.
#[test]
#[cfg(target_env = "gnu")]
fn child_of_a_fork_after_exit_has_no_readers_of_the_parent() {
    stillpoint::domain! { struct Own; }
    static IS_ON: AtomicBool = AtomicBool::new(false);
    extern "C" fn finish() {
        if IS_ON.load(Acquire) {
            in_child(|| Own.synchronize());
            println!("1 passed");
        }
    }
    // Runs after the destructor of the compiler, which ends the handlers of `pthread_atfork`.
    #[used]
    // SAFETY: an array of such functions, which the C library calls in the reverse order of these numbers.
    #[unsafe(link_section = ".fini_array.00101")]
    static FINISH: extern "C" fn() = finish;
    alone!(on each backend);
    thread::spawn(|| {
        let _guard = Own::enter();
        IS_ON.store(true, Release);
        loop {
            thread::park();
        }
    });
    until(|| IS_ON.load(Acquire));
    // SAFETY: no other thread ends the process.
    unsafe { libc::exit(0) }
}
