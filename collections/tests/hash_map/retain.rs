//! `retain` beside resizes, and beside writers that replace what it looks at.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use stillpoint::rcu;
use stillpoint_collections::HashMap;
use support::deadline::deadline;

/// Keys whose values are always even, and keys whose values are odd.
const STAY: u64 = 200;
const GO: u64 = 300;

#[test]
fn retain_beside_resizes_and_replacements_removes_what_it_is_told() {
    let _running = deadline();
    for _ in 0..if cfg!(miri) { 1 } else { 5 } {
        let map: HashMap<u64, u64> = (0..STAY).map(|key| (key, 0)).collect();
        let stop = AtomicBool::new(false);
        let until_stopped = |body: &dyn Fn()| {
            while !stop.load(Relaxed) {
                body();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                until_stopped(&|| {
                    let guard = rcu::enter();
                    map.reserve(4000, &guard);
                    map.shrink_to_fit(&guard);
                });
            });
            scope.spawn(|| {
                until_stopped(&|| {
                    for key in 0..STAY / 2 {
                        assert!(
                            map.update(&key, |value| value + 2, &rcu::enter()).is_some(),
                            "{key} is lost"
                        );
                    }
                });
            });
            for _ in 0..if cfg!(miri) { 1 } else { 20 } {
                for key in STAY..STAY + GO {
                    map.insert(key, 1, &rcu::enter());
                }
                map.retain(|_, value| value % 2 == 0, &rcu::enter());
                assert!((STAY..STAY + GO).all(|key| !map.contains_key(&key, &rcu::enter())), "one is missed");
            }
            stop.store(true, Relaxed);
        });
        let guard = rcu::enter();
        assert!((0..STAY).all(|key| map.contains_key(&key, &guard)));
        assert_eq!((map.len() as u64, map.iter(&guard).count() as u64), (STAY, STAY));
        map.clear(&guard);
        assert_eq!((map.len(), map.iter(&guard).count()), (0, 0));
    }
}
