//! No value is freed while a thread reads it, in whichever way it is disposed of.

use std::future::{Future, IntoFuture};
use std::pin::pin;

use stillpoint::rcu::Guard;
use support::prelude::*;
use support::store_buffer::StoreBuffer;

const READERS: usize = 4;
const TIME: Duration = Duration::from_millis(1500);

/// Loads the value, and checks `times` times that it has not been dropped.
fn read<D: StaticDomain<Section = Guard<D>>>(value: &Rcu<Tracked, D>, guard: &Guard<D>, times: usize) {
    let drops = value.load(guard).0;
    for time in 0..times {
        if time % 64 == 63 {
            thread::yield_now();
        }
        assert_eq!(drops.load(Acquire), 0, "dropped while it was read");
    }
}

/// Reads in several ways while one writer calls `dispose` again and again.
fn stress<D: StaticDomain<Section = Guard<D>>>(domain: D, dispose: impl Fn(&Rcu<Tracked, D>)) {
    let _running = deadline();
    let value = Rcu::new_in(Tracked::leaked(), domain);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (value, stop) = (&value, &stop);
                scope.spawn(move || {
                    let mut buffer = StoreBuffer::default();
                    let mut round = reader;
                    while !stop.load(Relaxed) {
                        round += 1;
                        if round % 16 < 4 {
                            buffer.fill();
                        }
                        let mut guard = Guard::<D>::enter();
                        match round % 4 {
                            0 => read(value, &guard, 1),
                            1 => read(value, &guard, 300),
                            2 => {
                                let drops = value.load(&guard).0;
                                read(value, &Guard::<D>::enter(), 10);
                                assert_eq!(drops.load(Acquire), 0, "dropped while it was read");
                            }
                            _ => {
                                for _ in 0..10 {
                                    guard.repin();
                                    read(value, &guard, 20);
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        let start = Instant::now();
        while start.elapsed() < TIME && !readers.iter().any(|reader| reader.is_finished()) {
            dispose(&value);
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn no_read_after_synchronize() {
    stillpoint::domain! { struct Own; }
    stress(Own, |value| drop(value.replace(Tracked::leaked()).wait()));
}

#[test]
fn no_read_after_a_deferred_free() {
    stillpoint::domain! { struct Own; }
    stress(Own, |value| drop(value.replace(Tracked::leaked())));
}

#[test]
fn no_read_after_awaiting() {
    stillpoint::domain! { struct Own; }
    stress(Own, |value| {
        let mut future = pin!(value.replace(Tracked::leaked()).into_future());
        let mut context = Context::from_waker(Waker::noop());
        until(|| !future.as_mut().poll(&mut context).is_pending());
    });
}
