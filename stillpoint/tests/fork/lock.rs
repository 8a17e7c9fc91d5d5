use stillpoint::lock::{Condvar, Mutex};
use support::prelude::*;

/// Jobs of a worker that waits for them: those that are left, and those that are done; whether it runs.
static JOBS: Mutex<(u32, u32, bool)> = Mutex::new((0, 0, false));
static CHANGED: Condvar = Condvar::new();
static IS_ON: AtomicBool = AtomicBool::new(false);

fn start_worker() {
    JOBS.lock().2 = false;
    thread::spawn(|| {
        let mut jobs = JOBS.lock();
        jobs.2 = true;
        CHANGED.notify_all();
        loop {
            CHANGED.wait_while(&mut jobs, |jobs| jobs.0 == 0);
            jobs.0 -= 1;
            jobs.1 += 1;
            CHANGED.notify_all();
        }
    });
    CHANGED.wait_while(&mut JOBS.lock(), |jobs| !jobs.2);
}

fn do_job() {
    let mut jobs = JOBS.lock();
    let done = jobs.1;
    jobs.0 += 1;
    CHANGED.notify_all();
    CHANGED.wait_while(&mut jobs, |jobs| jobs.1 == done);
}

/// The handlers of constructors run after the library's, which forgets the waiters of the parent.
#[test]
fn worker_that_a_handler_of_a_constructor_starts_again_wakes() {
    extern "C" fn child() {
        if IS_ON.load(Acquire) {
            // SAFETY: ends the process if it hangs.
            unsafe { libc::alarm(TIME_LIMIT.as_secs() as _) };
            start_worker();
        }
    }
    extern "C" fn register() {
        // SAFETY: a function without arguments that lives as long as the program.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    }
    #[used]
    // SAFETY: an array of such functions, which the C library calls in the order of these numbers.
    #[unsafe(link_section = ".init_array.00101")]
    static REGISTER: extern "C" fn() = register;
    alone!();
    start_worker();
    IS_ON.store(true, Release);
    for _ in 0..3 {
        do_job();
        in_child(do_job);
    }
}
