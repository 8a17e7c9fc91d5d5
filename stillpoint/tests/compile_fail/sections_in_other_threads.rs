//! Sections of `rcu` and handles of `qsbr` stay in their thread, and lend references to that only.
use std::cell::Cell;
use std::thread;

use stillpoint::qsbr;
use stillpoint::rcu::Rcu;

fn main() {}

fn handle() {
    let handle = qsbr::register();
    thread::spawn(move || drop(handle));
    //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be sent between threads safely
}

fn handle_shared() {
    let number = Rcu::new_in(1, qsbr::Global);
    let handle = qsbr::register();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*number.load(&handle), 1));
        //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be shared between threads safely
    });
}

fn read_reference() {
    let number = Rcu::new(1);
    let value = number.read();
    thread::scope(|scope| _ = scope.spawn(move || drop(value)));
    //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be sent between threads safely
}

/// A value that is not `Sync` is not shared by way of its pointer.
fn value() {
    let number = Rcu::new(Cell::new(1));
    thread::scope(|scope| {
        scope.spawn(|| number.read().set(2)); //~ E0277 `Cell<i32>` cannot be shared between threads safely
    });
}
