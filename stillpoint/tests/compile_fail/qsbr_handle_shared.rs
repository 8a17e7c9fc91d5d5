//! A handle lends references to its thread only.
use std::thread;

use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let handle = qsbr::register();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*number.load(&handle), 1));
        //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be shared between threads safely
    });
}
