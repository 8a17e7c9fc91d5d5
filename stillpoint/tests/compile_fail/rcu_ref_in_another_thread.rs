//! A section of `rcu` belongs to its thread.
use std::sync::Arc;

use stillpoint::rcu::Rcu;

fn main() {
    let number = Arc::new(Rcu::new(1));
    let value = number.read_owned();
    std::thread::spawn(move || drop(value));
    //~ E0277 `*mut stillpoint::rcu::Global` cannot be sent between threads safely
}
