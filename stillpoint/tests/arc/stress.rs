//! Threads that load, keep, drop and store at the same time. Values notice when they are used after they were freed.

use std::sync::RwLock;

use stillpoint::arc::{ArcCell, Deferred, Exact, Strategy};
use support::prelude::*;

/// A value that is marked when it is dropped. Its memory stays.
struct Marked(&'static AtomicUsize);

static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Marked {
    fn new() -> Arc<Self> {
        LIVE.fetch_add(1, Relaxed);
        Arc::new(Self(Box::leak(Box::new(AtomicUsize::new(1)))))
    }

    fn check(&self) {
        assert_eq!(self.0.load(Acquire), 1, "a value that was dropped");
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        assert_eq!(self.0.swap(0, AcqRel), 1, "a value was dropped twice");
        LIVE.fetch_sub(1, Relaxed);
    }
}

/// Two cells, between which values move, so that a value has guards of both.
fn run<S: Strategy<Arc<Marked>> + Default + Sync>(rounds: usize) {
    let cells: [ArcCell<Arc<Marked>, S>; 2] = [(); 2].map(|()| ArcCell::from(Marked::new()));
    in_threads(3, |number| {
        let mut kept = Vec::new();
        for round in 0..rounds {
            let cell = &cells[(round + number) % 2];
            match (round + number) % 7 {
                0 => cell.store(Marked::new()),
                1 => drop(cell.swap(cells[round % 2].load_full())),
                2 => {
                    let guard = cell.load();
                    _ = cell.compare_exchange(Arc::as_ptr(&guard), Marked::new());
                    guard.check();
                }
                3 => kept.clear(),
                _ => kept.push(cell.load()),
            }
            kept.iter().for_each(|guard| guard.check());
            cell.load().check();
        }
    });
    drop(cells);
}

#[test]
fn values_live_as_long_as_they_are_used() {
    let _running = deadline();
    let rounds = if cfg!(miri) { 15 } else { 2000 };
    run::<Exact>(rounds);
    run::<RwLock<()>>(rounds);
    assert_eq!(LIVE.load(Relaxed), 0, "counts are exact");
    run::<Deferred>(rounds);
    stillpoint::arc::barrier();
    assert_eq!(LIVE.load(Relaxed), 0);
}
