//! Hazard pointers in other threads than that which made them, threads that exit, and more pointers than slots.

use stillpoint::hazard::HazardPointer;
use stillpoint::rcu::RcuOption;
use support::prelude::*;

#[test]
fn pointer_outlives_its_thread() {
    own!(hazard Own, DROPS);
    static VALUE: RcuOption<Tracked, Own> = RcuOption::empty_in(Own);
    VALUE.replace(Some(Tracked(&DROPS)));
    let pointers = thread::spawn(|| {
        let mut pointers = HazardPointer::array::<20>();
        pointers.iter_mut().for_each(|pointer| _ = pointer.protect(&VALUE));
        pointers
    });
    let pointers = pointers.join().unwrap();
    VALUE.take();
    // Threads that take over the record use other slots.
    for _ in 0..5 {
        thread::spawn(|| assert!(HazardPointer::new().protect(&VALUE).is_none())).join().unwrap();
        Own.barrier();
        assert_eq!(DROPS.load(Acquire), 0);
    }
    thread::spawn(move || drop(pointers)).join().unwrap();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn thread_may_hold_any_number_of_pointers() {
    own!(hazard Own, DROPS);
    let counts = if cfg!(miri) { [10, 100, 600] } else { [10, 1000, 100_000] };
    for count in counts {
        let before = DROPS.load(Acquire);
        let values: Vec<_> = (0..count).map(|_| Rcu::new_in(Tracked(&DROPS), Own)).collect();
        let mut pointers: Vec<_> = (0..count).map(|_| HazardPointer::new()).collect();
        for (pointer, value) in pointers.iter_mut().zip(&values) {
            pointer.protect(value);
            drop(value.replace(Tracked(&DROPS)));
        }
        Own.barrier();
        assert_eq!(DROPS.load(Acquire), before);
        drop(pointers);
        Own.barrier();
        assert_eq!(DROPS.load(Acquire), before + count);
        drop(values);
        Own.barrier();
    }
}

/// Takes pointers in threads that run at the same time, hand them over, and end.
fn left_by_threads(threads: usize, each: usize) -> Vec<HazardPointer> {
    let barrier = &Barrier::new(threads);
    let make = move || {
        let pointers: Vec<_> = (0..each).map(|_| HazardPointer::new()).collect();
        barrier.wait();
        pointers
    };
    thread::scope(|s| {
        let threads: Vec<_> = (0..threads).map(|_| s.spawn(make)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn pointers_left_by_threads_do_not_hinder_others() {
    own!(hazard Own, DROPS);
    static VALUE: RcuOption<Tracked, Own> = RcuOption::empty_in(Own);
    VALUE.replace(Some(Tracked(&DROPS)));
    let shapes = if cfg!(miri) { [(2, 20), (20, 1)] } else { [(2, 504), (100, 9)] };
    for (threads, each) in shapes {
        let mut left = left_by_threads(threads, each);
        thread::spawn(|| assert!(HazardPointer::new().protect(&VALUE).is_some())).join().unwrap();
        left.iter_mut().for_each(|pointer| assert!(pointer.protect(&VALUE).is_some()));
    }
    VALUE.take();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}

/// The thread has given its slots back when the last destructors run.
#[test]
#[cfg(not(stillpoint_portable))]
fn late_destructor_may_use_hazard_pointers() {
    use std::ffi::c_void;
    own!(hazard Own);
    static VALUE: RcuOption<Tracked, Own> = RcuOption::empty_in(Own);
    static DROPS: [AtomicUsize; 31] = [const { AtomicUsize::new(0) }; 31];
    static LATE: AtomicUsize = AtomicUsize::new(0);
    static mut KEY: libc::pthread_key_t = 0;
    unsafe extern "C" fn late(round: *mut c_void) {
        let mut pointers = HazardPointer::array::<9>();
        let [value, ..] =
            pointers.each_mut().map(|pointer| pointer.protect(&VALUE).expect("there is a value"));
        let next = LATE.fetch_add(1, Relaxed) + 1;
        drop(VALUE.replace(Some(Tracked(&DROPS[next]))));
        assert_eq!(value.0.load(Acquire), 0);
        // SAFETY: the key exists.
        unsafe {
            if round.addr() < 3 {
                libc::pthread_setspecific(KEY, round.wrapping_byte_add(1));
            }
        }
    }
    VALUE.replace(Some(Tracked(&DROPS[0])));
    // SAFETY: the variable is used by this test only.
    unsafe { assert_eq!(libc::pthread_key_create(&raw mut KEY, Some(late)), 0) };
    for _ in 0..10 {
        let thread = thread::spawn(|| {
            drop(HazardPointer::new());
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(KEY, std::ptr::without_provenance_mut(1)) };
        });
        thread.join().unwrap();
    }
    assert_eq!(LATE.load(Relaxed), 30);
    Own.barrier();
    assert!(DROPS[..30].iter().all(|drops| drops.load(Acquire) == 1));
}

#[test]
fn pointer_in_a_thread_local_variable_is_dropped_with_it() {
    own!(hazard Own, DROPS);
    static VALUE: RcuOption<Tracked, Own> = RcuOption::empty_in(Own);
    thread_local!(static POINTER: RefCell<HazardPointer> = RefCell::new(HazardPointer::new()));
    VALUE.replace(Some(Tracked(&DROPS)));
    thread::spawn(|| POINTER.with_borrow_mut(|pointer| _ = pointer.protect(&VALUE))).join().unwrap();
    VALUE.take();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}
