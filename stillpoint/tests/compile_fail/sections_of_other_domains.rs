//! Grace periods of one domain do not wait for the sections of another, which cannot load its pointers.
use stillpoint::rcu::{self, Atomic, Owned, Rcu, Shared};
use stillpoint::{qsbr, srcu};

stillpoint::domain! { struct Here; }
qsbr::domain! { struct Qsbr; }

fn main() {}

fn load_values() {
    let (guard, handle) = (rcu::enter(), Qsbr::register());
    Rcu::new_in(1, Here).load(&guard); //~ E0308 mismatched types: expected `&Guard<Here>`, found `&Guard`
    Rcu::new_in(1, qsbr::Global).load(&guard); //~ E0308 mismatched types: expected `&Handle`, found `&Guard`
    Rcu::new_in(1, qsbr::Global).load(&handle);
    //~ E0308 mismatched types: expected `&Handle`, found `&Handle<Qsbr>`
    Rcu::new_in(1, srcu::Domain::new()).load(&guard);
    //~ E0308 mismatched types: expected `&Section`, found `&Guard`
}

fn load_nodes() {
    let (guard, handle) = (rcu::enter(), qsbr::register());
    let here = Atomic::<u64, Here>::null();
    here.load(&guard); //~ E0308 mismatched types: expected `&Guard<Here>`, found `&Guard`
    let _ = here.compare_exchange(Shared::null(), Owned::new(1), &guard);
    //~ E0308 mismatched types: expected `&Guard<Here>`, found `&Guard`
    let qsbr = Atomic::<u64, Qsbr>::null();
    qsbr.load(&handle); //~ E0308 mismatched types: expected `&Handle<Qsbr>`, found `&Handle`
    qsbr.swap(Shared::null(), &guard); //~ E0308 mismatched types: expected `&Handle<Qsbr>`, found `&Guard`
    let srcu = Atomic::<u64, srcu::Domain>::null();
    srcu.fetch_or(1, &guard); //~ E0308 mismatched types: expected `&Section`, found `&Guard`
}
