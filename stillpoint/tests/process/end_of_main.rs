//! What is deferred just before the program ends: it is done if `main` ends with a barrier.

use std::io::Write as _;
use std::process::exit;
use std::thread;

use support::child;
use support::deadline::deadline;
use stillpoint::rcu::{self, DeferOptions, Rcu};
use stillpoint::{Domain, qsbr, srcu};

/// Values that each of two threads retires in a domain, in each way.
const EACH: usize = 100;

/// Writes a line when it is dropped.
struct Line(&'static str);

impl Drop for Line {
    fn drop(&mut self) {
        // At once: the end of the process does not wait for other threads.
        std::io::stderr().write_all(self.0.as_bytes()).expect("a line");
    }
}

/// Defers in two threads, one of which is this one, and ends the program as the end of `main` does.
fn defer_and_end<D: Domain>(domain: &D) {
    let defer = || {
        let value = Rcu::new_in(Line("old\n"), domain.clone());
        for _ in 0..EACH {
            drop(value.replace(Line("old\n")));
            domain.retire(Box::new(Line("retired\n")));
            domain.retire_with(Box::new(Line("local\n")), DeferOptions::new().run_on_retiring_thread());
            domain.call_with(|| drop(Line("lazy\n")), DeferOptions::new().lazy());
        }
    };
    thread::scope(|scope| _ = scope.spawn(defer));
    defer();
    domain.barrier();
    exit(0);
}

/// Runs `program`, of the test `name`, in a process of its own, and counts its lines.
fn all_is_dropped<T: Fn()>(name: T, program: impl FnOnce()) {
    if child::variant().is_some() {
        let _running = deadline();
        return program();
    }
    let err = child::ended(name, "main", &[]);
    assert!(err.status.success(), "{err:?}");
    let err = String::from_utf8_lossy(&err.stderr);
    for line in ["old", "retired", "local", "lazy"] {
        // The last value of each `Rcu` is dropped with it.
        let all = 2 * (EACH + usize::from(line == "old"));
        assert_eq!(err.lines().filter(|found| *found == line).count(), all, "{line}");
    }
}

#[test]
fn barrier_at_the_end_of_main_drops_all_of_rcu() {
    all_is_dropped(barrier_at_the_end_of_main_drops_all_of_rcu, || defer_and_end(&rcu::Global));
}

#[test]
fn barrier_at_the_end_of_main_drops_all_of_qsbr() {
    all_is_dropped(barrier_at_the_end_of_main_drops_all_of_qsbr, || defer_and_end(&qsbr::Global));
}

#[test]
fn barrier_at_the_end_of_main_drops_all_of_srcu() {
    all_is_dropped(barrier_at_the_end_of_main_drops_all_of_srcu, || defer_and_end(&srcu::Domain::new()));
}

#[test]
fn barrier_at_the_end_of_main_drops_all_of_a_domain_that_is_a_type() {
    stillpoint::domain! { struct Own; }
    let name = barrier_at_the_end_of_main_drops_all_of_a_domain_that_is_a_type;
    all_is_dropped(name, || defer_and_end(&Own));
}
