//! A section of `rcu` belongs to its thread.
use stillpoint::rcu::Rcu;

fn main() {
    let number = Rcu::new(1);
    let value = number.read();
    std::thread::scope(|scope| _ = scope.spawn(move || drop(value)));
    //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be sent between threads safely
}
