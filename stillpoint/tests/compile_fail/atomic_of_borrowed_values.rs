//! The lifetime of what a node borrows is part of the pointer, and retired nodes borrow nothing.
use stillpoint::rcu::{self, Atomic, DeferOptions, Shared};

fn shorten<'a, 'b>(long: &'b Atomic<&'static str>) -> &'b Atomic<&'a str> {
    long //~ lifetime may not live long enough
}

fn retire<'a>(node: Shared<'_, &'a str>) {
    unsafe { rcu::retire_shared(node, DeferOptions::new()) };
    //~ E0521 borrowed data escapes outside of function
}

fn extend<'a>(node: Shared<'a, u32>) -> Shared<'static, u32> {
    node //~ lifetime may not live long enough
}

fn main() {
    shorten(&Atomic::null());
    retire(Shared::null());
    extend(Shared::null());
}
