//! Threads share the nodes of an `Atomic`, and the library drops retired nodes in another thread, at any time.
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;

use stillpoint::Domain;
use stillpoint::rcu::{self, Atomic, DeferOptions, Owned, Shared};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}

fn retire<T: 'static>(node: Shared<'_, T>) {
    unsafe { rcu::Global.retire_shared(node, DeferOptions::new()) };
}

fn main() {
    is_sync::<Atomic<Cell<u32>>>();
    is_send::<Atomic<Cell<u32>>>();
    is_sync::<Atomic<[Rc<u32>]>>();
    is_send::<Shared<'static, u32>>();
    is_send::<Owned<Rc<u32>>>();
    is_sync::<Owned<Cell<u32>>>();
    is_sync::<Atomic<Mutex<u32>>>();
    retire(Shared::<u32>::null());
}
