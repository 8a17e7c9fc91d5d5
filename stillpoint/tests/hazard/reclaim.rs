//! When what was retired is freed, by which thread, and how much waits.

use std::pin::pin;

use stillpoint::hazard::HazardPointer;
use support::asleep::asleep_in;
use support::prelude::*;

/// No thread retires anything else, and none waits.
#[test]
fn value_is_freed_some_time_after_its_pointer_was_reset() {
    own!(hazard Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let mut pointer = HazardPointer::new();
    pointer.protect(&value);
    drop(value.replace(Tracked(&DROPS)));
    until(|| Own.stats().protected == 1);
    pointer.reset();
    until(|| DROPS.load(Acquire) == 1);
}

/// Owners keep what they find protected when they free values themselves, and the worker frees it later.
#[test]
fn value_that_its_owner_keeps_is_freed_by_the_worker() {
    own!(hazard Own, DROPS);
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    let value = Rcu::new_in(Tracked(&KEPT), Own);
    let mut pointer = HazardPointer::new();
    let kept = pointer.protect(&value);
    let local = || DeferOptions::new().run_on_retiring_thread();
    value.replace(Tracked(&DROPS)).retire_with(local());
    until(|| {
        value.replace(Tracked(&DROPS)).retire_with(local());
        Own.stats().protected == 1
    });
    assert_eq!(kept.0.load(Acquire), 0);
    drop(pointer);
    Own.barrier();
    assert_eq!((Own.stats().queued, KEPT.load(Acquire)), (0, 1));
}

/// Values without a size share one address. Each type has a destructor of its own.
#[test]
#[cfg_attr(miri, ignore = "a function has many addresses")]
fn pointers_keep_few_of_the_values_without_a_size() {
    static DROPS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    /// Of an alignment, which is their address, that no other test protects: hazard pointers are for all domains.
    #[repr(align(64))]
    struct Empty<const N: usize>;
    impl<const N: usize> Drop for Empty<N> {
        fn drop(&mut self) {
            DROPS[N].fetch_add(1, AcqRel);
        }
    }

    own!(hazard Own);
    let drops = || DROPS.each_ref().map(|drops| drops.load(Acquire));
    let (first, second) = (Rcu::new_in(Empty::<0>, Own), Rcu::new_in(Empty::<1>, Own));
    let mut pointers = [(); 2].map(|()| HazardPointer::new());
    let [one, other] = &mut pointers;
    one.protect(&first);
    other.protect(&second);
    for _ in 0..1000 {
        drop(first.replace(Empty));
        drop(second.replace(Empty));
    }
    // Two of each type, as two pointers have the address; of those that are ready, wait, and have no cookie.
    until(|| {
        Own.barrier();
        assert!(drops().iter().all(|drops| *drops < 1000), "a value is gone that is protected");
        Own.stats().protected <= 3 * 4
    });
    drop(pointers);
    Own.barrier();
    assert_eq!(drops(), [1000; 2]);
}

/// The limits are far below what is protected.
#[test]
fn protected_values_do_not_throttle_writers() {
    const HELD: usize = if cfg!(miri) { 100 } else { 2000 };
    own!(hazard Own);
    Own.set_limits(Limits { count: HELD as u64 / 2, bytes: (HELD as u64) << 9, ..Limits::default() });
    let values: Vec<_> = (0..HELD).map(|_| Rcu::new_in([1_u64; 128], Own)).collect();
    let mut pointers: Vec<_> = (0..HELD).map(|_| HazardPointer::new()).collect();
    let kept: Vec<_> =
        pointers.iter_mut().zip(&values).map(|(pointer, value)| pointer.protect(value)).collect();
    values.iter().for_each(|value| drop(value.replace([2; 128])));
    Own.barrier();
    // While the worker looks at a value again, it counts once more.
    until(|| Own.stats().protected == HELD as u64);
    until(|| Own.stats().queued_bytes == 0);
    let before = Own.stats();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) {
        values.iter().for_each(|value| drop(value.replace([3; 128])));
    }
    let after = Own.stats();
    assert_eq!(after.limit_overruns, before.limit_overruns);
    assert!(kept.iter().all(|value| **value == [1; 128]));
    drop(pointers);
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
}

