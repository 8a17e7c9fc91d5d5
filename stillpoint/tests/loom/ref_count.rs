//! Models of counts that are per CPU until they are killed: one thread finds zero, after all that was done with references.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::percpu::count::{Count, Killed};
use stillpoint::sync::model::run_on;
use support::model::check;

/// Stands for a value. Its memory belongs to the `Arc`, so that an early free is a bad access, and no crash.
struct Value {
    count: Count,
    /// Written with references, read after zero.
    used: [UnsafeCell<bool>; 2],
    /// Read with each reference, written after zero.
    freed: UnsafeCell<bool>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    /// Returns a value with `references` besides the initial one.
    fn new(references: usize) -> Arc<Self> {
        let cell = || UnsafeCell::new(false);
        let value = Self { count: Count::new(), used: [cell(), cell()], freed: cell() };
        (0..references).for_each(|_| value.count.get());
        Arc::new(value)
    }

    fn get(cell: &UnsafeCell<bool>) -> bool {
        cell.with(|cell| unsafe { *cell })
    }

    fn set(cell: &UnsafeCell<bool>) {
        cell.with_mut(|cell| unsafe { *cell = true });
    }

    /// Uses and puts a reference.
    fn put(&self, index: usize) {
        assert!(!Self::get(&self.freed), "used when freed");
        Self::set(&self.used[index]);
        if self.count.put() {
            self.free();
        }
    }

    /// To be called after zero was found.
    fn free(&self) {
        assert!(!Self::get(&self.freed), "two threads find zero");
        self.used.iter().for_each(|used| _ = Self::get(used));
        Self::set(&self.freed);
    }

    fn kill(&self) {
        if self.count.kill() == Killed::Zero {
            self.free();
        }
    }
}

/// Refutes: sections-not-interrupted, Count::put_shared:Acquire, Count::put_shared:Release, Count::kill:Acquire, Count::kill:Release
#[test]
fn last_put_follows_all_uses() {
    check(0, 2, || {
        // Got on CPU 0.
        let value = Value::new(2);
        let threads = [0, 1].map(|index| {
            let value = value.clone();
            thread::spawn(move || {
                run_on(index);
                value.put(index);
            })
        });
        value.kill();
        for t in threads {
            t.join().unwrap();
        }
        assert!(Value::get(&value.freed), "never freed");
    });
}

#[test]
fn reference_of_a_killed_count_may_be_cloned() {
    check(0, 3, || {
        let value = Value::new(1);
        let other = value.clone();
        let t = thread::spawn(move || {
            run_on(1);
            other.count.get();
            other.put(0);
            other.put(0);
        });
        value.kill();
        t.join().unwrap();
        assert!(Value::get(&value.freed), "never freed");
    });
}

#[test]
fn attempts_to_get_fail_after_zero() {
    check(0, 2, || {
        let value = Value::new(0);
        let attempts: [fn(&Count) -> bool; 2] = [Count::try_get, Count::get_unless_zero];
        let mut threads = Vec::new();
        for (index, attempt) in attempts.into_iter().enumerate() {
            let value = value.clone();
            threads.push(thread::spawn(move || {
                run_on(index);
                if attempt(&value.count) {
                    value.put(index);
                }
            }));
        }
        value.kill();
        assert!(!value.count.try_get(), "it has been killed");
        for t in threads {
            t.join().unwrap();
        }
        assert!(Value::get(&value.freed), "never freed");
        assert!(!value.count.get_unless_zero());
    });
}

#[test]
fn one_of_two_kills_finds_zero() {
    check(0, 3, || {
        let value = Value::new(0);
        let other = value.clone();
        let t = thread::spawn(move || other.kill());
        value.kill();
        t.join().unwrap();
        assert!(Value::get(&value.freed), "never freed");
    });
}

/// Refutes: Count::is_zero:Acquire
#[test]
fn thread_that_sees_zero_sees_all_uses() {
    check(0, 3, || {
        let value = Value::new(1);
        let other = value.clone();
        let t = thread::spawn(move || {
            run_on(1);
            Value::set(&other.used[0]);
            let _ = other.count.put();
        });
        let _ = value.count.kill();
        if value.count.is_zero() {
            assert!(Value::get(&value.used[0]));
        }
        t.join().unwrap();
    });
}

/// Refutes: get-counted-before-check
#[test]
fn one_thread_finds_zero_whatever_others_do_without_a_reference() {
    check(0, 3, || {
        let value = Value::new(1);
        assert_eq!(value.count.kill(), Killed::Pending);
        // They panic if the count is zero.
        let without_a_reference: [fn(&Count) -> bool; 2] = [Count::put, |count| {
            count.get();
            false
        }];
        let [first, second] = without_a_reference.map(|f| {
            let value = value.clone();
            thread::spawn(move || catch_unwind(AssertUnwindSafe(|| f(&value.count))))
        });
        let last = catch_unwind(AssertUnwindSafe(|| value.count.put()));
        let found = [first.join().unwrap(), second.join().unwrap(), last];
        assert_eq!(found.iter().filter(|found| matches!(found, Ok(true))).count(), 1);
    });
}
