//! A process of this program that measures on request.
//!
//! A process chooses its fence backend once, and its registries keep the size they once had, so what differs in these
//! is measured in processes of their own: *workers*. The parent starts its own program again with the hidden
//! subcommand `worker`. Parent and child exchange JSON, one line a message: the child says hello, answers each
//! request, and ends with its standard input. A worker sleeps while another one measures.

use std::env;
use std::io::{BufRead as _, BufReader, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::plan::System;
use super::report::Skipped;

/// A system that workers measure; `Q` is a request, `A` an answer.
pub struct Remote<Q, A> {
    /// Name of the system in the report.
    pub system: &'static str,
    /// Name on the command line of the worker.
    pub name: &'static str,
    /// The fence backend that the worker runs on, if not that of this process.
    pub backend: Option<&'static str>,
    /// Measures in the worker.
    pub measure: fn(Q) -> anyhow::Result<A>,
}

impl<Q: DeserializeOwned, A: Serialize> Remote<Q, A> {
    /// Starts a worker of `kind` for each system that is available here. Returns the reasons for the others, too.
    pub fn start(kind: &str, remotes: &[Self]) -> anyhow::Result<(Vec<System<Worker>>, Vec<Skipped>)> {
        let (mut workers, mut skipped) = (Vec::new(), Vec::new());
        for remote in remotes {
            let worker = Worker::start(&[kind, remote.name], remote.backend)?;
            match worker.missing() {
                None => workers.push(System { name: remote.system, measure: worker }),
                Some(why) => skipped.push(Skipped { system: remote.system.into(), why: why.to_owned() }),
            }
        }
        Ok((workers, skipped))
    }

    /// Runs the child: measures the system that `args` names.
    pub fn serve(remotes: &[Self], args: &Args) -> anyhow::Result<()> {
        let remote = remotes.iter().find(|remote| remote.name == args.name).context("no such system")?;
        serve(remote.backend.and_then(lacks_backend), remote.measure)
    }
}

/// Arguments of a worker.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The system.
    pub name: String,
}

/// First message of the child.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    missing: Option<String>,
}

/// The parent's end of a worker.
#[derive(Debug)]
pub struct Worker {
    name: String,
    backend: String,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    missing: Option<String>,
}

impl Worker {
    /// Starts this program with the subcommand `worker` and `arguments`, on a `backend` of the fence if one is given.
    pub fn start(arguments: &[&str], backend: Option<&str>) -> anyhow::Result<Self> {
        Self::launch(Command::new(program()?), arguments, backend)
    }

    /// [`start`](Self::start), for a child to which a system call is denied, as in sandboxes.
    pub fn start_without(syscall: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let program = program()?;
        let mut command = Command::new(&program);
        command.args(["seccomp-deny", syscall, "--"]).arg(&program);
        Self::launch(command, arguments, None)
    }

    /// [`start`](Self::start), of another program in the folder of this one.
    pub fn start_beside(name: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let program = program()?.with_file_name(name);
        let build = "cargo build --profile bench --package stillpoint-posts";
        anyhow::ensure!(program.exists(), "the program {name} is not built: {build}");
        Self::launch(Command::new(program), arguments, None)
    }

    fn launch(mut command: Command, arguments: &[&str], backend: Option<&str>) -> anyhow::Result<Self> {
        command.arg("worker").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(backend) = backend {
            command.env("STILLPOINT_FENCE", backend);
        }
        let name = arguments.join(" ");
        let mut child = command.spawn().with_context(|| format!("cannot start the worker {name}"))?;
        let (requests, answers) =
            (child.stdin.take(), child.stdout.take().context("a worker has no output")?);
        let (backend, answers) = (backend.unwrap_or_default().to_owned(), BufReader::new(answers));
        let mut worker = Self { name, backend, child, requests, answers, missing: None };
        worker.missing = worker.answer::<Hello>()?.missing;
        Ok(worker)
    }

    /// Returns why the child cannot measure here, if it cannot.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Returns the fence backend that was chosen for the worker.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Asks for a measurement and returns at once. [`Worker::answer`] must follow.
    pub fn ask(&mut self, request: &impl Serialize) -> anyhow::Result<()> {
        let Some(requests) = &mut self.requests else { return Ok(()) };
        send(requests, request).with_context(|| format!("the worker {} ended early", self.name))
    }

    /// Waits for the answer to the last request.
    pub fn answer<A: DeserializeOwned>(&mut self) -> anyhow::Result<A> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .with_context(|| format!("cannot read from the worker {}", self.name))?;
        serde_json::from_str(&line)
            .with_context(|| format!("the worker {} failed; its message is above", self.name))
    }

    /// Makes one measurement.
    pub fn measure<A: DeserializeOwned>(&mut self, request: &impl Serialize) -> anyhow::Result<A> {
        self.ask(request)?;
        self.answer()
    }
}

/// Returns this program.
fn program() -> anyhow::Result<PathBuf> {
    env::current_exe().context("cannot find this program to start it again")
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input ends the child.
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

/// Runs the child: says hello, with the reason if it cannot measure here, and answers until its input ends.
pub fn serve<Q: DeserializeOwned, A: Serialize>(
    missing: Option<String>,
    mut measure: impl FnMut(Q) -> anyhow::Result<A>,
) -> anyhow::Result<()> {
    send(&mut stdout(), &Hello { missing })?;
    for line in stdin().lines() {
        let request = serde_json::from_str(&line?).context("not a request")?;
        send(&mut stdout(), &measure(request)?).context("the parent has ended")?;
    }
    Ok(())
}

fn send(to: &mut impl Write, message: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(to, "{}", serde_json::to_string(message)?)?)
}

/// Returns why this process does not run on the `wanted` backend, if it does not.
pub fn lacks_backend(wanted: &str) -> Option<String> {
    let report = stillpoint::fence::report();
    (report.backend().to_string() != wanted)
        .then(|| format!("backend {wanted} is not available here: {report}"))
}
