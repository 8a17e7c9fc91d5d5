//! Entries that come and go, most of them of types that only own memory: the threads that remove them free them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::hashers::Masked;
use stillpoint::rcu::DeferOptions;
use stillpoint::{Domain as _, qsbr, rcu, srcu};
use stillpoint_collections::HashMap;
use support::deadline::deadline;

/// More than a thread retires between two grace periods, several times.
const ROUNDS: u64 = if cfg!(miri) { 200 } else { 2000 };

#[test]
fn removed_entry_stays_as_it_was_while_its_reader_is_inside() {
    let map = HashMap::with_hasher(Masked(3 << 56));
    let outside = Barrier::new(2);
    thread::scope(|scope| {
        let guard = rcu::enter();
        map.insert(0, "the first".to_owned(), &guard);
        let first = map.get(&0, &guard);
        scope.spawn(|| {
            map.remove(&0, &rcu::enter());
            for key in 1..ROUNDS {
                map.insert(key, "another".to_owned(), &rcu::enter());
                map.remove(&key, &rcu::enter());
            }
            outside.wait();
        });
        outside.wait();
        assert_eq!(first.map(String::as_str), Some("the first"));
    });
}

/// Readers keep the keys of entries that others replace, whose `String`s those pass on, and then remove.
#[test]
fn string_that_was_passed_on_stays_while_readers_of_any_of_its_entries_are_inside() {
    let _running = deadline();
    let (map, writing) = (HashMap::<String, u64>::new(), AtomicUsize::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let guard = rcu::enter();
                    map.update_or_insert("the key", |count| count + 1, 1, &guard);
                    match round % 16 {
                        0 => _ = map.remove("the key", &guard),
                        8 => _ = map.insert("the key".to_owned(), 7, &guard),
                        _ => {}
                    }
                }
                writing.fetch_sub(1, Relaxed);
            });
        }
        while writing.load(Relaxed) > 0 {
            let guard = rcu::enter();
            let keys: Vec<_> = (0..8).filter_map(|_| Some(map.get_key_value("the key", &guard)?.0)).collect();
            thread::yield_now();
            assert!(keys.into_iter().all(|key| key == "the key"));
        }
    });
}

#[test]
fn entries_come_and_go_in_domains_of_all_kinds() {
    fn churn<'g, D: stillpoint::Domain>(map: &'g HashMap<u64, String, Masked, D>, section: &'g D::Section) {
        for key in 0..ROUNDS {
            assert_eq!(map.insert(key, key.to_string(), section), None);
            assert_eq!(map.insert(key, key.to_string(), section), Some(&key.to_string()));
            if let Some(old) = key.checked_sub(40) {
                assert_eq!(map.remove(&old, section), Some(&old.to_string()));
            }
        }
        map.shrink_to_fit(section);
        assert_eq!(map.len(), 40);
    }
    let _running = deadline();
    for _ in 0..3 {
        churn(&HashMap::with_hasher_in(Masked(u64::MAX), rcu::Global), &rcu::enter());
        churn(&HashMap::with_hasher_in(Masked(u64::MAX), qsbr::Global), &qsbr::register());
        let domain = srcu::Domain::new();
        churn(&HashMap::with_hasher_in(Masked(u64::MAX), domain.clone()), &domain.enter());
        domain.barrier();
    }
}

#[test]
fn map_is_dropped_before_its_removed_entries() {
    let map = HashMap::with_hasher(Masked(3 << 56));
    let guard = rcu::enter();
    for key in 0..ROUNDS {
        map.insert(key, vec![key], &guard);
        map.remove(&key, &guard);
    }
    drop(map);
    drop(guard);
    rcu::barrier();
}

#[test]
fn destructors_run_in_the_retiring_thread_if_the_options_allow_it() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static OWN: AtomicU64 = AtomicU64::new(0);
    static OTHER: AtomicU64 = AtomicU64::new(0);
    stillpoint::domain! { struct Own; }

    struct Dropped(thread::ThreadId);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let count = if thread::current().id() == self.0 { &OWN } else { &OTHER };
            count.fetch_add(1, Relaxed);
        }
    }

    let _running = deadline();
    let options = DeferOptions::new().run_on_retiring_thread();
    let map = HashMap::new_in(Own).with_defer_options(options);
    let mut key = 0_u64;
    while OWN.load(Relaxed) == 0 {
        key += 1;
        map.insert(key, Dropped(thread::current().id()), &Own::enter());
        map.remove(&key, &Own::enter());
    }
    Own.barrier();
    assert_eq!(OWN.load(Relaxed) + OTHER.load(Relaxed), key);
}
