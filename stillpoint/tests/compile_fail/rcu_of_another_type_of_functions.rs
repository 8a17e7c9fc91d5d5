//! A pointer to functions for all lifetimes would accept one for `'static` only.

use stillpoint::rcu::{Rcu, RcuOption};

type ForAll = for<'a> fn(&'a String);
type ForStatic = fn(&'static String);

fn main() {
    let value: Rcu<ForAll> = Rcu::new(|_| ());
    let _: &Rcu<ForStatic> = &value; //~ E0308 mismatched types: one type is more general than the other
    let empty: RcuOption<ForAll> = RcuOption::empty();
    let _: &RcuOption<ForStatic> = &empty; //~ E0308 mismatched types: one type is more general than the other
}
