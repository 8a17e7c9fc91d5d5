//! The lifetime of what a value borrows is part of the pointer's type, and retired nodes borrow nothing.
use stillpoint::Domain as _;
use stillpoint::percpu::Pool;
use stillpoint::rcu::{self, Atomic, DeferOptions, Rcu, RcuOption, Shared};

fn main() {}

fn shorten<'a, 'b>(long: &'b Atomic<&'static str>) -> &'b Atomic<&'a str> {
    long //~ lifetime may not live long enough
}

fn retire<'a>(node: Shared<'_, &'a str>) {
    unsafe { rcu::Global.retire_shared(node, DeferOptions::new()) };
    //~ E0521 borrowed data escapes outside of function
}

fn extend<'a>(node: Shared<'a, u32>) -> Shared<'static, u32> {
    node //~ lifetime may not live long enough
}

/// A pointer to functions for all lifetimes would accept one for `'static` only.
fn of_functions(value: &Rcu<for<'a> fn(&'a String)>, empty: &RcuOption<for<'a> fn(&'a String)>) {
    let _: &Rcu<fn(&'static String)> = value; //~ E0308 mismatched types: one type is more general than the other
    let _: &RcuOption<fn(&'static String)> = empty;
    //~ E0308 mismatched types: one type is more general than the other
}

/// Objects put into a pool must live as long as the objects taken out.
fn keep<'a>(pool: &Pool<&'a str>, text: &'a str) {
    drop(pool.push(Box::new(text)));
}

fn shorter(pool: &Pool<&'static str>) {
    let text = String::from("short");
    keep(pool, &text); //~ E0597 `text` does not live long enough
}
