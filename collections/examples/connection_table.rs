//! A connection table, as in a firewall or a load balancer: every packet looks up its connection; connections are
//! opened and closed now and then.
//!
//! The threads that handle packets do nothing else, so they report quiescent states (`qsbr`), and a lookup costs as
//! little as in a single-threaded program. When a connection is closed, its bill is written after a grace period. By
//! then no thread handles a packet of it, so the bill is final.
//!
//! ```sh
//! cargo run -p stillpoint-collections --example connection_table             # a second of traffic; checks the bills
//! cargo run -p stillpoint-collections --example connection_table -- forever  # prints statistics every second
//! ```

use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, thread};

use stillpoint::Domain as _;
use stillpoint::fence;
use stillpoint::percpu::Counter;
use stillpoint::qsbr;
use stillpoint_collections::HashMap;

const PACKET_THREADS: usize = 2;
/// Packets between two reports.
const BATCH: usize = 64;
/// The number of possible connections.
const KEYS: u64 = 1000;

#[derive(Default)]
struct Connection {
    bytes: AtomicU64,
}

/// A connection that is found may be used until the thread's next report. The bill needs it for longer.
type Table = HashMap<u64, Arc<Connection>, RandomState, qsbr::Global>;

static CARRIED: Counter = Counter::new();
static REFUSED: Counter = Counter::new();
static BILLED: Counter = Counter::new();
static BILLS: Counter = Counter::new();

/// Writes the bill of a connection that has been removed from the table.
fn bill(connection: Arc<Connection>) {
    qsbr::Global.call(move || {
        BILLED.add(connection.bytes.load(Relaxed));
        BILLS.add(1);
    });
}

/// Handles packets until `stop` is set.
fn carry(table: &Table, mut random: impl FnMut() -> u64, stop: &AtomicBool) {
    let mut thread = qsbr::register();
    while !stop.load(Relaxed) {
        for _ in 0..BATCH {
            let (key, length) = (random() % KEYS, 64 + random() % 1400);
            match table.get(&key, &thread) {
                Some(connection) => {
                    connection.bytes.fetch_add(length, Relaxed);
                    CARRIED.add(length);
                }
                None => REFUSED.add(1),
            }
        }
        thread.quiescent();
    }
}

/// Opens and closes connections until `stop` is set.
fn control(table: &Table, mut random: impl FnMut() -> u64, stop: &AtomicBool) {
    let mut thread = qsbr::register();
    while !stop.load(Relaxed) {
        let key = random() % KEYS;
        if let Some(closed) = table.remove(&key, &thread) {
            bill(Arc::clone(closed));
        } else {
            table.insert(key, Arc::default(), &thread);
        }
        thread.quiescent();
    }
    (0..KEYS).filter_map(|key| table.remove(&key, &thread).cloned()).for_each(bill);
}

/// Returns random numbers for the simulated traffic (xorshift).
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn main() {
    fence::report();
    let forever = env::args().nth(1).is_some();
    let (table, stop) = (Table::new_in(qsbr::Global), AtomicBool::new(false));
    thread::scope(|scope| {
        let (table, stop) = (&table, &stop);
        for seed in 1..=PACKET_THREADS as u64 {
            scope.spawn(move || carry(table, random(seed), stop));
        }
        scope.spawn(move || control(table, random(u64::MAX), stop));
        let begun = Instant::now();
        while forever || begun.elapsed() < Duration::from_secs(1) || BILLS.get() == 0 {
            thread::sleep(Duration::from_millis(if forever { 1000 } else { 10 }));
            if forever {
                println!(
                    "{} MB carried, {} bills; {}",
                    CARRIED.get() >> 20,
                    BILLS.get(),
                    qsbr::Global.stats()
                );
            }
        }
        stop.store(true, Relaxed);
    });
    qsbr::Global.barrier();
    println!("{} bytes on {} bills; {} packets refused", BILLED.get(), BILLS.get(), REFUSED.get());
    assert_eq!(BILLED.get(), CARRIED.get(), "a byte was carried after its bill was written");
}
