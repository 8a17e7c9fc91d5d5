//! `stillpoint top`, from end to end: this program is the process too that it looks at.

use std::env;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use stillpoint::Domain as _;
use stillpoint::rcu::Limits;
use stillpoint::{domain, srcu, statistics_page};
use support::{child, deadline::deadline};

const INTERVAL: Duration = Duration::from_millis(10);

domain! {
    struct Blocked;
}
domain! {
    struct Stalled;
}

/// A process of this program, which runs one test as the process that is looked at.
struct Watched {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Watched {
    /// Starts `test` as that.
    fn start<T: Fn()>(_: T) -> Self {
        let (_, test) = std::any::type_name::<T>().split_once("::").expect("a function of the program");
        let mut command = Command::new(env::current_exe().expect("the test knows its file"));
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env("STILLPOINT_TEST_CHILD", "watched");
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the process starts");
        let output = BufReader::new(process.stdout.take().expect("it has an output"));
        Self { process, output }
    }

    /// Starts `test` as that, and returns when it says `ready`.
    fn ready<T: Fn()>(test: T) -> Self {
        let mut watched = Self::start(test);
        watched.read("ready");
        watched
    }

    /// Reads a line that begins so, and returns what follows.
    fn read(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.output.read_line(&mut line).expect("text"),
                0,
                "the process ended before {begin:?}"
            );
            if let Some((_, rest)) = line.trim_end().split_once(&format!("watched: {begin}")) {
                return rest.trim().to_owned();
            }
        }
    }

    fn top(&self, arguments: &[&str]) -> Output {
        top(self.process.id(), arguments)
    }

    /// Has the process continue.
    fn resume(&mut self) {
        self.process.stdin.as_mut().expect("it has an input").write_all(b"\n").expect("it reads");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn top(pid: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillpoint"));
    command.arg("top").arg(pid.to_string()).args(arguments);
    command.output().expect("the command starts")
}

fn is_watched() -> bool {
    child::variant().as_deref() == Some("watched")
}

/// Tells the parent something, by a line.
fn say(what: &str) {
    println!("\nwatched: {what}");
}

/// Waits until the parent has this process continue.
fn pause() {
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).expect("the parent lives");
}

fn publish() {
    statistics_page::publish(INTERVAL).expect("a page");
}

#[track_caller]
fn json(output: &Output) -> Vec<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = std::str::from_utf8(&output.stdout).expect("text").lines();
    lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[track_caller]
fn refusal(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn domain<'a>(sample: &'a Value, name: &str) -> &'a Value {
    let domains = sample["domains"].as_array().expect("a list");
    let mut found = domains.iter().filter(|domain| domain["name"].as_str().expect("a name").ends_with(name));
    found.next().unwrap_or(&Value::Null)
}

/// A thread in a section, a callback that blocks, a backlog, a leaked guard.
fn busy() {
    let (entered, enters) = mpsc::channel();
    thread::Builder::new()
        .name("slow reader".into())
        .spawn(move || {
            let _guard = Stalled::enter();
            entered.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("the test waits");
            loop {
                thread::park();
            }
        })
        .expect("a thread");
    say(&format!("reader {}", enters.recv().expect("it enters")));
    thread::spawn(|| Stalled.synchronize());
    Stalled.set_limits(Limits { count: 1000, bytes: 1 << 20, ..Limits::default() });
    for _ in 0..100 {
        Stalled.call(|| ());
    }
    let (blocked, blocks) = mpsc::channel();
    Blocked.call(move || {
        blocked.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("the test waits");
        loop {
            thread::park();
        }
    });
    say(&format!("worker {}", blocks.recv().expect("it runs")));
    static VALUE: srcu::Domain = srcu::Domain::new();
    std::mem::forget(VALUE.enter());
    thread::spawn(|| VALUE.synchronize());
    publish();
    say("ready");
    pause();
}

