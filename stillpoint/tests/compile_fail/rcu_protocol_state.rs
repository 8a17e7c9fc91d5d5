//! A bound that implies the protocol of domains does not expose it: a program could end a section under its guard.
#![forbid(unsafe_code)]

use stillpoint::Domain;
use stillpoint::rcu::{Global, Rcu};

fn end_section<D: Domain>(domain: &D) {
    let _ = domain.current_reader().unwrap().leave(); //~ E0624 method `current_reader` is private
}

fn end_grace_periods<D: Domain>(domain: &D) {
    let _ = domain.core(); //~ E0624 method `core` is private
}

fn main() {
    let value = Rcu::new(String::from("read"));
    let guard = stillpoint::rcu::enter();
    let seen = value.load(&guard);
    end_section(&Global);
    end_grace_periods(&Global);
    drop(value.replace(String::new()).wait());
    assert_eq!(seen, "read");
}
