//! A handle stays in its thread.
use std::thread;

use stillpoint::qsbr;

fn main() {
    let handle = qsbr::register();
    thread::spawn(move || drop(handle));
}
