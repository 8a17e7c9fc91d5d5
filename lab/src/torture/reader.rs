//! Threads that read: sections of all shapes and lengths, beside which they move, sleep, take cookies, defer, and end.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

use stillpoint::rcu::{GracePeriod, Hints};

use super::flavor::{Flavor, Shape};
use super::history::{Case, Happened, What, report};
use super::oracle::Sight;
use super::run::Scene;
use super::updater::{Desk, WAYS};
use crate::harness::pin;

/// Sections in a thread's life, at most; then another takes its seat.
const LIFE: u32 = 4000;

/// The threads of a seat, one after the other.
pub(super) fn lives<F: Flavor>(scene: &'static Scene, seat: usize) {
    let history = &scene.stage.histories[seat];
    for life in 0.. {
        if scene.stops() {
            return;
        }
        let seed = fastrand::u64(..);
        let thread = thread::Builder::new().spawn(move || {
            fastrand::seed(seed);
            history.note(Happened::Began, life);
            live::<F>(scene, seat);
            history.note(Happened::Ended, scene.stage.number(seat) / 2);
        });
        // Nothing that it does panics; where there can be no thread, there may be one later.
        match thread.map(thread::JoinHandle::join) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => report(Case { what: What::Panicked, who: seat as u64, ..Case::default() }),
            Err(_) => super::sleep(Duration::from_millis(10)),
        }
    }
}

fn live<F: Flavor>(scene: &'static Scene, seat: usize) {
    let mut reader = F::reader();
    let _addressee = scene.signals.addressee(seat);
    for _ in 0..fastrand::u32(1..LIFE) {
        if scene.stops() {
            break;
        }
        match fastrand::u16(..) {
            0..256 => {
                let cpu = scene.cpus[fastrand::usize(..scene.cpus.len())];
                // Where it is not allowed any more, the thread stays.
                if pin::to(cpu).is_ok() {
                    scene.stage.histories[seat].note(Happened::Migrated, cpu as u64);
                }
            }
            256..512 => F::between(&mut reader),
            512..1024 => thread::yield_now(),
            1024..1040 => super::sleep(Duration::from_micros(fastrand::u64(..1000))),
            _ => {}
        }
        let shape = Shape::random();
        scene.fill_store_buffer();
        F::section(&mut reader, shape, || begin::<F>(scene, seat), |section| section.end(scene, seat));
        if scene.is_shy() {
            F::rest(&mut reader, || rest(scene));
        }
    }
}

/// Outside, until somebody has waited: a leader whom the end of the last section did not wake will not be woken by the next.
fn rest(scene: &Scene) {
    let returns = || scene.desks.iter().map(Desk::returns).sum::<u64>();
    let before = returns();
    for round in 1_u32.. {
        if scene.stops() || returns() != before {
            return;
        }
        if round % 64 == 0 { thread::yield_now() } else { hint::spin_loop() }
    }
}

/// A section that has begun.
struct Section<F: Flavor> {
    sight: Sight,
    cookie: Option<GracePeriod<F::Domain>>,
}

#[inline]
fn begin<F: Flavor>(scene: &'static Scene, seat: usize) -> Section<F> {
    let stage = scene.stage;
    // First, and behind nothing: it may be early.
    let sight = stage.see(seat);
    stage.step(seat);
    let history = &stage.histories[seat];
    let section = stage.number(seat) / 2;
    history.note(Happened::Entered, section);
    // A read-modify-write: not often, as it would make up for a fence.
    let cookie = (fastrand::u8(..) < 8).then(|| {
        history.note(Happened::TookCookie, section);
        if fastrand::bool() { GracePeriod::start_in(F::domain()) } else { GracePeriod::now_in(F::domain()) }
    });
    if fastrand::u8(..) < 2 {
        history.note(Happened::Deferred, section);
        let look = stage.look_at(seat, WAYS.len());
        F::call(move || _ = look.check(), Hints::new());
    }
    dwell(scene);
    stage.see_again(seat, sight);
    Section { sight, cookie }
}

impl<F: Flavor> Section<F> {
    #[inline]
    fn end(self, scene: &'static Scene, seat: usize) {
        let stage = scene.stage;
        let section = stage.number(seat) / 2;
        let history = &stage.histories[seat];
        history.note(Happened::Halfway, section);
        dwell(scene);
        if self.cookie.is_some_and(|cookie| cookie.is_elapsed()) {
            report(Case { what: What::CookieInside, who: seat as u64, section, ..Case::default() });
        }
        stage.see_again(seat, self.sight);
        scene.fill_store_buffer();
        history.note(Happened::Leaves, section);
        stage.step(seat);
    }
}

/// Stays in the section for a while: mostly a short one.
#[inline]
fn dwell(scene: &Scene) {
    let spin = |most| (0..fastrand::u32(..most)).for_each(|_| hint::spin_loop());
    if scene.is_shy() {
        // About as long as a leader looks before he sleeps.
        return spin(400);
    }
    match fastrand::u16(..) {
        0..16384 => {}
        16384..49152 => spin(64),
        49152..65000 => spin(1000),
        65000..65500 => thread::yield_now(),
        65500..65530 => super::sleep(Duration::from_micros(fastrand::u64(..1000))),
        65530.. => super::sleep(Duration::from_millis(fastrand::u64(1..5))),
    }
}

/// A signal handler's section.
pub(super) fn interrupt<F: Flavor>(scene: &'static Scene, seat: usize) {
    // What is on the stack of the thread may be in the middle of anything of the library but its end.
    F::visit(|| {
        let sight = scene.stage.see(seat);
        (0..16).for_each(|_| hint::spin_loop());
        scene.stage.see_again(seat, sight);
    });
}

impl Scene {
    /// Now and then, stores to memory that is elsewhere: those that follow then wait in the processor's store buffer, and loads
    /// do not. What a fence is for happens more often so.
    #[inline]
    fn fill_store_buffer(&self) {
        if fastrand::bool() {
            for _ in 0..fastrand::u8(..128) {
                self.far[fastrand::usize(..self.far.len())].store(1, Relaxed);
            }
        }
    }
}

/// Memory for [`Scene::fill_store_buffer`]: more than caches hold. Children have none, so that nobody copies it.
pub(super) fn far() -> Box<[AtomicU64]> {
    const PAGE: usize = 4096;
    let far: Box<[AtomicU64]> = (0..1 << 22).map(|_| AtomicU64::new(0)).collect();
    let begin = far.as_ptr().addr().next_multiple_of(PAGE);
    let end = far.as_ptr_range().end.addr() / PAGE * PAGE;
    // SAFETY: whole pages of ours; nothing that a child does is in them. If it fails, forks are slower.
    unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTFORK) };
    far
}
