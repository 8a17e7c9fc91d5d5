//! Readers that check what they have protected, beside writers that retire all the time.

use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::{Atomic, Owned};
use support::prelude::*;

const ALIVE: usize = 0x5EED;

/// A value that shows that it was freed, although its memory may be used again.
struct Value(AtomicUsize);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

stillpoint::hazard::domain! { struct Own; }

/// Swaps values of a few pointers, which readers protect several at a time, pass on, and keep in sections.
fn run(time: Duration) {
    let values: [Atomic<Value, Own>; 4] = [(); 4].map(|()| Atomic::new(Owned::new(Value(ALIVE.into()))));
    let (stop, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let check = |value: Option<&Value>| assert_eq!(value.expect("never null").0.load(Relaxed), ALIVE);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut pointers = HazardPointer::array::<4>();
                while !stop.load(Relaxed) {
                    let kept: Vec<_> = pointers
                        .iter_mut()
                        .zip(&values)
                        .map(|(pointer, value)| pointer.protect(value))
                        .collect();
                    for _ in 0..3 {
                        kept.iter().for_each(|value| check(value.as_ref()));
                    }
                    let section = Own::enter();
                    // SAFETY: loaded in this section.
                    let node = unsafe { pointers[0].keep(values[1].load(&section)) };
                    drop(section);
                    check(node.as_ref());
                    let mut passed = HazardPointer::new();
                    std::mem::swap(&mut passed, &mut pointers[1]);
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        s.spawn(|| {
            let mut pointer = HazardPointer::new();
            for number in 0_usize.. {
                let local = DeferOptions::new().run_on_retiring_thread();
                let options = if number % 2 == 0 { local } else { DeferOptions::new() };
                let (value, old) = (&values[number % 4], pointer.protect(&values[number % 4]));
                value.try_store(old, Owned::new(Value(ALIVE.into()))).map_err(drop).expect("the only writer");
                // SAFETY: no longer reachable.
                unsafe { Own.retire_shared(old, options) };
                if stop.load(Relaxed) {
                    return;
                }
            }
        });
        let begin = Instant::now();
        while begin.elapsed() < time || reads.load(Relaxed) < 100 {
            Own.barrier();
            thread::yield_now();
        }
        stop.store(true, Relaxed);
    });
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
    // SAFETY: no other thread has the values.
    values.into_iter().for_each(|mut value| drop(unsafe { value.take() }));
}

#[test]
fn no_protected_value_is_freed_on_any_backend() {
    let _running = deadline();
    if cfg!(miri) {
        return run(Duration::ZERO);
    }
    match child::variant() {
        None => backends!().iter().for_each(|backend| {
            child::run(no_protected_value_is_freed_on_any_backend, backend, Some(backend));
        }),
        Some(_) => run(Duration::from_millis(500)),
    }
}
