//! The hidden rules of the macro that defines domains make no guard of a type whose sections protect nothing.
#![forbid(unsafe_code)]

stillpoint::qsbr::domain! {
    struct Threads;
}
stillpoint::static_domain!(@own rcu Threads);

#[derive(Debug, Clone, Copy)]
struct Unprotected;
stillpoint::static_domain!(@own rcu Unprotected);

fn main() {}
