//! The live demo, on a terminal of its own.

use std::io::{Read as _, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

const LIMIT: Duration = Duration::from_secs(120);
const SIZE: PtySize = PtySize { rows: 30, cols: 100, pixel_width: 0, pixel_height: 0 };

/// A pseudo-terminal on which the demo runs.
struct Terminal {
    parser: Parser,
    output: Receiver<Vec<u8>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    _master: Box<dyn MasterPty + Send>,
    deadline: Instant,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Self {
        let pty = native_pty_system().openpty(SIZE).expect("a terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_stillpoint"));
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        let child = pty.slave.spawn_command(command).expect("the program starts");
        let mut reader = pty.master.try_clone_reader().expect("the terminal can be read");
        let keys = pty.master.take_writer().expect("the terminal takes keys");
        let (sent, output) = mpsc::channel();
        // Ends with the terminal.
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sent.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let parser = Parser::new(SIZE.rows, SIZE.cols, 0);
        Self { parser, output, keys, child, _master: pty.master, deadline: Instant::now() + LIMIT }
    }

    /// Reads output until the screen satisfies `is_there`.
    fn wait_for(&mut self, what: &str, is_there: impl Fn(&vt100::Screen) -> bool) {
        while !is_there(self.parser.screen()) {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(why) => {
                    let ended =
                        if why == RecvTimeoutError::Disconnected { "the demo ended" } else { "it timed out" };
                    panic!("waited for {what}: {ended}\n{}", self.parser.screen().contents());
                }
            }
        }
    }

    fn wait_for_text(&mut self, text: &str) {
        self.wait_for(text, |screen| screen.contents().contains(text));
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).expect("the terminal takes keys");
        self.keys.flush().expect("the terminal takes keys");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // For a test that fails; otherwise the demo has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the word behind `name`.
fn word<'a>(contents: &'a str, name: &str) -> &'a str {
    let (_, rest) = contents.split_once(name).unwrap_or_default();
    rest.split_whitespace().next().unwrap_or_default()
}

#[test]
fn live_demo_obeys_keys_and_restores_the_terminal() {
    let mut terminal = Terminal::start(&["demo", "--prefixes", "1000"]);
    terminal.wait_for_text("synchronization stillpoint");
    // Reads, updates and grace periods happen.
    terminal.wait_for_text("lookups/s");
    terminal.wait_for("a histogram", |screen| screen.contents().contains('%'));
    assert!(terminal.parser.screen().alternate_screen());

    terminal.wait_for_text("(1 per CPU)");
    terminal.press("+");
    terminal.wait_for_text("(2 per CPU)");
    terminal.press("-");
    terminal.wait_for_text("(1 per CPU)");

    let fence = word(&terminal.parser.screen().contents(), "fence ").to_owned();
    terminal.press("b");
    terminal.wait_for("another fence", |screen| {
        let contents = screen.contents();
        // An unavailable backend is skipped, which may lead back to the first.
        contents.contains("not available") || !["", fence.as_str()].contains(&word(&contents, "fence "))
    });

    terminal.press("s");
    terminal.wait_for_text("synchronization crossbeam-epoch");
    terminal.wait_for_text("no grace periods");

    terminal.press("q");
    terminal.wait_for_text("stillpoint demo --seconds");
    assert!(!terminal.parser.screen().alternate_screen());
    assert!(terminal.child.wait().expect("the demo ends").success());
}

#[test]
fn demo_with_seconds_prints_tables_on_a_terminal() {
    let mut terminal = Terminal::start(&["demo", "--prefixes", "100", "--seconds", "1"]);
    terminal.wait_for_text("Longest-prefix match on 100 prefixes");
    assert!(!terminal.parser.screen().alternate_screen());
}
