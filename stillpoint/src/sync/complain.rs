//! Messages on the standard error.

use core::fmt::{self, Write as _};

use super::write_error;

/// A message, as far as it has not been written.
struct Message {
    text: [u8; 1024],
    len: usize,
}

impl Message {
    fn flush(&mut self) {
        write_error(&self.text[..self.len]);
        self.len = 0;
    }
}

impl fmt::Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.len == self.text.len() {
                self.flush();
            }
            self.text[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Writes `stillpoint: ` and the message, at once unless it is long, so that no other thread's output comes in between.
/// Allocates nothing; and unlike `eprintln!` does not panic if it cannot write.
#[cold]
pub fn complain(message: fmt::Arguments<'_>) {
    let mut line = Message { text: [0; 1024], len: 0 };
    let _ = writeln!(line, "stillpoint: {message}");
    line.flush();
}
