//! The live demo, on a terminal of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use support::deadline::deadline;

/// Runs the command on a pseudo-terminal, and presses a key each time its output has a text. Returns the output.
fn on_terminal(arguments: &[&str], keys: &[(&str, &str)]) -> String {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let terminal = openpt(flags).expect("a terminal");
    grantpt(&terminal).expect("it may be used");
    unlockpt(&terminal).expect("it may be used");
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).expect("a size");
    let child: OwnedFd = ioctl_tiocgptpeer(&terminal, flags).expect("its other end");
    let end = || child.try_clone().expect("another descriptor");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillpoint"));
    command.args(arguments).env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end());
    let mut running = command.spawn().expect("the program starts");
    drop((command, child));
    let (mut terminal, mut output, mut shown) = (File::from(terminal), String::new(), 0);
    let (mut keys, mut bytes) = (keys.iter().peekable(), [0; 4096]);
    // An error once the program has ended.
    while let Ok(count @ 1..) = terminal.read(&mut bytes) {
        output.push_str(&String::from_utf8_lossy(&bytes[..count]));
        while let Some((_, key)) = keys.next_if(|(text, _)| output[shown..].contains(text)) {
            shown = output.len();
            terminal.write_all(key.as_bytes()).expect("the terminal takes keys");
        }
    }
    assert!(running.wait().expect("it ends").success(), "{output}");
    assert!(keys.next().is_none(), "{output}");
    output
}

const ALTERNATE: &str = "\x1b[?1049h";
const MAIN: &str = "\x1b[?1049l";

#[test]
fn live_demo_shows_stores_obeys_keys_and_restores_the_terminal() {
    let _running = deadline();
    let keys = [("lookups/s", "s"), ("crossbeam-epoch", "q")];
    let output = on_terminal(&["demo"], &keys);
    let (_, shown) = output.split_once(ALTERNATE).expect("it takes over the terminal");
    let (_, after) = shown.split_once(MAIN).expect("it gives the terminal back");
    assert!(after.contains("stillpoint demo --seconds"), "{after}");
}

#[test]
fn demo_with_seconds_prints_tables_on_a_terminal() {
    let _running = deadline();
    let output = on_terminal(&["demo", "--seconds", "1"], &[]);
    assert!(
        output.contains("Longest-prefix match on 100000 IPv4 prefixes") && !output.contains(ALTERNATE),
        "{output}"
    );
}
