//! Signal handlers that begin and end sections at any moment of the interrupted thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use std::{mem, ptr, thread};

use libc::c_int;
use stillpoint::Domain as _;
use stillpoint::percpu;
use stillpoint::rcu::Rcu;
use stillpoint::srcu::{Domain, Guard};
use support::deadline::deadline;
use support::signals::{install, send};
use support::tracked::Tracked;

static DOMAIN: Domain = Domain::new();
static VALUE: OnceLock<Rcu<Tracked, Domain>> = OnceLock::new();
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
/// Sections that saw a dropped value: a handler cannot panic.
static WRONG: AtomicUsize = AtomicUsize::new(0);
/// The guard that the handler drops.
static GUARD: AtomicPtr<Guard<'static>> = AtomicPtr::new(ptr::null_mut());

fn look() {
    let guard = DOMAIN.enter();
    if VALUE.get().is_some_and(|value| value.load(&guard).0.load(Acquire) != 0) {
        WRONG.fetch_add(1, Relaxed);
    }
}

extern "C" fn handle(_signal: c_int) {
    look();
    // SAFETY: the pointer of a guard that the interrupted thread has passed on, once.
    if let Some(guard) = unsafe { GUARD.swap(ptr::null_mut(), AcqRel).as_mut() } {
        // SAFETY: as above.
        unsafe { ptr::drop_in_place(guard) };
    }
    HANDLED.fetch_add(1, Release);
}

#[test]
fn srcu_signal_handlers_may_read_at_any_moment() {
    let _running = deadline();
    let signal = install(1, handle);
    DOMAIN.prepare();
    let value = VALUE.get_or_init(|| Rcu::new_in(Tracked::leaked(), DOMAIN.clone()));
    let reader = thread::spawn(|| {
        percpu::register_thread();
        while !STOP.load(Relaxed) {
            look();
            // Dropped by the handler, or here.
            let mut place = mem::ManuallyDrop::new(DOMAIN.enter());
            GUARD.store(&mut *place, Release);
            look();
            if !GUARD.swap(ptr::null_mut(), AcqRel).is_null() {
                // SAFETY: taken back, so the handler does not drop it.
                unsafe { mem::ManuallyDrop::drop(&mut place) };
            }
        }
    });
    let writer = thread::spawn(|| {
        for round in 0_usize.. {
            if STOP.load(Relaxed) {
                break;
            }
            let retired = value.replace(Tracked::leaked());
            if round % 2 == 0 {
                drop(retired.wait());
            }
        }
    });
    let mut sent = 0;
    while HANDLED.load(Acquire) < 3000 {
        // A few pending signals: the queue is that of all processes of the user.
        if sent < HANDLED.load(Acquire) + 64 {
            send(signal, &reader);
            sent += 1;
        }
        thread::yield_now();
    }
    STOP.store(true, Relaxed);
    reader.join().expect("no panic");
    writer.join().expect("no panic");
    assert_eq!(WRONG.load(Relaxed), 0);
    DOMAIN.barrier();
    assert_eq!(DOMAIN.stats().readers, 0);
}
