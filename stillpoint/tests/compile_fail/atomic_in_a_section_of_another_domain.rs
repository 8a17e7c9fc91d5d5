//! A node that was loaded in a section of one domain is not kept by a section of another.
use stillpoint::rcu::{self, Atomic, Owned, Shared};
use stillpoint::{qsbr, srcu};

stillpoint::domain! { struct Here; }
qsbr::domain! { struct Qsbr; }

fn main() {
    let guard = rcu::enter();
    let thread = qsbr::register();

    let here = Atomic::<u64, Here>::null();
    here.load(&guard);
    let _ = here.compare_exchange(Shared::null(), Owned::new(1), &guard);

    let qsbr = Atomic::<u64, Qsbr>::null();
    qsbr.load(&thread);
    qsbr.swap(Shared::null(), &guard);

    let srcu = Atomic::<u64, srcu::Domain>::null();
    srcu.fetch_or(1, &guard);
}
