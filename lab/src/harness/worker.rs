//! A process of this program that measures on request.
//!
//! Some choices are made once a process (the backend of the fence) and some states never go away (a registry keeps the
//! size it once had), so what differs in them is measured in processes of its own: *workers*. The parent starts its own
//! program again with the hidden subcommand `worker`. Parent and child speak JSON, one line a message: the child says
//! hello, answers each request, and ends with its standard input. A worker sleeps while another one measures.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::report::Skipped;

/// What the workers of a measurement differ in.
pub(crate) trait Role: Copy {
    /// Name of the system in the report.
    fn system(self) -> &'static str;

    /// The subcommand of `worker` and its argument.
    fn command(self) -> [&'static str; 2];

    /// The backend of the fence that the worker runs on, if not that of this process.
    fn fence(self) -> Option<&'static str>;
}

/// Workers, each with its role.
pub(crate) type Workers<R> = Vec<(R, Worker)>;

/// A worker for each role that can be had here, and the reasons for the others.
pub(crate) fn start<R: Role>(roles: &[R]) -> anyhow::Result<(Workers<R>, Vec<Skipped>)> {
    let mut workers = Vec::new();
    let mut skipped = Vec::new();
    for &role in roles {
        let worker = Worker::start(&role.command(), role.fence())?;
        match &worker.missing {
            None => workers.push((role, worker)),
            Some(why) => skipped.push(Skipped { system: role.system().into(), why: why.clone() }),
        }
    }
    Ok((workers, skipped))
}

/// First message of the child.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    missing: Option<String>,
}

/// The parent's end of a worker.
#[derive(Debug)]
pub(crate) struct Worker {
    name: String,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    missing: Option<String>,
}

impl Worker {
    /// Starts this program with the subcommand `worker` and `arguments`; if `backend` is given, on that backend of the fence.
    pub(crate) fn start(arguments: &[&str], backend: Option<&str>) -> anyhow::Result<Self> {
        Self::start_with(arguments, backend, Stdio::inherit())
    }

    /// [`start`](Self::start), without what the child says on its standard error: for a parent that draws on the terminal.
    pub(crate) fn start_silent(arguments: &[&str], backend: Option<&str>) -> anyhow::Result<Self> {
        Self::start_with(arguments, backend, Stdio::null())
    }

    fn start_with(arguments: &[&str], backend: Option<&str>, errors: Stdio) -> anyhow::Result<Self> {
        let program = env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Command::new(program);
        command.arg("worker").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        if let Some(backend) = backend {
            command.env("STILLPOINT_FENCE", backend);
        }
        let name = arguments.join(" ");
        let mut child = command.spawn().with_context(|| format!("cannot start the worker {name}"))?;
        let requests = child.stdin.take();
        let Some(answers) = child.stdout.take() else {
            bail!("the worker {name} has no output");
        };
        let mut worker = Self { name, child, requests, answers: BufReader::new(answers), missing: None };
        let hello: Hello = worker.answer()?;
        worker.missing = hello.missing;
        Ok(worker)
    }

    /// Why the child cannot measure here, if it cannot.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Asks for a measurement and returns at once. [`Worker::answer`] must follow.
    pub(crate) fn ask(&mut self, request: &impl Serialize) -> anyhow::Result<()> {
        let Some(requests) = &mut self.requests else { return Ok(()) };
        let line = serde_json::to_string(request).context("cannot encode a request")?;
        writeln!(requests, "{line}").with_context(|| format!("the worker {} ended early", self.name))
    }

    /// Waits for the answer to the last request.
    pub(crate) fn answer<A: DeserializeOwned>(&mut self) -> anyhow::Result<A> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .with_context(|| format!("cannot read from the worker {}", self.name))?;
        serde_json::from_str(&line)
            .with_context(|| format!("the worker {} failed; its message is above", self.name))
    }

    /// Makes one measurement.
    pub(crate) fn measure<A: DeserializeOwned>(&mut self, request: &impl Serialize) -> anyhow::Result<A> {
        self.ask(request)?;
        self.answer()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input ends the child.
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

/// The child: says hello, with the reason if it cannot measure here, and answers until its input ends.
pub(crate) fn serve<R: DeserializeOwned, A: Serialize>(
    missing: Option<String>,
    mut measure: impl FnMut(R) -> anyhow::Result<A>,
) -> anyhow::Result<()> {
    send(&Hello { missing })?;
    for line in stdin().lines() {
        let line = line.context("cannot read a request")?;
        let request = serde_json::from_str(&line).context("not a request")?;
        send(&measure(request)?)?;
    }
    Ok(())
}

fn send(message: &impl Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(message).context("cannot encode an answer")?;
    writeln!(stdout(), "{line}").context("the parent has gone")
}

/// Why this process does not run on the `wanted` backend, if it does not.
pub(crate) fn lacks_backend(wanted: &str) -> Option<String> {
    let report = stillpoint::fence::report();
    (report.backend().to_string() != wanted)
        .then(|| format!("backend {wanted} is not available here: {report}"))
}
