//! A node that was loaded in a section of one domain is not kept by a section of another.
use stillpoint::rcu::{self, Atomic, Owned, Shared};
use stillpoint::{qsbr, srcu};

stillpoint::domain! { struct Here; }
qsbr::domain! { struct Qsbr; }

fn main() {
    let guard = rcu::enter();
    let thread = qsbr::register();

    let here = Atomic::<u64, Here>::null();
    here.load(&guard); //~ E0308 mismatched types: expected `&Guard<Here>`, found `&Guard`
    let _ = here.compare_exchange(Shared::null(), Owned::new(1), &guard);
    //~ E0308 mismatched types: expected `&Guard<Here>`, found `&Guard`

    let qsbr = Atomic::<u64, Qsbr>::null();
    qsbr.load(&thread); //~ E0308 mismatched types: expected `&Handle<Qsbr>`, found `&Handle`
    qsbr.swap(Shared::null(), &guard); //~ E0308 mismatched types: expected `&Handle<Qsbr>`, found `&Guard`

    let srcu = Atomic::<u64, srcu::Domain>::null();
    srcu.fetch_or(1, &guard); //~ E0308 mismatched types: expected `&Section`, found `&Guard`
}
