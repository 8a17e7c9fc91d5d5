//! Destructors that run while a thread drops its handle.

use std::ffi::c_void;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::mpsc::channel;
use std::thread;

use stillpoint::Domain as _;
use stillpoint::qsbr;
use stillpoint::rcu::{DeferOptions, Limits};
use support::deadline::deadline;

#[test]
fn destructor_in_the_drop_of_a_handle_gets_no_second_handle() {
    qsbr::domain! { struct Own; }
    const LIMIT: u64 = 128;
    static REFUSED: AtomicU64 = AtomicU64::new(0);
    static HERE: AtomicU64 = AtomicU64::new(0);
    struct Registers(thread::ThreadId);
    impl Drop for Registers {
        fn drop(&mut self) {
            if thread::current().id() == self.0 {
                HERE.fetch_add(1, Relaxed);
                let refused = catch_unwind(Own::register).is_err();
                REFUSED.fetch_add(refused.into(), Relaxed);
            }
        }
    }
    let _running = deadline();
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let mut handle = Own::register();
    // The worker is busy, with a callback of a thread that has ended: so this thread runs its destructors itself.
    let (end, ended) = channel::<()>();
    let (begin, begun) = channel();
    let call = move || {
        Own.call(move || {
            begin.send(()).expect("the test waits");
            ended.recv().expect_err("the sender is dropped");
        });
    };
    thread::spawn(call).join().expect("no panic");
    handle.offline(|| begun.recv().expect("the callback runs"));
    let own = thread::current().id();
    // The first half of them are ready when the grace period of the drop has ended, and the others below the limit.
    for _ in 0..LIMIT {
        Own.retire_with(Box::new(Registers(own)), DeferOptions::new().run_on_retiring_thread());
    }
    assert_eq!(HERE.load(Relaxed), 0, "the thread is online");
    drop(handle);
    assert!(HERE.load(Relaxed) > 0, "the thread is throttled as it drops its handle");
    assert_eq!(REFUSED.load(Relaxed), HERE.load(Relaxed));
    drop(Own::register());
    drop(end);
    Own.barrier();
}

/// The thread has exited, but for a destructor that still has the handle.
#[cfg(target_os = "linux")]
#[test]
fn late_handle_keeps_its_reader_while_it_is_offline() {
    qsbr::domain! { struct Own; }
    static READERS: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn use_handle(handle: *mut c_void) {
        // SAFETY: the pointer comes from the Box below; this runs once, on the thread of the handle.
        let mut handle = unsafe { Box::from_raw(handle.cast::<qsbr::Handle<Own>>()) };
        handle.offline(|| {
            Own.call(|| ());
            Own.flush();
            // If the reader were free, this thread would get it.
            thread::spawn(|| drop(Own::register())).join().expect("no panic");
            READERS.store(Own.stats().readers, Relaxed);
        });
    }
    let _running = deadline();
    // The only reader so far. The key is created after that of the domain, so glibc runs its destructor later.
    thread::spawn(|| drop(Own::register())).join().expect("no panic");
    let mut key = 0;
    // SAFETY: `key` outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(use_handle)) }, 0);
    let exits = thread::spawn(move || {
        let handle = Box::into_raw(Box::new(Own::register()));
        // SAFETY: the key exists, and its destructor takes this pointer.
        assert_eq!(unsafe { libc::pthread_setspecific(key, handle.cast()) }, 0);
    });
    exits.join().expect("no panic");
    assert_eq!(READERS.load(Relaxed), 2, "the thread still has its reader");
    Own.synchronize();
    Own.barrier();
}
