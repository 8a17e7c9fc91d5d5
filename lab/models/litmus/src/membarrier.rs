//! `membarrier(2)` in litmus tests.
//!
//! The kernel interrupts each CPU that runs a thread of the process, and the interrupt executes a full fence. The
//! caller executes one before it sends the interrupts, and one after all of them have been answered. A thread that is
//! not running has passed the full fence of a context switch since, which the caller's fences pair with in the same
//! way (`Documentation/scheduler/membarrier.rst`).
//!
//! A `MEMBARRIER` therefore becomes a handshake of ordinary instructions:
//!
//! ```text
//! caller:               each other thread, at any one point of its program:
//!     full fence            load 1 from request
//!     store 1 to request    full fence
//!     load 1 from answer    store 1 to answer
//!     full fence
//! ```
//!
//! The test is run for every combination of these points, and allows what one of them allows. So the model of
//! membarrier has no axiom of its own: a handshake orders what the fences and the loads of it order.
//!
//! `MEMBARRIER_RSEQ` also aborts a thread that it interrupts in an rseq critical section. If the point is between the
//! labels `BEGIN` and `COMMIT`, the thread continues at `ABORT`. The instruction before `COMMIT` is the commit.

use crate::program::{FULL, Op, Operand, Test, Thread};

pub const BEGIN: &str = "BEGIN";
pub const COMMIT: &str = "COMMIT";
pub const ABORT: &str = "ABORT";

/// A test with all its interrupts at certain points.
#[derive(Debug, Clone)]
pub struct Placed {
    pub threads: Vec<Thread>,
    /// The number of locations, those of the handshakes included.
    pub locations: usize,
}

/// Returns all placements of the membarriers' interrupts.
pub fn placements(threads: Vec<Thread>, locations: usize) -> Vec<Placed> {
    let (mut done, mut pending) = (Vec::new(), vec![Placed { threads, locations }]);
    while let Some(placed) = pending.pop() {
        match placed.first_call() {
            None => done.push(placed),
            Some((caller, at, aborts)) => pending.extend(placed.place(caller, at, aborts)),
        }
    }
    done
}

impl Placed {
    /// Returns the first membarrier: its thread, its place, and whether it aborts sections.
    fn first_call(&self) -> Option<(usize, usize, bool)> {
        self.threads.iter().enumerate().find_map(|(thread, Thread { code, .. })| {
            let call = |(at, op): (usize, &Op)| match op {
                Op::Membarrier { aborts } => Some((thread, at, *aborts)),
                _ => None,
            };
            code.iter().enumerate().find_map(call)
        })
    }

    /// Returns the placements of the interrupts of one membarrier.
    fn place(mut self, caller: usize, at: usize, aborts: bool) -> Vec<Self> {
        let request = self.locations;
        self.locations += self.threads.len();
        // The location of the answer of a thread. The caller's would be the location of the request.
        let answer = |thread: usize| request + if thread < caller { thread + 1 } else { thread };
        let others = (0..self.threads.len()).filter(|&thread| thread != caller).collect::<Vec<_>>();
        let mut handshake = vec![Op::Fence(FULL), Op::Put { at: request, value: 1 }];
        handshake.extend(others.iter().map(|&thread| Op::Await { at: answer(thread), value: 1 }));
        handshake.push(Op::Fence(FULL));
        self.threads[caller].code.splice(at..=at, handshake);
        let mut all = vec![self];
        for &thread in &others {
            let interrupt = |placed: &Self| {
                let code = &placed.threads[thread].code;
                (0..=code.len())
                    .map(|point| placed.interrupted(thread, point, [request, answer(thread)], aborts))
                    .collect::<Vec<_>>()
            };
            all = all.iter().flat_map(interrupt).collect();
        }
        all
    }

    /// Returns the program in which a thread is interrupted at one point.
    fn interrupted(&self, thread: usize, point: usize, [request, answer]: [usize; 2], aborts: bool) -> Self {
        let mut placed = self.clone();
        let code = &mut placed.threads[thread].code;
        let mut handler =
            vec![Op::Await { at: request, value: 1 }, Op::Fence(FULL), Op::Put { at: answer, value: 1 }];
        let label = |name: &str| code.iter().position(|op| *op == Op::Label(name.into()));
        let is_inside =
            label(BEGIN).is_some_and(|begin| begin < point) && label(COMMIT).is_some_and(|end| point < end);
        if aborts && is_inside {
            let zero = Operand::Value(0);
            handler.push(Op::Branch { test: Test::Always, a: zero, b: zero, to: ABORT.into() });
        }
        code.splice(point..point, handler);
        placed
    }
}
