//! Children of forks.

use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::RcuOption;
use support::fork;
use support::prelude::*;

stillpoint::hazard::domain! { struct Own; }
stillpoint::hazard::domain! { struct Beside; }

static VALUE: RcuOption<u32, Own> = RcuOption::empty_in(Own);

/// At the fork, another thread has a hazard pointer whose value the child can reach, and a third one protects and
/// retires.
#[test]
#[cfg_attr(miri, ignore = "no forks")]
fn child_of_a_fork_protects_and_retires() {
    alone!(on each backend);
    VALUE.replace(Some(1));
    let mut pointer = HazardPointer::new();
    let own = pointer.protect(&VALUE);
    let beside = Arc::new(Rcu::new_in(7, Beside));
    let ready = Arc::new(Barrier::new(3));
    let (sender, receiver) = mpsc::channel();
    let others_ready = Arc::clone(&ready);
    thread::spawn(move || {
        let mut pointer = HazardPointer::new();
        sender.send(pointer.protect(&VALUE).expect("there is a value") as *const u32 as usize).unwrap();
        others_ready.wait();
        loop {
            thread::park();
        }
    });
    let others = receiver.recv().unwrap() as *const u32;
    let (busy, busy_ready) = (Arc::clone(&beside), Arc::clone(&ready));
    thread::spawn(move || {
        busy_ready.wait();
        let mut pointer = HazardPointer::new();
        loop {
            let seen = pointer.protect(&*busy);
            busy.replace(7);
            assert_eq!(*seen, 7);
        }
    });
    ready.wait();
    for _ in 0..20 {
        fork::in_child(|| {
            let mut second = HazardPointer::new();
            let seen = second.protect(&VALUE);
            VALUE.replace(Some(2));
            Own.barrier();
            // SAFETY: the slot of the other thread still protects it.
            assert_eq!((own, seen, unsafe { *others }), (Some(&1), Some(&1), 1));
            // It counts once more while the worker looks at it again.
            until(|| Own.stats().protected == 1);
            assert_eq!(*HazardPointer::new().protect(&*beside), 7);
            beside.replace(8);
            Beside.barrier();
            // What the third thread protected at the fork stays.
            assert!(Beside.stats().queued <= 1);
            thread::spawn(|| assert_eq!(HazardPointer::new().protect(&VALUE), Some(&2))).join().unwrap();
        });
    }
    assert_eq!(own, Some(&1));
    VALUE.take();
    Own.barrier();
    // The parent has its own.
    until(|| Own.stats().protected == 1);
}

/// The forking thread holds more pointers than its record has slots. No two pointers of later threads share one.
#[test]
#[cfg_attr(miri, ignore = "no forks")]
fn pointers_dropped_in_a_child_are_used_again_once() {
    static VALUES: [RcuOption<usize, Own>; 4] = [const { RcuOption::empty_in(Own) }; 4];
    alone!(on each backend);
    for held in [10, 505, 1000] {
        let pointers: Vec<_> = (0..held).map(|_| HazardPointer::new()).collect();
        fork::in_child(|| {
            drop(pointers);
            thread::scope(|s| {
                for (number, value) in VALUES.iter().enumerate() {
                    value.replace(Some(number));
                    s.spawn(move || {
                        let address = format!("{:p}", value.load(&Own::enter()).unwrap());
                        for _ in 0..2_000 {
                            let mut pointers = HazardPointer::array::<3>();
                            pointers.iter_mut().for_each(|pointer| _ = pointer.protect(value));
                            thread::yield_now();
                            assert!(format!("{pointers:x?}").matches(&address[2..]).count() == 3);
                        }
                    });
                }
            });
        });
    }
}
