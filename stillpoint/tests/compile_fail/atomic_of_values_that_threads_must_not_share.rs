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
    //~ E0277 `T` cannot be sent between threads safely
}

fn main() {
    is_sync::<Atomic<Cell<u32>>>(); //~ E0277 `Cell<u32>` cannot be shared between threads safely
    is_send::<Atomic<Cell<u32>>>(); //~ E0277 `Cell<u32>` cannot be shared between threads safely
    is_sync::<Atomic<Rc<u32>>>();
    //~ E0277 `Rc<u32>` cannot be sent between threads safely
    //~ E0277 `Rc<u32>` cannot be shared between threads safely
    is_send::<Shared<'static, u32>>();
    //~ E0277 `*mut ()` cannot be sent between threads safely
    //~ E0277 `*const u32` cannot be sent between threads safely
    is_send::<Owned<Rc<u32>>>(); //~ E0277 `Rc<u32>` cannot be sent between threads safely
    is_sync::<Owned<Cell<u32>>>(); //~ E0277 `Cell<u32>` cannot be shared between threads safely
    is_sync::<Atomic<Mutex<u32>>>();
    retire(Shared::<u32>::null());
}
