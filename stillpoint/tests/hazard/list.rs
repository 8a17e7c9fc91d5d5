//! The list of the example `hazard_list`, whose readers use hazard pointers alone.

use std::sync::atomic::AtomicI64;

use support::prelude::*;

#[allow(dead_code, reason = "the example's program")]
#[path = "../../examples/hazard_list.rs"]
mod hazard_list;

use hazard_list::List;

fn contains(list: &List, key: u64) -> bool {
    let mut found = false;
    list.for_each(|other| found |= other == key);
    found
}

/// A generator of random numbers (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % below
    }
}

/// Each key was inserted as often as it was removed, or once more.
#[test]
fn threads_agree_on_each_key_of_a_list() {
    const KEYS: usize = 32;
    alone!();
    let (list, counts) = (List::default(), [const { AtomicI64::new(0) }; KEYS]);
    thread::scope(|s| {
        for number in 1..4 {
            let (list, counts) = (&list, &counts);
            s.spawn(move || {
                let mut random = Random(number);
                for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
                    let key = random.next(KEYS as u64);
                    match random.next(4) {
                        0 if list.insert(key) => _ = counts[key as usize].fetch_add(1, Relaxed),
                        1 if list.remove(key) => _ = counts[key as usize].fetch_sub(1, Relaxed),
                        _ => _ = contains(list, key),
                    }
                }
            });
        }
    });
    for (key, count) in counts.iter().enumerate() {
        assert_eq!(i64::from(contains(&list, key as u64)), count.load(Relaxed), "key {key}");
    }
    drop(list);
    stillpoint::hazard::Global.barrier();
}
