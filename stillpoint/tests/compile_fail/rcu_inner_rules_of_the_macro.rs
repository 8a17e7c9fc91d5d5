//! The hidden rules of the macro that defines domains make no guard of a type whose sections protect nothing.
#![forbid(unsafe_code)]

stillpoint::qsbr::domain! { //~ E0592 duplicate definitions with name `register`
    struct Threads;
}
stillpoint::static_domain!(@own rcu Threads);
//~ E0119 conflicting implementations of trait `TakeBack` for type `Threads`
//~ E0271 type mismatch resolving `<Threads as StaticDomain>::Section == Guard<Threads>`

#[derive(Debug, Clone, Copy)]
struct Unprotected;
stillpoint::static_domain!(@own rcu Unprotected); //~ E0277 `Unprotected` is not a domain

fn main() {}
