//! Lines on the standard error, made without memory. The system calls are raw: the C library's functions are
//! cancellation points, and a thread that waits for a grace period is not cancelled.

use core::fmt::{self, Write as _};

/// A line that is cut off at its end.
struct Line {
    text: [u8; 200],
    len: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        // One byte is left for the end of the line.
        let room = &mut self.text[self.len..199];
        let len = s.len().min(room.len());
        room[..len].copy_from_slice(&s.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// Writes `stillpoint: `, the text, and the end of the line.
#[cold]
pub fn report(text: fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 200], len: 0 };
    let _ = line.write_fmt(format_args!("stillpoint: {text}"));
    line.text[line.len] = b'\n';
    // SAFETY: the buffer outlives the call. There is nothing to do about an error.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, line.text.as_ptr(), line.len + 1) };
}

/// A thread of this process by its id. `Display` adds its name.
#[derive(Debug)]
pub struct Thread(pub u32);

impl Thread {
    /// Returns the calling thread.
    pub fn current() -> Self {
        // SAFETY: has no preconditions.
        Self(unsafe { libc::syscall(libc::SYS_gettid) } as u32)
    }

    /// Reads the name into the buffer. Returns its length.
    fn name(&self, name: &mut [u8; 16]) -> usize {
        let mut path = Line { text: [0; 200], len: 0 };
        let _ = write!(path, "/proc/self/task/{}/comm\0", self.0);
        // SAFETY: the path ends with a zero, and the buffers outlive the calls.
        unsafe {
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.text.as_ptr(), flags);
            if file < 0 {
                return 0;
            }
            let read = libc::syscall(libc::SYS_read, file, name.as_mut_ptr(), name.len());
            libc::syscall(libc::SYS_close, file);
            // The last byte is the end of the line.
            usize::try_from(read).unwrap_or(0).saturating_sub(1)
        }
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = [0; 16];
        let len = self.name(&mut name);
        write!(f, "thread {}", self.0)?;
        match core::str::from_utf8(&name[..len]) {
            Ok(name) if !name.is_empty() => write!(f, " ({name})"),
            _ => Ok(()),
        }
    }
}
