//! `inlined OPERATION COUNT`: a user's program, whose instructions `ci/inlined.sh` counts. Each operation is in a
//! function of its own, in which the compiler should inline its fast path.

use std::env;
use std::hash::{BuildHasher, DefaultHasher, Hash};
use std::hint::black_box;
use std::sync::atomic::Ordering::Acquire;

use stillpoint::lock::Mutex;
use stillpoint::percpu::Counter;
use stillpoint::qsbr::Handle;
use stillpoint::rcu::{self, Rcu};
use stillpoint::{Domain as _, fence, qsbr, srcu};
use stillpoint_collections::HashMap;

#[inline(never)]
fn section(pointer: &Rcu<u64>) -> u64 {
    *pointer.load(&rcu::enter())
}

#[inline(never)]
fn peer_section(pointer: &crossbeam_epoch::Atomic<u64>) -> u64 {
    let guard = crossbeam_epoch::pin();
    // SAFETY: not null, and never replaced.
    *unsafe { pointer.load(Acquire, &guard).deref() }
}

#[inline(never)]
fn compat_section(pointer: &compat::Atomic<u64>) -> u64 {
    let guard = compat::pin();
    // SAFETY: not null, and never replaced.
    *unsafe { pointer.load(Acquire, &guard).deref() }
}

#[inline(never)]
fn repin(guard: &mut rcu::Guard) {
    guard.repin();
}

#[inline(never)]
fn qsbr_load(pointer: &Rcu<u64, qsbr::Global>, thread: &Handle) -> u64 {
    *pointer.load(thread)
}

#[inline(never)]
fn qsbr_quiescent(thread: &mut Handle) {
    thread.quiescent();
}

#[inline(never)]
fn srcu_section(pointer: &Rcu<u64, srcu::Domain>, domain: &srcu::Domain) -> u64 {
    *pointer.load(&domain.enter())
}

#[inline(never)]
fn light_fence() {
    fence::light();
}

#[inline(never)]
fn counter_add(counter: &Counter) {
    counter.add(1);
}

#[inline(never)]
fn mutex_pair(mutex: &Mutex<u64>) {
    *mutex.lock() += 1;
}

#[inline(never)]
fn retire(value: Box<u64>) {
    rcu::retire(value);
}

/// Hashes to one number: `hash_one` of the standard library is not inlined.
struct One;

impl BuildHasher for One {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher::new()
    }

    #[inline(always)]
    fn hash_one<T: Hash>(&self, _: T) -> u64 {
        1
    }
}

#[inline(never)]
fn map_get(map: &HashMap<u64, u64, One>, key: u64, guard: &rcu::Guard) -> u64 {
    map.get(&key, guard).copied().unwrap_or(0)
}

fn main() {
    let mut arguments = env::args().skip(1);
    let operation = arguments.next().expect("an operation");
    let count: u64 = arguments.next().expect("a count").parse().expect("a number");
    rcu::register();
    match operation.as_str() {
        "section" => {
            let pointer = Rcu::new(1);
            (0..count).for_each(|_| assert_eq!(section(black_box(&pointer)), 1));
        }
        "peer-section" => {
            let pointer = crossbeam_epoch::Atomic::new(1);
            (0..count).for_each(|_| assert_eq!(peer_section(black_box(&pointer)), 1));
        }
        "compat-section" => {
            let pointer = compat::Atomic::new(1);
            (0..count).for_each(|_| assert_eq!(compat_section(black_box(&pointer)), 1));
        }
        "repin" => {
            let mut guard = rcu::enter();
            (0..count).for_each(|_| repin(black_box(&mut guard)));
        }
        "qsbr-load" => {
            let pointer = Rcu::new_in(1, qsbr::Global);
            let thread = qsbr::register();
            (0..count).for_each(|_| assert_eq!(qsbr_load(black_box(&pointer), &thread), 1));
        }
        "qsbr-quiescent" => {
            let mut thread = qsbr::register();
            (0..count).for_each(|_| qsbr_quiescent(black_box(&mut thread)));
        }
        "srcu-section" => {
            let domain = srcu::Domain::new();
            let pointer = Rcu::new_in(1, domain.clone());
            (0..count).for_each(|_| assert_eq!(srcu_section(black_box(&pointer), &domain), 1));
        }
        "light-fence" => (0..count).for_each(|_| light_fence()),
        "counter-add" => {
            let counter = Counter::new();
            (0..count).for_each(|_| counter_add(black_box(&counter)));
        }
        "mutex-pair" => {
            let mutex = Mutex::new(0);
            (0..count).for_each(|_| mutex_pair(black_box(&mutex)));
            assert_eq!(*mutex.lock(), count);
        }
        "retire" => {
            // Inside a section, which keeps the worker and grace periods out of the count.
            let guard = rcu::enter();
            (0..count).for_each(|_| retire(black_box(Box::new(1))));
            drop(guard);
            rcu::Global.barrier();
        }
        "map-get" => {
            let map = HashMap::with_hasher(One);
            map.insert(1, 1, &rcu::enter());
            let guard = rcu::enter();
            (0..count).for_each(|_| assert_eq!(map_get(black_box(&map), 1, &guard), 1));
        }
        _ => panic!("no such operation: {operation}"),
    }
}
