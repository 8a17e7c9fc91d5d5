//! A program that is slow in three ways, for the scripts in `lab/bpftrace`, which find out why: sections that are
//! held for long, a lock that is held for long, and a slow destructor. See `docs/probes.md`.
//!
//! `cargo run -p stillpoint --example traced --features usdt [SECONDS]`

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::lock::Mutex;
use stillpoint::rcu::{self, Rcu};

/// A value that takes a millisecond to drop.
struct SlowToDrop(#[allow(dead_code, reason = "what is dropped")] u64);

impl Drop for SlowToDrop {
    fn drop(&mut self) {
        work_for(Duration::from_millis(1));
    }
}

/// A value that is dropped at once.
struct QuickToDrop(#[allow(dead_code, reason = "what is dropped")] Vec<u64>);

static LOCK: Mutex<u64> = Mutex::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

/// Computes, as a parser or a compression would.
#[inline(never)]
fn work_for(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Reads for a few milliseconds: too long.
#[inline(never)]
fn render_report(routes: &Rcu<Vec<u64>>) -> u64 {
    let guard = rcu::enter();
    let sum = routes.load(&guard).iter().sum();
    thread::sleep(Duration::from_millis(5));
    sum
}

/// Writes a file under the lock: too long.
#[inline(never)]
fn save_under_lock() -> u64 {
    let mut total = LOCK.lock();
    *total += 1;
    thread::sleep(Duration::from_millis(3));
    *total
}

/// Starts a thread of this name, which calls `f` until the program ends.
fn repeat<'a>(scope: &'a thread::Scope<'a, '_>, name: &str, mut f: impl FnMut() + Send + 'a) {
    let body = move || {
        while !ENDED.load(Relaxed) {
            f();
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, body).expect("a thread");
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(1, |text| text.parse().expect("usage: traced [SECONDS]"));
    let routes = Rcu::new(vec![0; 100]);
    let (slow, quick) = (Rcu::new(SlowToDrop(0)), Rcu::new(QuickToDrop(vec![0])));
    thread::scope(|scope| {
        repeat(scope, "reporter", || {
            black_box(render_report(&routes));
            thread::sleep(Duration::from_millis(1));
        });
        repeat(scope, "saver", || {
            black_box(save_under_lock());
            thread::sleep(Duration::from_millis(1));
        });
        for name in ["request-1", "request-2"] {
            repeat(scope, name, || {
                *LOCK.lock() += 1;
                thread::sleep(Duration::from_micros(100));
            });
        }
        repeat(scope, "updater", || {
            drop(routes.replace(vec![1; 100]).wait());
            slow.replace(SlowToDrop(1));
            quick.replace(QuickToDrop(vec![1]));
            thread::sleep(Duration::from_millis(5));
        });
        thread::sleep(Duration::from_secs(seconds));
        ENDED.store(true, Relaxed);
    });
    drop((slow, quick));
    rcu::barrier();
    println!("{} acquisitions, {}", LOCK.lock(), rcu::stats());
}
