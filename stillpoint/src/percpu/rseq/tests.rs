//! The results of sections, on each architecture that has them. The rseq area is not the thread's own, so the kernel restarts
//! nothing, and this runs under emulators too.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::{array, ptr};

use super::*;
use crate::sys::rseq::{SUPPORTED, possible_cpus, thread_pointer};

/// Sets `cpu_id` of an rseq area, and returns the area's offset from the thread pointer.
fn set_cpu(area: &mut [u64; 4], cpu: i32) -> isize {
    area[0] = u64::from(cpu.cast_unsigned()) << 32;
    area.as_mut_ptr().addr().wrapping_sub(thread_pointer().addr()).cast_signed()
}

#[test]
fn sections_compute_their_results() {
    if !SUPPORTED {
        return;
    }
    let cpu = possible_cpus() - 1;
    let areas = CpuArea::for_each_cpu();
    let [stop, one, two, three, four, ..] = &areas[cpu].plain;
    let slots: [AtomicU64; 16] = array::from_fn(|_| AtomicU64::new(0));
    let mut area = [0; 4];
    let target = AreaRef::of(&areas, set_cpu(&mut area, cpu as i32));
    let counter = CounterRef { offset: target.offset, word: areas[0].plain[7].as_ptr() };
    let mut popped = [0; 4];
    // SAFETY: the offset is that of `area`, and the areas have the slots that they say.
    unsafe {
        assert!(add(counter, 5) && add(counter, 6));
        assert_eq!(areas[cpu].plain[7].load(Relaxed), 11);

        // A stack without capacity, then for six values.
        assert_eq!(push(target, 10), Pushed::Full);
        two.store(6, Relaxed);
        three.store(slots.as_ptr().expose_provenance() as u64, Relaxed);
        assert_eq!(pop(target), NOTHING);
        assert_eq!(push(target, 10), Pushed::Done);
        assert_eq!(push_batch(target, [11, 12].as_ptr(), 2), 2);
        assert_eq!(push_batch(target, [].as_ptr(), 0), 0);
        assert_eq!(push_batch(target, [13, 14, 15, 16].as_ptr(), 4), 3);
        assert_eq!(push(target, 17), Pushed::Full);
        assert_eq!(pop(target), 15);
        assert_eq!((pop_batch(target, popped.as_mut_ptr(), 2), popped), (2, [13, 14, 0, 0]));
        assert_eq!((pop_batch(target, popped.as_mut_ptr(), 4), popped), (3, [10, 11, 12, 0]));
        assert_eq!(one.load(Relaxed), 0);

        assert_eq!(compare_and_store(target, 7, 8), NOTHING);
        assert_eq!(compare_and_store(target, 0, 8), ptr::from_ref(&areas[cpu]).addr() as u64);
        assert_eq!(one.swap(0, Relaxed), 8);

        // A ring of four slots, from which two records have been read.
        two.store(4, Relaxed);
        four.store(3, Relaxed);
        one.store(3, Relaxed);
        areas[cpu].atomic[0].store(2, Relaxed);
        for first in [21, 23, 25] {
            assert_eq!(record(target, [first, first + 1].as_ptr(), 2), Pushed::Done);
        }
        assert_eq!(record(target, [27, 28].as_ptr(), 2), Pushed::Full);
        assert_eq!(one.load(Relaxed), 6);
        assert_eq!([6, 7, 0, 1, 2, 3].map(|slot: usize| slots[slot].load(Relaxed)), [21, 22, 23, 24, 25, 26]);

        stop.store(1, Relaxed);
        for cpu in [cpu as i32, -1, -2] {
            set_cpu(&mut area, cpu);
            assert_eq!(add(counter, 1), cpu >= 0, "sections of `add` do not stop");
            assert_eq!((push(target, 1), pop(target)), (Pushed::Failed, FAILED));
            assert_eq!(push_batch(target, [1].as_ptr(), 1), FAILED);
            assert_eq!(pop_batch(target, popped.as_mut_ptr(), 1), FAILED);
            assert_eq!(compare_and_store(target, 6, 1), FAILED);
            assert_eq!(record(target, [1, 2].as_ptr(), 2), Pushed::Failed);
            stop.store(0, Relaxed);
        }
    }
    assert_eq!((areas[cpu].plain[7].load(Relaxed), one.load(Relaxed)), (12, 6));
}
