//! What is deferred just before the program ends: it is done if `main` ends with a barrier.

use std::io::Write as _;
use std::process::exit;

use stillpoint::Domain;
use support::prelude::*;

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
            domain.call(|| drop(Line("called\n")));
        }
    };
    thread::scope(|scope| _ = scope.spawn(defer));
    defer();
    domain.barrier();
    exit(0);
}

#[test]
fn barrier_at_the_end_of_main_drops_all() {
    stillpoint::domain! { struct Own; }
    const DOMAINS: [&str; 4] = ["rcu", "qsbr", "srcu", "a type"];
    if let Some(domain) = child::variant() {
        let _running = deadline();
        return match &*domain {
            "rcu" => defer_and_end(&rcu::Global),
            "qsbr" => defer_and_end(&qsbr::Global),
            "srcu" => defer_and_end(&srcu::Domain::new()),
            _ => defer_and_end(&Own),
        };
    }
    for domain in DOMAINS {
        let err = child::ended(barrier_at_the_end_of_main_drops_all, domain, &[]);
        assert!(err.status.success(), "{domain}: {err:?}");
        let err = String::from_utf8_lossy(&err.stderr);
        for line in ["old", "retired", "local", "called"] {
            // The last value of each `Rcu` is dropped with it.
            let all = 2 * (EACH + usize::from(line == "old"));
            assert_eq!(err.lines().filter(|found| *found == line).count(), all, "{domain}: {line}");
        }
    }
}
