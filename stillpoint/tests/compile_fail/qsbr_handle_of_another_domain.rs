//! Grace periods of one domain do not wait for threads of another.
use stillpoint::qsbr;
use stillpoint::rcu::Rcu;

qsbr::domain! { struct Here; }

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let handle = Here::register();
    assert_eq!(*number.load(&handle), 1);
    //~ E0308 mismatched types: expected `&Handle`, found `&Handle<Here>`
}
