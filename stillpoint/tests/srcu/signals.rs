//! Signal handlers that begin and end sections at any moment of the interrupted thread.

use std::sync::atomic::AtomicPtr;

use stillpoint::percpu;
use stillpoint::srcu::{Domain, Guard};
use support::prelude::*;
use support::signals::{expect, interrupt};

static DOMAIN: Domain = Domain::new();
static VALUE: OnceLock<Rcu<Tracked, Domain>> = OnceLock::new();
/// The guard that the handler drops.
static GUARD: AtomicPtr<Guard<'static>> = AtomicPtr::new(ptr::null_mut());

fn look() {
    let guard = DOMAIN.enter();
    expect(VALUE.get().is_none_or(|value| value.load(&guard).0.load(Acquire) == 0));
}

fn handle() {
    look();
    // SAFETY: the pointer of a guard that the interrupted thread has passed on, once.
    if let Some(guard) = unsafe { GUARD.swap(ptr::null_mut(), AcqRel).as_mut() } {
        // SAFETY: as above.
        unsafe { ptr::drop_in_place(guard) };
    }
}

#[test]
fn srcu_signal_handlers_may_read_at_any_moment() {
    let _running = deadline();
    DOMAIN.prepare();
    let value = VALUE.get_or_init(|| Rcu::new_in(Tracked::leaked(), DOMAIN.clone()));
    let read = |_| {
        look();
        // Dropped by the handler, or here.
        let mut place = mem::ManuallyDrop::new(DOMAIN.enter());
        GUARD.store(&mut *place, Release);
        look();
        if !GUARD.swap(ptr::null_mut(), AcqRel).is_null() {
            // SAFETY: taken back, so the handler does not drop it.
            unsafe { mem::ManuallyDrop::drop(&mut place) };
        }
    };
    let write = |round| {
        let retired = value.replace(Tracked::leaked());
        if round % 2 == 0 {
            drop(retired.wait());
        }
    };
    interrupt(handle, || _ = percpu::register_thread(), read, write, || true);
    DOMAIN.barrier();
    assert_eq!(DOMAIN.stats().readers, 0);
}
