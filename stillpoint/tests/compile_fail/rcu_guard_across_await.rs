//! A guard that is held across `.await` stays in its thread. The error says what to do instead.
use stillpoint::rcu::{self, Rcu};

fn main() {}

async fn read(number: &Rcu<u32>) -> u32 {
    let guard = rcu::enter();
    std::future::ready(()).await;
    *number.load(&guard)
}

fn is_send(_: impl Send) {}

fn needs_send(number: &'static Rcu<u32>) {
    is_send(read(number)); //~ future cannot be sent between threads safely
    let guard = rcu::enter();
    is_send(guard); //~ E0277 `*mut stillpoint::domain::static_domain::DropBeforeAwaitOrUseSrcu` cannot be sent between threads safely
}
