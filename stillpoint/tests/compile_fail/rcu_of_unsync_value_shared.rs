//! A value that is not `Sync` is not shared by way of its pointer.
use std::cell::Cell;

use stillpoint::rcu::Rcu;

fn main() {
    let number = Rcu::new(Cell::new(1));
    std::thread::scope(|scope| {
        scope.spawn(|| number.read().set(2)); //~ E0277 `Cell<i32>` cannot be shared between threads safely
    });
}
