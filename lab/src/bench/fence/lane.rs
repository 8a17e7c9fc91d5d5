//! A process that measures one kind of fence on request.
//!
//! The parent starts its own program again with the hidden subcommand `fence-lane`. Parent and child speak JSON, one
//! line a message: the child says hello, then answers each [`Load`] with an [`Answer`], and ends with its standard
//! input.

use std::env;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Write as _, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::thread::{MembarrierCommand, membarrier};
use serde::{Deserialize, Serialize};
use stillpoint::fence;

use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::report::OURS;

/// `light()` calls between two looks at the stop flag.
const BATCH: u32 = 1000;

/// The fence that a lane measures.
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
    pub(super) const ALL: [Self; 4] = [Self::Membarrier, Self::Signal, Self::Seqcst, Self::Syscall];

    /// Name of the system in the report.
    pub(super) fn system(self) -> &'static str {
        if self == Self::Syscall { "membarrier-syscall" } else { OURS }
    }

    /// Name of the backend, as the library spells it.
    pub(super) fn backend(self) -> &'static str {
        match self {
            Self::Membarrier | Self::Syscall => "membarrier",
            Self::Signal => "signal",
            Self::Seqcst => "seqcst",
        }
    }

    /// Checks in the child that this fence is the one in use.
    fn prepare(self) -> Hello {
        if self == Self::Syscall {
            let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            let missing = registered.err().map(|error| format!("membarrier is not available: {error}"));
            return Hello { missing };
        }
        let chosen = fence::backend().to_string();
        let missing = (chosen != self.backend())
            .then(|| format!("backend {} is not available here: {}", self.backend(), fence::report()));
        Hello { missing }
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

/// First message of the child.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    missing: Option<String>,
}

/// A measurement to make.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Load {
    /// Threads that execute light fences without a pause.
    pub(super) running: usize,
    /// Threads that call the heavy fence back to back.
    pub(super) callers: usize,
    /// How long.
    pub(super) time: Duration,
}

/// What a measurement gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Nanoseconds of a call.
    pub(super) heavy_ns: f64,
    /// Real fences for each call.
    pub(super) issued_per_call: f64,
}

/// The parent's end of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    role: Role,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    missing: Option<String>,
}

impl Lane {
    /// Starts the process of `role`.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started or does not say hello.
    pub(super) fn start(role: Role) -> anyhow::Result<Self> {
        let program = env::current_exe().context("cannot find this program to start it again")?;
        let mut child = Command::new(program)
            .args(["fence-lane", role_name(role)])
            .env("STILLPOINT_FENCE", role.backend())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process for a backend")?;
        let requests = child.stdin.take();
        let Some(answers) = child.stdout.take() else {
            bail!("a process for a backend has no output");
        };
        let mut lane = Self { role, child, requests, answers: BufReader::new(answers), missing: None };
        let hello: Hello = lane.receive()?;
        lane.missing = hello.missing;
        Ok(lane)
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Why this fence cannot be measured here, if it cannot.
    pub(super) fn missing(&self) -> Option<String> {
        self.missing.clone()
    }

    /// Makes one measurement.
    ///
    /// # Errors
    ///
    /// Fails if the child does.
    pub(super) fn measure(&mut self, load: &Load) -> anyhow::Result<Answer> {
        if let Some(requests) = &mut self.requests {
            let line = serde_json::to_string(load).context("cannot encode a request")?;
            writeln!(requests, "{line}").context("a process for a backend ended early")?;
        }
        self.receive()
    }

    fn receive<T: for<'de> Deserialize<'de>>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot hear the process for a backend")?;
        serde_json::from_str(&line)
            .with_context(|| format!("the process for {} failed; its message is above", role_name(self.role)))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // The end of its input ends the child.
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

fn role_name(role: Role) -> &'static str {
    if role == Role::Syscall { "syscall" } else { role.backend() }
}

/// Serve measurements of one kind of fence.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kind of fence.
    #[arg(value_enum)]
    role: Role,
}

/// The child: says hello and answers until its input ends.
///
/// # Errors
///
/// Fails if a measurement does, or the parent is gone.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    say(&args.role.prepare())?;
    for line in stdin().lines() {
        let load = serde_json::from_str(&line.context("cannot read a request")?).context("not a request")?;
        say(&measure(args.role, &load)?)?;
    }
    Ok(())
}

fn say(message: &impl Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(message).context("cannot encode an answer")?;
    writeln!(stdout(), "{line}").context("nobody listens to this process")
}

/// What the threads of a measurement wait for and look at.
#[derive(Debug, Default)]
struct Controls {
    ready: Arrivals,
    start: Gate,
    stop_callers: AtomicBool,
    stop_running: AtomicBool,
}

fn measure(role: Role, load: &Load) -> anyhow::Result<Answer> {
    let controls = Controls::default();
    thread::scope(|scope| {
        let answer = drive(scope, &controls, role, load);
        controls.stop_callers.store(true, Ordering::Relaxed);
        controls.stop_running.store(true, Ordering::Relaxed);
        controls.start.open();
        answer
    })
}

fn drive<'scope>(
    scope: &'scope Scope<'scope, '_>,
    controls: &'scope Controls,
    role: Role,
    load: &Load,
) -> anyhow::Result<Answer> {
    for _ in 0..load.running {
        crew::spawn(scope, move || run(controls, role))?;
    }
    let mut callers = Vec::new();
    for _ in 0..load.callers {
        callers.push(crew::spawn(scope, move || call(controls, role))?);
    }
    controls.ready.wait_for(load.running + load.callers);
    let before = fence::stats();
    controls.start.open();
    thread::sleep(load.time);
    controls.stop_callers.store(true, Ordering::Relaxed);
    let (mut calls, mut busy) = (0, Duration::ZERO);
    for caller in callers {
        let (its_calls, its_time) = crew::join(caller)??;
        calls += its_calls;
        busy += its_time;
    }
    let after = fence::stats();
    let issued = if role == Role::Syscall { calls } else { after.issued - before.issued };
    Ok(Answer {
        heavy_ns: busy.as_nanos() as f64 / calls as f64,
        issued_per_call: issued as f64 / calls as f64,
    })
}

/// A running thread: known to the library, so that its light fence is cheap on the signal backend too.
fn run(controls: &Controls, role: Role) {
    if role != Role::Syscall {
        fence::register_thread();
    }
    controls.ready.arrive();
    let mut count = 0_u32;
    while !controls.stop_running.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            count = black_box(count.wrapping_add(1));
            role.light();
        }
    }
}

/// A caller: its calls and the time they took.
fn call(controls: &Controls, role: Role) -> anyhow::Result<(u64, Duration)> {
    controls.ready.arrive();
    controls.start.wait();
    let start = Instant::now();
    let mut calls = 0_u64;
    while !controls.stop_callers.load(Ordering::Relaxed) || calls == 0 {
        role.heavy()?;
        calls += 1;
    }
    Ok((calls, start.elapsed()))
}
