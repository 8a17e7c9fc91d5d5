//! A handle stays in its thread.
use std::thread;

use stillpoint::qsbr;

fn main() {
    let handle = qsbr::register();
    thread::spawn(move || drop(handle));
    //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be sent between threads safely
}
