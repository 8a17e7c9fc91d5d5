//! Generic code cannot protect by a slot that is no hazard pointer's.
#![forbid(unsafe_code)]

use stillpoint::hazard::Source;

fn protect_by_a_new_slot<'h, S: Source<'h>>(source: S) -> S::Output {
    source.protect(&Default::default()) //~ E0277 the trait bound `stillpoint::slots::slot::Slot: Default` is not satisfied
}

fn protect<'h, S: Source<'h>>(source: S) -> S::Output {
    source.protect(todo!()) //~ E0133 call to unsafe
}

fn main() {
    let source = stillpoint::rcu::Rcu::new_in(1, stillpoint::hazard::Global);
    println!("{} {}", protect(&source), protect_by_a_new_slot(&source));
}
