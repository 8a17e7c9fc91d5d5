//! The live demo, on a terminal of its own.

use std::io::{Read as _, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

const LIMIT: Duration = Duration::from_secs(120);
const SIZE: PtySize = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };

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

#[test]
fn live_demo_shows_stores_in_turn_obeys_keys_and_restores_the_terminal() {
    let mut terminal = Terminal::start(&["demo", "--prefixes", "1000"]);
    terminal.wait_for_text("synchronization stillpoint  readers");
    assert!(terminal.parser.screen().alternate_screen());
    // Reads and updates happen, of one store after the other.
    terminal.wait_for_text("synchronization std-mutex");
    terminal.wait_for("the figures of all stores", |screen| {
        let screen = screen.contents();
        // The last column is of bytes.
        let is_filled = |line: &&str| line.trim_end_matches(['\u{2502}', ' ']).ends_with('B');
        screen.contains("synchronization stillpoint  readers")
            && screen.lines().rev().take(8).filter(is_filled).count() == 5
    });

    terminal.press("+");
    terminal.wait_for_text("(2 per CPU)");
    terminal.press("-");
    terminal.wait_for_text("(1 per CPU)");
    terminal.press("s");
    terminal.wait_for_text("synchronization crossbeam-epoch");
    assert!(!terminal.parser.screen().contents().contains("fence"));

    terminal.press("q");
    terminal.wait_for_text("stillpoint demo --seconds");
    assert!(!terminal.parser.screen().alternate_screen());
    assert!(terminal.child.wait().expect("the demo ends").success());
}

#[test]
fn demo_with_seconds_prints_tables_on_a_terminal() {
    let mut terminal = Terminal::start(&["demo", "--prefixes", "100", "--seconds", "1"]);
    terminal.wait_for_text("Longest-prefix match on 100 IPv4 prefixes");
    assert!(!terminal.parser.screen().alternate_screen());
}
