//! The hidden rules of the macro that defines domains make no guard of a type whose sections protect nothing.
#![forbid(unsafe_code)]

stillpoint::qsbr::domain! { //~ E0592 duplicate definitions with name `register`
    struct Threads;
}
stillpoint::static_domain!(@own rcu Threads);
//~ E0277 the trait bound `stillpoint::rcu::Guard<Threads>: Borrow<Handle<Threads>>` is not satisfied
//~ E0271 type mismatch resolving `<Threads as StaticDomain>::Section == Guard<Threads>`

#[derive(Debug, Clone, Copy)]
struct Unprotected;
stillpoint::static_domain!(@own rcu Unprotected);
//~ E0277 `Unprotected` is not a domain
//~ E0277 the trait bound `Unprotected: stillpoint::Domain` is not satisfied
//~ E0599 the function or associated item `register` exists for struct `stillpoint::rcu::Guard<Unprotected>`
//~ E0599 the function or associated item `hint_idle` exists for struct `stillpoint::rcu::Guard<Unprotected>`
//~ E0599 the function or associated item `in_read_section` exists for struct `stillpoint::rcu::Guard<Unprotected>`

fn main() {}
