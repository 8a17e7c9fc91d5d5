//! The results of sections, on each architecture that has them. The rseq area is not the thread's own, so the kernel
//! restarts nothing, and this runs under emulators too.

use core::array;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::sys::rseq::{SUPPORTED, possible_cpus, thread_pointer};

/// Sets `cpu_id` of an rseq area, and returns the area's offset from the thread pointer.
fn set_cpu(area: &mut [u64; 4], cpu: i32) -> isize {
    area[0] = u64::from(cpu as u32) << 32;
    area.as_mut_ptr().addr().wrapping_sub(thread_pointer().addr()) as isize
}

#[test]
fn sections_compute_their_results() {
    if !SUPPORTED {
        return;
    }
    let cpu = possible_cpus() - 1;
    let areas = CpuArea::for_each_cpu();
    let [stop, len, capacity, address, ..] = &areas[cpu].plain;
    let slots: [AtomicU64; 16] = array::from_fn(|_| AtomicU64::new(0));
    let mut area = [0; 4];
    let target = AreaRef::of(&areas, set_cpu(&mut area, cpu as i32));
    let counter = CounterRef { offset: target.offset, word: areas[0].plain[7].as_ptr() };
    // SAFETY: the offset belongs to `area`, and the areas have the slots that they say.
    unsafe {
        assert!(add(counter, 5) && add(counter, 6));
        assert_eq!(areas[cpu].plain[7].load(Relaxed), 11);

        // Bit 0 of the gate decides.
        for (gate, is_open) in [(0, true), (1, false), (6, true), (7, false), (!0, false)] {
            assert_eq!(add_open(counter, &gate, 2), is_open);
            assert_eq!(areas[cpu].plain[7].load(Relaxed), if is_open { 13 } else { 11 });
            areas[cpu].plain[7].store(11, Relaxed);
        }

        // A stack without capacity, then for six values.
        assert_eq!(push(target, 10), Pushed::Full);
        capacity.store(6, Relaxed);
        address.store(slots.as_ptr().expose_provenance() as u64, Relaxed);
        assert_eq!(pop(target), NOTHING);
        assert_eq!(push(target, 10), Pushed::Done);
        (11..16).for_each(|value| assert_eq!(push(target, value), Pushed::Done));
        assert_eq!(push(target, 17), Pushed::Full);
        (10..16).rev().for_each(|value| assert_eq!(pop(target), value));
        assert_eq!(len.load(Relaxed), 0);

        stop.store(1, Relaxed);
        for cpu in [cpu as i32, -1, -2] {
            set_cpu(&mut area, cpu);
            assert_eq!(add(counter, 1), cpu >= 0, "sections of `add` do not stop");
            assert!(cpu >= 0 || !add_open(counter, &0, 1));
            assert_eq!((push(target, 1), pop(target)), (Pushed::Failed, FAILED));
            stop.store(0, Relaxed);
        }
    }
    assert_eq!((areas[cpu].plain[7].load(Relaxed), len.load(Relaxed)), (12, 0));
}
