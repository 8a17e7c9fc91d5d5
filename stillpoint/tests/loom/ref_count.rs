//! Models of counts that are per CPU until they are killed: one thread finds zero, after all that was done with
//! references.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stillpoint::percpu::count::{Count, Killed};
use support::model::*;

/// Stands for a value. Its memory belongs to the `Arc`, so that an early free is a bad access, and no crash.
struct Value {
    count: Count,
    /// Written with references, read after zero.
    used: [UnsafeCell<bool>; 2],
    /// Read with each reference, written after zero.
    freed: UnsafeCell<bool>,
}

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
        if self.count.put().is_some_and(|zero| !zero.is_kept) {
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
        if let Killed::Zero(_) = self.count.kill(false) {
            self.free();
        }
    }
}

/// Refutes: sections-not-interrupted, Count::put_shared:Acquire, Count::put_shared:Release, Count::kill:Acquire,
/// Count::kill:Release
#[test]
fn last_put_follows_all_uses() {
    check(0, 2, || {
        // Got on CPU 0.
        let value = Value::new(2);
        race_all(&value, Value::kill, 2, |value, index| {
            run_on(index);
            value.put(index);
        });
        assert!(Value::get(&value.freed), "never freed");
    });
}

#[test]
fn reference_of_a_killed_count_may_be_cloned() {
    check(0, 3, || {
        let value = Value::new(1);
        race(&value, Value::kill, |value| {
            run_on(1);
            value.count.get();
            value.put(0);
            value.put(0);
        });
        assert!(Value::get(&value.freed), "never freed");
    });
}

#[test]
fn attempts_to_get_fail_after_zero() {
    check(0, 2, || {
        let value = Value::new(0);
        let kill = |value: &Value| {
            value.kill();
            assert!(!value.count.try_get(), "it has been killed");
        };
        race_all(&value, kill, 2, move |value, index| {
            run_on(index);
            if value.count.try_get() {
                value.put(index);
            }
        });
        assert!(Value::get(&value.freed), "never freed");
    });
}

#[test]
fn one_of_two_kills_finds_zero() {
    check(0, 3, || {
        let value = Value::new(0);
        race(&value, Value::kill, Value::kill);
        assert!(Value::get(&value.freed), "never freed");
    });
}

/// Refutes: Count::is_zero:Acquire
#[test]
fn thread_that_sees_zero_sees_all_uses() {
    check(0, 3, || {
        let value = Value::new(1);
        let look = |value: &Value| {
            let _ = value.count.kill(false);
            if value.count.is_zero() {
                assert!(Value::get(&value.used[0]));
            }
        };
        race(&value, look, |value| {
            run_on(1);
            Value::set(&value.used[0]);
            let _found = value.count.put();
        });
    });
}

/// Refutes: get-counted-before-check
#[test]
fn one_thread_finds_zero_whatever_others_do_without_a_reference() {
    check(0, 3, || {
        let value = Value::new(1);
        assert_eq!(value.count.kill(false), Killed::Pending);
        // They panic if the count is zero.
        let without_a_reference: [fn(&Count) -> bool; 2] = [
            |count| count.put().is_some(),
            |count| {
                count.get();
                false
            },
        ];
        let finds_zero = |f: fn(&Count) -> bool, value: &Value| {
            catch_unwind(AssertUnwindSafe(|| f(&value.count))).is_ok_and(|is_zero| is_zero)
        };
        let put = |value: &Value| finds_zero(without_a_reference[0], value);
        let (last, others) =
            race_all(&value, put, 2, move |value, index| finds_zero(without_a_reference[index], value));
        assert_eq!(others.into_iter().chain([last]).filter(|found| *found).count(), 1);
    });
}

/// Refutes: Count::abandon:Acquire
#[test]
fn value_that_is_kept_and_abandoned_belongs_to_one_thread() {
    check(0, 3, || {
        let value = Value::new(1);
        let abandon = |value: &Value| {
            let _killed = value.count.kill(true);
            if value.count.abandon() {
                value.free();
            }
        };
        race(&value, abandon, |value| {
            run_on(1);
            value.put(0);
        });
        assert!(Value::get(&value.freed), "never freed");
    });
}

/// Refutes: Count::set_awaited:Acquire
#[test]
fn waiter_sees_zero_or_is_woken() {
    check(0, 3, || {
        let value = Value::new(1);
        let wait = |value: &Value| {
            let _killed = value.count.kill(true);
            let is_zero = value.count.set_awaited();
            if is_zero {
                value.free();
            }
            is_zero
        };
        let put = |value: &Value| {
            run_on(1);
            Value::set(&value.used[0]);
            value.count.put().is_some_and(|zero| zero.is_awaited)
        };
        let (is_zero, is_woken) = race(&value, wait, put);
        assert!(is_zero || is_woken, "it waits for ever");
    });
}
