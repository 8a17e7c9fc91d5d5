#!/usr/bin/env bash
# Programs for bugs of other libraries that were reported since 2024 fail on the releases that have them, and the
# tests here with the same pattern pass (`docs/advisories.md`). Those of arc-swap are in `ci/arc-swap.sh`. The
# releases are exact; what they depend on is the newest. Takes two minutes, and needs the network once.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

root=target/advisories
# found NAME DEPENDENCY MESSAGE: the program on the input, with an old release, ends with the message. `compiles`:
# what the compiler should have refused.
found() {
    local folder=$root/$1 log=$root/$1.log
    mkdir -p "$folder/src"
    printf '[package]\nname = "%s"\nedition = "2024"\n[dependencies]\n%s\n[workspace]\n' "$1" "$2" >"$folder/Cargo.toml"
    cat >"$folder/src/main.rs"
    # In a subshell, which writes the message about a crash to the log.
    (RUSTFLAGS=--cap-lints=allow timeout 300 cargo run --quiet --manifest-path "$folder/Cargo.toml" --target-dir "$root/build"; exit $?) \
        >"$log" 2>&1 || true
    grep --quiet "$3" "$log" || { cat "$log" >&2; fail "$1: not found in $2"; }
    echo "found     $1: $3"
}

echo "-- on old releases"
found rustsec-2026-0204 'crossbeam-epoch = "=0.9.18"' 'null pointer dereference' <<'E'
fn main() { println!("{:p}", crossbeam_epoch::Shared::<u64>::null()); }
E
found rustsec-2026-0205 'scc = "=3.8.3"' 'keys alive: -1' <<'E'
use std::{cmp::Ordering, panic::{AssertUnwindSafe, catch_unwind}, sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed}};
static ALIVE: AtomicI64 = AtomicI64::new(0);
static PANICS: AtomicBool = AtomicBool::new(false);
struct Key(u64);
fn key(number: u64) -> Key { ALIVE.fetch_add(1, Relaxed); Key(number) }
impl Clone for Key { fn clone(&self) -> Self { key(self.0) } }
impl Drop for Key { fn drop(&mut self) { ALIVE.fetch_sub(1, Relaxed); } }
impl PartialEq for Key { fn eq(&self, other: &Self) -> bool { self.0 == other.0 } }
impl Eq for Key {}
impl PartialOrd for Key { fn partial_cmp(&self, other: &Self) -> Option<Ordering> { Some(self.cmp(other)) } }
impl Ord for Key { fn cmp(&self, other: &Self) -> Ordering { assert!(!PANICS.load(Relaxed)); self.0.cmp(&other.0) } }
fn main() {
    let tree = scc::TreeIndex::new();
    (0..4).for_each(|number| assert!(tree.insert_sync(key(number), number).is_ok()));
    PANICS.store(true, Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| tree.upsert_sync(key(9), 9))).is_err());
    PANICS.store(false, Relaxed);
    drop(tree);
    (0..1000).for_each(|_| scc::Guard::new().accelerate());
    println!("keys alive: {}", ALIVE.load(Relaxed));
}
E
found dashmap-369 'dashmap = "=6.2.1"' 'the threads wait for each other' <<'E'
use std::{sync::{Arc, Barrier, mpsc}, thread, time::Duration};
fn main() {
    let map = Arc::new(dashmap::DashMap::with_shard_amount(2));
    (0..64).for_each(|key| _ = map.insert(key, 0));
    let held = map.get_mut(&0).unwrap();
    let keys = [0, (1..64).find(|key| map.try_get(key).is_present()).unwrap()];
    drop(held);
    let (meet, (done, is_done)) = (Arc::new(Barrier::new(2)), mpsc::channel());
    for thread in 0..2 {
        let (map, meet, done) = (map.clone(), meet.clone(), done.clone());
        thread::spawn(move || {
            let held = map.get(&keys[thread]).unwrap();
            meet.wait();
            map.insert(keys[1 - thread], *held);
            done.send(()).unwrap();
        });
    }
    is_done.recv_timeout(Duration::from_secs(5)).expect("the threads wait for each other");
}
E
found papaya-63 'papaya = "=0.1.8"' 'pointer dereference' <<'E'
fn main() {
    let map = papaya::HashMap::<u64, u64>::builder().resize_mode(papaya::ResizeMode::Incremental(1)).build();
    let mut map = map.pin();
    (0..1000).for_each(|key| _ = map.insert(key, key));
    (0..500).for_each(|key| _ = map.remove(&key));
    map.retain(|key, value| key == value);
}
E
found tokio-8056 'tokio = { version = "=1.52.0", features = ["rt"] }' 'the second task has no thread' <<'E'
use std::{process, sync::mpsc, time::Duration};
fn main() {
    for _ in 0..20_000 {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // From here on, one thread is idle.
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        let ((send, receive), (done, is_done)) = (mpsc::channel(), mpsc::channel());
        runtime.spawn_blocking(move || done.send(receive.recv()));
        runtime.spawn_blocking(move || send.send(()));
        if is_done.recv_timeout(Duration::from_secs(5)).is_err() {
            println!("the second task has no thread");
            process::exit(1);
        }
    }
}
E
# RUSTSEC-2025-0023, RUSTSEC-2026-0221, sdd 14.
found not-send 'tokio = { version = "=1.44.1", features = ["sync"] }
event-listener = "=5.4.1"
sdd = "=4.8.6"' 'compiles' <<'E'
use std::cell::Cell;
fn is_send<T: Send>(_: &T) {}
fn main() {
    let (_send, receive) = tokio::sync::broadcast::channel::<Cell<u32>>(4);
    is_send(&[receive.resubscribe(), receive]);
    let event = event_listener::Event::<Cell<*const u32>>::with_tag();
    event_listener::listener!(event => listener);
    is_send(&listener);
    is_send(&sdd::Shared::new(Cell::new(1)));
    println!("compiles");
}
E

echo "-- here"
# here PACKAGE PROGRAM TEST...
here() { cargo test --quiet --package "$1" --test "$2" -- "${@:3}" | grep -E '^test result: ok. [1-9]' || fail "${*:3}"; }
here crossbeam-epoch pointers pointers_are_formatted_without_being_read
here stillpoint-collections hash_map panic_or_change_in_a_comparison insertions_wait_for_no_reference
here stillpoint-collections maps retain_beside_resizes
here stillpoint lock each_of_two_notifications
here stillpoint contracts compile_fail
