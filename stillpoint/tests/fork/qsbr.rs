//! In the child of a fork, only the forking thread keeps its handle.

use support::prelude::*;

#[test]
fn child_keeps_its_handle_and_waits_for_itself_only() {
    qsbr::domain! { struct Here; }
    static STOP: AtomicBool = AtomicBool::new(false);
    alone!();
    let online = Barrier::new(3);
    let number = Rcu::new_in(1, Here);
    thread::scope(|scope| {
        // One thread never reports, one always does, and one writes.
        scope.spawn(|| {
            let handle = Here::register();
            online.wait();
            until(|| STOP.load(Acquire));
            drop(handle);
        });
        scope.spawn(|| {
            let mut handle = Here::register();
            online.wait();
            while !STOP.load(Acquire) {
                handle.quiescent();
            }
        });
        scope.spawn(|| Here.synchronize());
        let mut handle = Here::register();
        online.wait();
        for _ in 0..20 {
            in_child(|| {
                handle.quiescent();
                let old = number.replace(2);
                let kept = *number.load(&handle) == 2 && Here::is_online();
                handle.synchronize();
                let old = handle.offline(|| old.wait());
                Here.retire(Box::new(5));
                handle.offline(|| Here.barrier());
                assert!(kept && old == 1 && Here.stats().queued == 0);
            });
            handle.quiescent();
        }
        drop(handle);
        STOP.store(true, Release);
    });
}
