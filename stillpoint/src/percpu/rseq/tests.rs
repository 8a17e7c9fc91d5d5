//! The results of sections, on each architecture that has them. The rseq area is not the thread's own, so the kernel
//! restarts nothing, and this runs under emulators too.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::{array, ptr};

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
    let mut area = [0; 4];
    let offset = set_cpu(&mut area, cpu as i32);
    // Eight words of an object, of which only those of the last CPU are there.
    let words: [AtomicU64; 8] = array::from_fn(|_| AtomicU64::new(0));
    let first = words.as_ptr().cast_mut().cast::<u64>().wrapping_byte_sub(cpu * STRIDE);
    let place = Place::new();
    place.publish(offset, cpu, first);
    let found = || [0, 1].map(|word| words[word].load(Relaxed));
    // SAFETY: the offset belongs to `area`, and the words are there.
    let push = |value| unsafe { push(&place, 6, value) };
    // SAFETY: likewise.
    let pop_from = |place: &Place| unsafe { pop(place) };
    let pop = || pop_from(&place);
    // SAFETY: as above.
    unsafe {
        let nowhere = Place::new();
        assert!(!add(&nowhere, 5) && pop_from(&nowhere) == FAILED, "there is no object");
        // This CPU is beyond the limit.
        assert!(!add(&place, 5) && !add_at(&place, 1, 5) && !add_open(&place, &0, 5));
        place.raise_limit(cpu + 1);
        assert!(add(&place, 5) && add(&place, 6));
        assert!(add_at(&place, 1, 7) && add_at(&place, 0, 1));
        assert_eq!(found(), [12, 7]);

        // Bit 0 of the gate decides.
        for (gate, is_open) in [(0, true), (1, false), (6, true), (7, false), (!0, false)] {
            assert_eq!(add_open(&place, &gate, 2), is_open);
            assert_eq!(found(), [if is_open { 14 } else { 12 }, 7]);
            words[0].store(12, Relaxed);
        }
        // A section looks for the word behind the gate.
        place.word.store(ptr::without_provenance_mut(1), Relaxed);
        assert!(!add_open(&place, &1, 2));
        place.word.store(first, Relaxed);

        // A stack of six slots.
        let [stop, len, ..] = &words;
        words.iter().for_each(|word| word.store(0, Relaxed));
        place.publish(offset, cpu, first);
        assert_eq!((push(10), pop()), (Pushed::Failed, FAILED));
        place.raise_limit(cpu + 1);
        assert_eq!(pop(), NOTHING);
        (10..16).for_each(|value| assert_eq!(push(value), Pushed::Done));
        assert_eq!(push(17), Pushed::Full);
        (10..16).rev().for_each(|value| assert_eq!(pop(), value));
        assert_eq!(len.load(Relaxed), 0);

        stop.store(1, Relaxed);
        for cpu in [cpu as i32, -1, -2] {
            set_cpu(&mut area, cpu);
            assert_eq!((push(1), pop()), (Pushed::Failed, FAILED));
            assert_eq!(add_at(&place, 7, 1), cpu >= 0, "sections that add do not stop");
            assert!(cpu >= 0 || !add(&place, 1) && !add_open(&place, &0, 1));
            stop.store(0, Relaxed);
        }
    }
    // The last slot has what was popped from it, and 1.
    assert_eq!((found(), words[7].load(Relaxed)), ([0, 0], 15 + 1));
}
