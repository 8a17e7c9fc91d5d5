//! Guards in other threads than that which loaded them, threads that exit, and forks.

#[cfg(not(stillpoint_portable))]
use stillpoint::arc::Deferred;
use stillpoint::arc::{ArcCell, Guard};
#[cfg(not(stillpoint_portable))]
use support::fork;
use support::prelude::*;

#[test]
fn guard_outlives_its_thread_and_its_cell() {
    let _running = deadline();
    let value = Arc::new(1);
    let cell = ArcCell::new(Arc::clone(&value));
    let guards = thread::scope(|s| s.spawn(|| [(); 20].map(|()| cell.load())).join().unwrap());
    // Threads that take over the record fill other slots.
    for _ in 0..5 {
        thread::scope(|s| s.spawn(|| assert_eq!(**cell.load(), 1)).join().unwrap());
    }
    assert_eq!(Arc::strong_count(&value), 2);
    drop(cell);
    assert_eq!(Arc::strong_count(&value), 21);
    thread::spawn(move || drop(guards)).join().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

/// One thread loads, others drop.
#[test]
fn guards_are_dropped_by_other_threads_beside_stores() {
    let _running = deadline();
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Guard<Arc<u32>>>();
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    let cell = ArcCell::new(Arc::new(0));
    let (sender, receiver) = mpsc::sync_channel::<Guard<Arc<u32>>>(30);
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..rounds {
                sender.send(cell.load()).unwrap();
            }
            drop(sender);
        });
        s.spawn(|| {
            let mut last = 0;
            for guard in receiver {
                assert!(**guard >= last);
                last = **guard;
            }
        });
        for number in 1..rounds / 4 {
            drop(cell.swap(Arc::new(number)));
        }
    });
    assert_eq!(Arc::strong_count(&cell.load_full()), 2);
}

/// At the fork, another thread holds a guard that the child can reach, and a third one is loading and dropping.
#[cfg(not(stillpoint_portable))]
#[test]
#[cfg_attr(miri, ignore = "no forks")]
fn child_of_a_fork_loads_and_stores() {
    alone!(on each backend);
    let value = Arc::new(1);
    let cell = Arc::new(ArcCell::new(Arc::clone(&value)));
    let deferred = Arc::new(ArcCell::with_strategy(Arc::new(1), Deferred));
    let own = cell.load();
    let ready = Arc::new(Barrier::new(3));
    let (sender, receiver) = mpsc::channel();
    let (other, beside, other_ready) = (Arc::clone(&cell), Arc::clone(&deferred), Arc::clone(&ready));
    thread::spawn(move || {
        sender.send(other.load()).unwrap();
        other_ready.wait();
        loop {
            thread::park();
        }
    });
    let others_guard = receiver.recv().unwrap();
    let busy_ready = Arc::clone(&ready);
    thread::spawn(move || {
        busy_ready.wait();
        loop {
            assert_eq!(**beside.load(), 1);
            beside.store(Arc::new(1));
        }
    });
    ready.wait();
    for _ in 0..20 {
        fork::in_child(|| {
            assert_eq!(**cell.load(), 1);
            cell.store(Arc::new(2));
            assert_eq!((**own, **others_guard, **cell.load()), (1, 1, 2));
            assert_eq!(Arc::strong_count(&value), 3);
            deferred.store(Arc::new(3));
            stillpoint::arc::barrier();
            assert_eq!(**deferred.load(), 3);
            let cell = Arc::clone(&cell);
            thread::spawn(move || assert_eq!(**cell.load(), 2)).join().unwrap();
        });
    }
    assert_eq!((**own, **cell.load()), (1, 1), "the parent has its own");
}
