//! The worker that measures one kind of fence (see [`crate::harness::worker`]).

use std::hint::black_box;
use std::sync::atomic::{Ordering, compiler_fence};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::thread::{MembarrierCommand, membarrier};
use serde::{Deserialize, Serialize};
use stillpoint::fence;

use crate::harness::controls::{Controls, join_all, spawn_all};
use crate::harness::report::OURS;
use crate::harness::worker;

/// `light()` calls between two checks of the stop flag.
const BATCH: u32 = 1000;

/// The fence that a worker measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// The library on `membarrier`.
    Membarrier,
    /// The library on signals.
    Signal,
    /// The library on sequentially consistent fences.
    Seqcst,
    /// The syscall, once a call.
    Syscall,
}

impl Role {
    pub(crate) const ALL: [Self; 4] = [Self::Membarrier, Self::Signal, Self::Seqcst, Self::Syscall];

    /// Name of the kind, for tables and for the worker's command line.
    pub(crate) fn name(self) -> &'static str {
        if self == Self::Syscall { "syscall" } else { self.backend() }
    }

    /// Name of the backend, as the library spells it.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::Membarrier | Self::Syscall => "membarrier",
            Self::Signal => "signal",
            Self::Seqcst => "seqcst",
        }
    }

    /// Checks in the child that this fence is the one in use.
    fn missing(self) -> Option<String> {
        if self == Self::Syscall {
            let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            return registered.err().map(|error| format!("membarrier is not available: {error}"));
        }
        worker::lacks_backend(self.backend())
    }

    fn heavy(self) -> anyhow::Result<()> {
        if self == Self::Syscall {
            membarrier(MembarrierCommand::PrivateExpedited).context("membarrier failed")?;
        } else {
            fence::heavy();
        }
        Ok(())
    }

    fn light(self) {
        if self == Self::Syscall {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence::light();
        }
    }
}

impl worker::Role for Role {
    fn system(self) -> &'static str {
        if self == Self::Syscall { "membarrier-syscall" } else { OURS }
    }

    fn command(self) -> [&'static str; 2] {
        ["fence", self.name()]
    }

    fn fence(self) -> Option<&'static str> {
        Some(self.backend())
    }
}

/// A measurement to make.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Threads that execute light fences without a pause.
    pub(crate) running: usize,
    /// Threads that call the heavy fence back to back.
    pub(crate) callers: usize,
    /// How long.
    pub(crate) time: Duration,
}

/// What a measurement gave.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Calls of the heavy fence.
    calls: u64,
    /// Real fences executed for them.
    issued: u64,
    /// Time that the callers spent, added up.
    busy: Duration,
}

impl Answer {
    /// Nanoseconds of a call; not a number without callers.
    pub(crate) fn heavy_ns(&self) -> f64 {
        self.busy.as_nanos() as f64 / self.calls as f64
    }

    /// Real fences for each call.
    pub(crate) fn issued_per_call(&self) -> f64 {
        self.issued as f64 / self.calls as f64
    }
}

/// Serve measurements of one kind of fence.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kind of fence.
    #[arg(value_enum)]
    role: Role,
}

/// The child.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    worker::serve(args.role.missing(), |load: Load| measure(args.role, &load))
}

fn measure(role: Role, load: &Load) -> anyhow::Result<Answer> {
    let controls = Controls::default();
    controls.scope(|scope| {
        spawn_all(scope, load.running, || run(&controls, role))?;
        let callers = spawn_all(scope, load.callers, || call(&controls, role))?;
        controls.ready.wait_for(load.running + load.callers);
        let before = fence::stats();
        controls.start.open();
        thread::sleep(load.time);
        controls.stop();
        let (mut calls, mut busy) = (0, Duration::ZERO);
        for caller in join_all(callers)? {
            let (its_calls, its_time) = caller?;
            calls += its_calls;
            busy += its_time;
        }
        let after = fence::stats();
        let issued = if role == Role::Syscall { calls } else { after.issued - before.issued };
        Ok(Answer { calls, issued, busy })
    })
}

/// A running thread: registered with the library, so that its light fence is cheap on the signal backend too.
fn run(controls: &Controls, role: Role) {
    if role != Role::Syscall {
        fence::register_thread();
    }
    controls.ready.arrive();
    let mut count = 0_u32;
    while !controls.background_must_stop() {
        for _ in 0..BATCH {
            count = black_box(count.wrapping_add(1));
            role.light();
        }
    }
}

/// A caller: its calls and the time they took.
fn call(controls: &Controls, role: Role) -> anyhow::Result<(u64, Duration)> {
    controls.begin();
    let start = Instant::now();
    let mut calls = 0_u64;
    while !controls.must_stop() || calls == 0 {
        role.heavy()?;
        calls += 1;
    }
    Ok((calls, start.elapsed()))
}
