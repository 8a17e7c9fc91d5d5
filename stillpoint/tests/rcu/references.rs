//! References that bring their section.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::thread;

use stillpoint::rcu::{Rcu, Ref};
use stillpoint::{EnterSection, TakeBack, srcu};
use support::callbacks::counter;
use support::deadline::deadline;
use support::futures::block_on;
use support::tracked::Tracked;

#[test]
fn references_keep_the_value_and_print_it() {
    fn check<D: EnterSection + TakeBack>(domain: D) {
        let (drops, _) = counter();
        let value = Rcu::new_in((String::from("old"), Tracked(drops)), domain.clone());
        let (all, part) = (value.read(), Ref::map(value.read(), |value| value.0.as_str()));
        let retired = value.replace((String::from("new"), Tracked(counter().0))).start();
        assert!(!retired.is_elapsed());
        drop(all);
        assert_eq!((part.len(), format!("{part} {part:?}")), (3, "old \"old\"".into()));
        let retired = retired.try_take().expect_err("it has a reader");
        assert_eq!(drops.load(Acquire), 0);
        drop(part);
        drop(block_on(retired));
        assert_eq!(drops.load(Acquire), 1);
        // A panic in `map` ends the section.
        let failing = || drop(Ref::map(value.read(), |_| -> &str { panic!("the closure failed") }));
        assert!(catch_unwind(AssertUnwindSafe(failing)).is_err());
        domain.synchronize();
    }
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    check(Own);
    check(srcu::Domain::new());
}

#[test]
fn sleepable_references_move_between_threads() {
    fn is<T: Send + Sync + 'static>() {}
    is::<Ref<'static, String, srcu::Domain>>();
    is::<Ref<'static, dyn Debug + Send + Sync, srcu::Domain>>();
    let _running = deadline();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    runtime.block_on(async {
        let (drops, _) = counter();
        let value = Arc::new(Rcu::new_in(Tracked(drops), srcu::Domain::new()));
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let (theirs, guard) = (value.clone(), value.domain().enter_owned());
                tokio::spawn(async move {
                    let read = theirs.load(&guard);
                    for _ in 0..10 {
                        assert_eq!(read.0.load(Acquire), 0);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        drop(value.replace(Tracked(counter().0)).await);
        assert_eq!(drops.load(Acquire), 1);
        for reader in readers {
            reader.await.expect("the reader ends");
        }
        let borrowed = value.read();
        thread::scope(|scope| scope.spawn(move || assert_eq!(borrowed.0.load(Acquire), 0)).join().unwrap());
    });
}
