//! `torture hazard`: threads protect, keep and pass on elements by hazard pointers while others retire them.
//!
//! Elements are never returned to the allocator. An element is published, unpublished and retired, and then freed:
//! its stamp says so, with its generation. While a hazard pointer protects it, or a section in which it was loaded is
//! open, a reader must not see it freed, nor in another generation. When all threads have stopped, everything must
//! have been freed but what hazard pointers still protect.

use std::collections::VecDeque;
use std::hint;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::hazard::{self, Global, HazardPointer};
use stillpoint::rcu::{Atomic, DeferOptions, Limits, Shared};

use super::common::{Common, Kind, check, fail, require, seeded, sleep};
use super::intervals::{TICK, Watch, interval, repeat};
use super::{canary, faults};

pub(super) const NAME: &str = "hazard";

/// Time until all threads stop.
const INTERVAL: Duration = Duration::from_millis(250);
/// One tick in so many forks.
const FORKS: u32 = 64;
/// Protections, and values retired, per second that a conclusive run needs.
const LEAST: u64 = 1000;

const READERS: usize = 4;
const UPDATERS: usize = 3;
const POINTERS: usize = 3;
const ELEMENTS: usize = 4096;
/// Hazard pointers of a reader.
const HELD: usize = 12;
/// Protections of a reader; then another thread takes its place, with the hazard pointers.
const LIFE: u32 = 3000;

/// The low bits of a stamp.
const PUBLISHED: u64 = 0;
const FREED: u64 = 1;
const AGES: u64 = 2;

#[repr(align(64))]
struct Element {
    stamp: AtomicU64,
}

/// What the threads share; leaked.
struct Test {
    published: [Atomic<Element, Global>; POINTERS],
    elements: Box<[Element]>,
    free: Mutex<VecDeque<&'static Element>>,
    /// Hazard pointers of readers that have ended.
    left: Mutex<Vec<HazardPointer>>,
    protections: AtomicU64,
    retired: AtomicU64,
    stop: AtomicBool,
}

/// An element that was loaded, and its stamp then.
#[derive(Clone, Copy)]
struct Seen {
    element: &'static Element,
    stamp: u64,
}

impl Seen {
    /// Relaxed loads, as all accesses to elements: the library must order them.
    fn new(node: Shared<'_, Element>) -> Self {
        // SAFETY: elements are leaked, and no pointer is null.
        let element = unsafe { &*node.as_ptr() };
        let seen = Self { element, stamp: element.stamp.load(Relaxed) };
        seen.check();
        seen
    }

    fn check(self) {
        let now = self.element.stamp.load(Relaxed);
        if now % AGES == FREED || now != self.stamp {
            fail(NAME, Kind::Early, "an element was freed while a hazard pointer or a section protected it");
        }
    }
}

fn spin(most: u32) {
    (0..fastrand::u32(..most)).for_each(|_| hint::spin_loop());
}

/// Stays for a while, which is mostly short.
fn delay() {
    match fastrand::u16(..) {
        0..40000 => spin(64),
        40000..65000 => spin(1000),
        65000..65500 => thread::yield_now(),
        65500.. => sleep(Duration::from_micros(fastrand::u64(..500))),
    }
}

impl Test {
    fn new() -> &'static Self {
        let test: &'static Self = Box::leak(Box::new(Self {
            published: [const { Atomic::null() }; POINTERS],
            elements: (0..ELEMENTS).map(|_| Element { stamp: AtomicU64::new(FREED) }).collect(),
            free: Mutex::default(),
            left: Mutex::default(),
            protections: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }));
        test.free.lock().unwrap_or_else(PoisonError::into_inner).extend(&test.elements);
        test.published.iter().for_each(|pointer| pointer.store(test.allocate().expect("there are many")));
        test
    }

    fn stops(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Returns a free element, published.
    fn allocate(&self) -> Option<Shared<'static, Element>> {
        let element = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        let generation = element.stamp.load(Relaxed) / AGES + 1;
        element.stamp.store(generation * AGES + PUBLISHED, Relaxed);
        // SAFETY: elements are leaked.
        Some(unsafe { Shared::from_ptr(element) })
    }

    /// Reads until the interval or the life of the thread ends.
    fn read(&'static self) {
        let mut pointers = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        pointers.truncate(fastrand::usize(..HELD));
        pointers.resize_with(HELD, HazardPointer::new);
        let mut seen = [None; HELD];
        for _ in 0..fastrand::u32(1..LIFE) {
            if self.stops() {
                break;
            }
            let place = fastrand::usize(..HELD);
            let (source, pointer) = (&self.published[fastrand::usize(..POINTERS)], &mut pointers[place]);
            let node = match fastrand::u8(..8) {
                0 => {
                    let section = Global::enter();
                    let seen = Seen::new(source.load(&section));
                    delay();
                    seen.check();
                    // SAFETY: loaded in this section.
                    unsafe { pointer.keep(Shared::from_ptr(seen.element)) }
                }
                1..4 => {
                    // SAFETY: the result is not followed unless it is protected.
                    let expected = unsafe { source.load_unprotected() };
                    delay();
                    match pointer.try_protect(source, expected) {
                        Some(node) => node,
                        None => {
                            seen[place] = None;
                            continue;
                        }
                    }
                }
                _ => pointer.protect(source),
            };
            seen[place] = Some(Seen::new(node));
            delay();
            seen.iter().flatten().for_each(|seen| seen.check());
            match fastrand::u8(..) {
                0..16 => {
                    seen[place] = None;
                    pointers[place].reset();
                }
                16..32 => {
                    seen[place] = None;
                    pointers[place] = HazardPointer::new();
                }
                32..64 => {
                    let other = fastrand::usize(..HELD);
                    pointers.swap(place, other);
                    seen.swap(place, other);
                }
                _ => {}
            }
            self.protections.fetch_add(1, Relaxed);
        }
        seen.iter().flatten().for_each(|seen| seen.check());
        self.left.lock().unwrap_or_else(PoisonError::into_inner).extend(pointers);
    }

    fn options() -> DeferOptions {
        let options = DeferOptions::new();
        match fastrand::u8(..8) {
            0..4 => options.run_on_retiring_thread(),
            _ => options,
        }
    }

    /// Replaces published elements and retires them.
    fn update(&'static self) {
        let mut pointer = HazardPointer::new();
        while !self.stops() {
            let Some(fresh) = self.allocate() else {
                Global.barrier();
                continue;
            };
            let source = &self.published[fastrand::usize(..POINTERS)];
            let mut old = pointer.protect(source);
            while source.try_store(old, fresh).is_err() {
                old = pointer.protect(source);
            }
            let old = old.as_ptr().cast_mut().cast();
            if fastrand::bool() {
                pointer.reset();
            }
            spin(32);
            // SAFETY: the element is retired once in this generation, and its memory stays.
            unsafe { Global.retire_raw_with(old, 64, free, Self::options()) };
            self.retired.fetch_add(1, Relaxed);
            match fastrand::u16(..) {
                0..64 => Global.barrier(),
                64..128 => _ = Global.flush(),
                128..256 => thread::yield_now(),
                _ => {}
            }
        }
    }
}

