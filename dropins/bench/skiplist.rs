//! `skiplist OPERATION THREADS SECONDS`: threads use one map of crossbeam-skiplist, which uses the crossbeam-epoch
//! that this program is built with. Prints the operations, the CPU time of the process in nanoseconds, and its peak
//! memory in KiB.

use std::env::args;
use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crossbeam_skiplist::SkipMap;

/// Keys, of which half are in the map.
const KEYS: u64 = 1 << 16;

/// Items that one operation iterates over.
const ITEMS: usize = 100;

/// The pseudorandom numbers of a thread (xorshift64).
struct Random(u64);

impl Random {
    fn key(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % KEYS
    }
}

/// Operates on the map once.
type Operation = fn(&SkipMap<u64, u64>, &mut Random);

fn operation(name: &str) -> Operation {
    match name {
        "get" => |map, random| _ = black_box(map.get(&random.key()).map(|entry| *entry.value())),
        // Every second one replaces an entry.
        "insert" => |map, random| _ = map.insert(random.key(), 1),
        // Of keys of the whole range, so that half are in the map.
        "insert-remove" => |map, random| {
            map.insert(random.key(), 1);
            map.remove(&random.key());
        },
        "iterate" => |map, random| {
            let items = map.range(random.key()..).take(ITEMS);
            black_box(items.map(|entry| *entry.value()).sum::<u64>());
        },
        _ => panic!("no operation {name}"),
    }
}

/// The value of the line of `/proc/self/status` that begins with `name`.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("procfs is mounted");
    let line = text.lines().find(|line| line.starts_with(name)).expect("the kernel says so");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// The CPU time that the process has used, in nanoseconds.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() {
    let arguments: Vec<String> = args().skip(1).collect();
    let [name, threads, seconds] = &arguments[..] else { panic!("OPERATION THREADS SECONDS") };
    let operation = operation(name);
    let threads: u64 = threads.parse().expect("a number of threads");
    let seconds: f64 = seconds.parse().expect("seconds");

    let map = SkipMap::new();
    (0..KEYS).step_by(2).for_each(|key| _ = map.insert(key, 0));
    let is_over = AtomicBool::new(false);
    let begin = Barrier::new(threads as usize + 1);
    let (operations, time) = thread::scope(|scope| {
        let run = |seed: u64| {
            let (map, is_over, begin) = (&map, &is_over, &begin);
            scope.spawn(move || {
                let (mut random, mut operations) = (Random(seed * 0x9e37_79b9_7f4a_7c15), 0_u64);
                begin.wait();
                while !is_over.load(Relaxed) {
                    operation(map, &mut random);
                    operations += 1;
                }
                operations
            })
        };
        let running: Vec<_> = (1..=threads).map(run).collect();
        begin.wait();
        let before = cpu_time();
        thread::sleep(Duration::from_secs_f64(seconds));
        is_over.store(true, Relaxed);
        let operations =
            running.into_iter().map(|thread| thread.join().expect("it does not panic")).sum::<u64>();
        (operations, cpu_time() - before)
    });
    println!("{operations} {time} {}", status("VmHWM:"));
}
