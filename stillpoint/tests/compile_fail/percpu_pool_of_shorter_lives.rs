//! Objects put into a pool must live as long as the objects taken out.
use stillpoint::percpu::Pool;

fn keep<'a>(pool: &Pool<&'a str>, text: &'a str) {
    drop(pool.push(Box::new(text)));
}

fn main() {
    let pool: Pool<&'static str> = Pool::new(1);
    let text = String::from("short");
    keep(&pool, &text); //~ E0597 `text` does not live long enough
}
