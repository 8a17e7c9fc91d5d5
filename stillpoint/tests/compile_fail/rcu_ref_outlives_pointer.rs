//! Dropping the pointer frees the value at once.
use stillpoint::rcu::Rcu;

fn main() {
    let number = Rcu::new(1);
    let value = number.read();
    drop(number); //~ E0505 cannot move out of `number` because it is borrowed
    assert_eq!(*value, 1);
}