#[test]
fn json_names_the_stalled_thread_the_blocked_worker_and_the_backlog() {
    if is_watched() {
        return busy();
    }
    let _running = deadline();
    let mut watched = Watched::start(json_names_the_stalled_thread_the_blocked_worker_and_the_backlog);
    let id = |text: String| text.parse::<u64>().expect("a thread id");
    let (reader, worker) = (id(watched.read("reader")), id(watched.read("worker")));
    watched.read("ready");
    // The grace periods that were begun last may not wait yet.
    let sample = loop {
        let samples = json(&watched.top(&["--json", "--count", "1"]));
        let [sample] = samples.try_into().expect("one sample");
        let waits = |name| !domain(&sample, name)["grace_period"]["waited"].is_null();
        if waits("Stalled") && waits("srcu::Domain") {
            break sample;
        }
    };
    assert_eq!(sample["pid"], watched.process.id());
    let stalled = domain(&sample, "::Stalled");
    let threads = &stalled["grace_period"]["threads"];
    assert_eq!(stalled["grace_period"]["readers"], 1, "{sample}");
    assert_eq!(threads[0]["id"], reader, "{sample}");
    assert_eq!(threads[0]["name"], "slow reader");
    assert!(threads[0]["registered_at"].as_str().is_some_and(|place| place.contains("top.rs")), "{sample}");
    assert_eq!(stalled["stats"]["queued"], 100);
    assert_eq!(stalled["limits"]["count"], 1000);
    let blocked = &domain(&sample, "::Blocked")["worker"];
    assert_eq!((&blocked["state"], &blocked["thread"]), (&"running".into(), &worker.into()), "{sample}");
    assert_eq!(domain(&sample, "srcu::Domain")["grace_period"]["readers"], 1, "{sample}");
    assert!(sample["fence"]["backend"].is_string(), "{sample}");

    let shown = watched.top(&["--count", "2", "--interval", "0.05"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains(&format!("thread {reader} (slow reader) holds up grace period")), "{shown}");
    assert_eq!(shown.matches("process ").count(), 2, "{shown}");
    assert!(!shown.contains('\u{1b}'), "no terminal, no escapes: {shown:?}");
}

#[test]
fn process_that_ends_ends_the_command_after_its_samples() {
    if is_watched() {
        publish();
        say("ready");
        pause();
        std::process::exit(0);
    }
    let _running = deadline();
    let mut watched = Watched::ready(process_that_ends_ends_the_command_after_its_samples);
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillpoint"));
    let pid = watched.process.id();
    command
        .args(["top", "--json", "--interval", "0.01"])
        .arg(pid.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut command = command.spawn().expect("the command starts");
    let mut line = String::new();
    let mut output = BufReader::new(command.stdout.take().expect("it has an output"));
    for _ in 0..3 {
        assert_ne!(output.read_line(&mut line).expect("text"), 0, "a sample");
    }
    watched.resume();
    // Else a pipe that is full would stop it.
    output.read_to_string(&mut line).expect("text");
    let ended = command.wait_with_output().expect("the command ends");
    assert!(ended.status.success());
    assert_eq!(String::from_utf8_lossy(&ended.stderr), format!("process {pid} has ended\n"));
    // Reaped only now: before, it was a zombie.
    assert!(refusal(&watched.top(&[])).contains("has ended"));
    watched.process.wait().expect("it has ended");
    let refused = refusal(&watched.top(&[]));
    assert!(refused.contains(&format!("there is no process {pid}")), "{refused}");
}

#[test]
fn process_without_a_page_is_refused_with_what_to_do() {
    if is_watched() {
        say("ready");
        return pause();
    }
    let _running = deadline();
    let watched = Watched::ready(process_without_a_page_is_refused_with_what_to_do);
    let refused = refusal(&watched.top(&[]));
    assert!(
        refused.contains("publishes no statistics: it must call stillpoint::statistics_page::publish"),
        "{refused}"
    );
}

/// Makes a file in memory that has the name of a page.
fn hostile(contents: &[u8]) -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create(c"stillpoint-statistics", flags).expect("a file");
    let mut file = File::from(file);
    file.write_all(contents).expect("there is memory");
    file
}

#[test]
fn page_of_the_future_is_refused_and_a_hostile_one_printable() {
    if is_watched() {
        publish();
        let own = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten().find(|entry| {
            std::fs::read_link(entry.path())
                .is_ok_and(|link| link.to_string_lossy().contains("stillpoint-statistics"))
        });
        let own = own.expect("a page").path();
        let mut page = std::fs::read(&own).expect("it can be read");
        let number = own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a descriptor");
        // SAFETY: nothing in this process reads the page.
        assert_eq!(unsafe { libc::close(number) }, 0);
        let mut future = page.clone();
        future[8..12].copy_from_slice(&2u32.to_ne_bytes());
        future[16..32].copy_from_slice(b"9.8.7\0\0\0\0\0\0\0\0\0\0\0");
        let file = hostile(&future);
        say("ready");
        pause();
        drop(file);
        // The sample in slot 1.
        page[32..40].copy_from_slice(&1u64.to_ne_bytes());
        let text = b"{\"library\":\"\\u001b[31m\xc2\x9b2J\"}";
        page[4096 + (128 << 10)..][..8].copy_from_slice(&(text.len() as u64).to_ne_bytes());
        page[4096 + (128 << 10) + 8..][..text.len()].copy_from_slice(text);
        let _page = hostile(&page);
        say("ready");
        return pause();
    }
    let _running = deadline();
    let mut watched = Watched::ready(page_of_the_future_is_refused_and_a_hostile_one_printable);
    let refused = refusal(&watched.top(&["--json"]));
    assert!(
        refused
            .contains("has layout 2, and this command reads layout 1: use the command of stillpoint 9.8.7"),
        "{refused}"
    );
    watched.resume();
    watched.read("ready");
    for format in [&["--count", "1"][..], &["--count", "1", "--json"]] {
        let shown = watched.top(format);
        assert!(shown.status.success());
        let shown = String::from_utf8(shown.stdout).expect("text");
        assert!(shown.contains("[31m") && !shown.chars().any(|c| c != '\n' && c.is_control()), "{shown:?}");
    }
}

#[test]
fn page_survives_a_program_that_closes_all_descriptors() {
    if is_watched() {
        publish();
        // Not those of the test's own output and input.
        for number in 3..64 {
            // SAFETY: what daemons do; this process is alone, and uses none of these.
            let _ = unsafe { libc::close(number) };
        }
        let files: Vec<_> = (0..16).map(|_| hostile(b"of the program")).collect();
        for _ in 0..10 {
            publish();
        }
        for file in &files {
            let mut contents = String::new();
            let mut file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("still open");
            file.read_to_string(&mut contents).expect("text");
            assert_eq!(contents, "of the program");
        }
        drop(files);
        say("ready");
        return pause();
    }
    let _running = deadline();
    let watched = Watched::ready(page_survives_a_program_that_closes_all_descriptors);
    assert_eq!(json(&watched.top(&["--json", "--count", "3", "--interval", "0.02"])).len(), 3);
}
