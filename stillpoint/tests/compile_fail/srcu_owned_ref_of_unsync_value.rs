//! A value that is not `Sync` is not read in two threads.
use std::cell::Cell;
use std::sync::Arc;

use stillpoint::rcu::Rcu;
use stillpoint::srcu::Domain;

fn main() {
    let number = Arc::new(Rcu::new_in(Cell::new(1), Domain::new()));
    let value = number.read_owned();
    std::thread::spawn(move || value.set(2)); //~ E0277 `Cell<i32>` cannot be shared between threads safely
}