/// The reader never resets its pointers, and the writer never waits.
#[test]
fn stalled_reader_keeps_no_more_than_it_protects() {
    own!(hazard Own);
    const COUNT: u64 = if cfg!(miri) { 2_000 } else { 2_000_000 };
    let value = Rcu::new_in([0_u64; 4], Own);
    let mut pointers = HazardPointer::array::<8>();
    let mut kept = Vec::new();
    for pointer in &mut pointers {
        kept.push(pointer.protect(&value));
        drop(value.replace([kept.len() as u64; 4]));
    }
    let mut most = 0;
    for number in 0..COUNT {
        drop(value.replace([number; 4]));
        if number % 1000 == 0 {
            most = most.max(Own.stats().queued);
        }
    }
    // The limit of the backlog, in number; most machines need a tenth of it.
    assert!(most < 1 << 17, "{most} values waited");
    assert!(kept.iter().enumerate().all(|(number, value)| **value == [number as u64; 4]));
    Own.barrier();
    assert_eq!(Own.stats().queued, 8);
}

#[test]
fn destructor_may_protect_and_retire() {
    own!(hazard Own, DROPS);
    struct Chain(u32);
    impl Drop for Chain {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Release);
            if self.0 != 0 {
                let value = Rcu::new_in(Self(0), Own);
                let mut pointer = HazardPointer::new();
                assert_eq!(pointer.protect(&value).0, 0);
                drop(value.replace(Self(0)));
                Own.retire(Box::new(Self(self.0 - 1)));
            }
        }
    }
    Own.retire(Box::new(Chain(100)));
    until(|| DROPS.load(Acquire) == 301);
}

#[test]
fn callback_waits_for_no_hazard_pointer() {
    own!(hazard Own);
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let value = Rcu::new_in(1, Own);
    let mut pointer = HazardPointer::new();
    let kept = pointer.protect(&value);
    Own.synchronize();
    Own.call(|| _ = RAN.fetch_add(1, Release));
    Own.barrier();
    assert_eq!((RAN.load(Acquire), *kept), (1, 1));
}

/// The worker looks what is protected before the pointer is reset, and finds the value after that.
/// Refutes: barrier-of-one-pass
#[test]
fn barrier_frees_what_was_reset_before_it() {
    own!(hazard Own, DROPS);
    struct Blocking(mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Drop for Blocking {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let mut pointer = HazardPointer::new();
    pointer.protect(&value);
    let ((runs, is_running), (ends, end)) = (mpsc::channel(), mpsc::channel());
    // Both wait for the same grace period.
    let section = Own::enter();
    Own.retire(Box::new(Blocking(runs, end)));
    drop(value.replace(Tracked(&DROPS)));
    drop(section);
    is_running.recv().unwrap();
    pointer.reset();
    thread::scope(|s| {
        let barrier = asleep_in(s, || {
            Own.barrier();
            DROPS.load(Acquire)
        });
        ends.send(()).unwrap();
        assert_eq!(barrier.join().unwrap(), 1);
    });
}

#[test]
fn future_of_a_barrier_ends_although_a_thread_registers() {
    own!(hazard Own);
    // One value has been kept.
    let value = Rcu::new_in(1, Own);
    let mut pointer = HazardPointer::new();
    pointer.protect(&value);
    drop(value.replace(2));
    until(|| Own.stats().protected == 1);
    pointer.reset();
    Own.barrier();
    let (end, ends) = mpsc::channel::<()>();
    Own.call(move || _ = ends.recv());
    let mut barrier = pin!(Own.barrier_async());
    let mut is_ready = || barrier.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!is_ready());
    let (stay, stays) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (entered, enters) = mpsc::channel();
        scope.spawn(move || {
            drop(Own::enter());
            entered.send(()).expect("the test listens");
            _ = stays.recv();
        });
        enters.recv().expect("it enters");
        drop(end);
        until(&mut is_ready);
        drop(stay);
    });
}

/// A pointer protects the address only, not the values of a batch.
#[test]
fn batch_counts_as_one_value_and_stays_while_it_is_protected() {
    own!(hazard Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let mut pointer = HazardPointer::new();
    pointer.protect(&value);
    value.replace(Tracked(&DROPS)).retire_with(DeferOptions::new().count(50));
    assert_eq!(Own.stats().queued, 1);
    // It counts once more until the worker has counted that it is kept.
    until(|| (Own.stats().protected, Own.stats().queued) == (1, 1));
    drop(pointer);
    until(|| Own.stats().queued == 0);
    assert_eq!(DROPS.load(Acquire), 1);
}