static TEST: std::sync::OnceLock<&'static Test> = std::sync::OnceLock::new();

/// Frees an element.
///
/// # Safety
///
/// `element` is one of the test's.
unsafe fn free(element: *mut ()) {
    // SAFETY: elements are leaked.
    let element: &'static Element = unsafe { &*element.cast::<Element>() };
    let stamp = element.stamp.load(Relaxed);
    if stamp % AGES == FREED {
        fail(NAME, Kind::Order, "an element is freed twice");
    }
    element.stamp.store(stamp + FREED, Relaxed);
    let test = TEST.get().expect("the test has begun");
    test.free.lock().unwrap_or_else(PoisonError::into_inner).push_back(element);
}

/// Returns `true` if hazard pointers work in the child of a fork.
fn works_in_child() -> bool {
    hazard::domain! { struct Own; }
    static FREED_IN_CHILD: AtomicU64 = AtomicU64::new(0);
    /// # Safety
    ///
    /// None.
    unsafe fn count(_: *mut ()) {
        FREED_IN_CHILD.fetch_add(1, Relaxed);
    }
    let (mut pointer, value) = (HazardPointer::new(), AtomicU64::new(0));
    // SAFETY: a node that is not freed.
    let _kept = unsafe { pointer.keep(Shared::from_ptr(ptr::from_ref(&value))) };
    // SAFETY: `count` does not use the pointer.
    unsafe { Own.retire_raw_with(value.as_ptr().cast(), 0, count, DeferOptions::new()) };
    Own.barrier();
    let was_kept = FREED_IN_CHILD.load(Relaxed) == 0;
    pointer.reset();
    Own.barrier();
    was_kept && FREED_IN_CHILD.load(Relaxed) == 1
}

/// Runs an interval.
fn one_interval(test: &'static Test) -> anyhow::Result<()> {
    let count = if fastrand::bool() { 1 << fastrand::u32(8..14) } else { Limits::default().count };
    Global.set_limits(Limits { count, ..Limits::default() });
    // It stalls for the whole interval.
    let mut stalled = HazardPointer::new();
    let kept = Seen::new(stalled.protect(&test.published[0]));
    let body = |number| {
        if number < UPDATERS {
            return test.update();
        }
        while !test.stops() {
            thread::scope(|scope| _ = scope.spawn(seeded(|| test.read())));
        }
    };
    let state = || Global.stats().to_string();
    interval(&Watch::new(NAME, &state), UPDATERS + READERS, INTERVAL, &test.stop, body, |ends| {
        kept.check();
        if ends {
            return Ok(());
        }
        sleep(TICK);
        let is_fork = fastrand::u32(..FORKS) == 0;
        if is_fork { faults::finish(faults::fork(), works_in_child).map(drop) } else { Ok(()) }
    })?;
    kept.check();
    drop(stalled);
    test.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
    Global.barrier();
    let missing = ELEMENTS - POINTERS - test.free.lock().unwrap_or_else(PoisonError::into_inner).len();
    check(missing == 0, Kind::Leak, || {
        format!("{missing} elements have not been freed after the barrier: {}", Global.stats())
    })
}

/// Runs the torture. Returns what passed.
pub(super) fn run(args: &Common) -> anyhow::Result<String> {
    canary::start(|| ())?;
    let test = *TEST.get_or_init(Test::new);
    let intervals = repeat(args.seconds, |_| one_interval(test))?;
    let [protections, retired] = [&test.protections, &test.retired].map(|count| count.load(Relaxed));
    require(NAME, "protections", protections, LEAST, args.seconds);
    require(NAME, "retired elements", retired, LEAST, args.seconds);
    Ok(format!("{protections} protections and {retired} retired elements in {intervals} intervals"))
}
