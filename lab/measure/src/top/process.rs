//! Finds the page of statistics of a process: by the links in `/proc/PID/fd`.
//!
//! The process is not stopped, traced or asked. A descriptor may be closed, and its number given to another file,
//! while it is looked at. So the file that a link leads to is looked at without opening it (`O_PATH`), and opened
//! only if it is an ordinary one: opening a device or a pipe could have effects.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;
use serde_json::Value;

use super::{document, page};

/// What the link of a page says.
const LINK: &[u8] = b"/memfd:stillpoint-statistics (deleted)";

/// A process, or what is left of it: no other process takes its place when it has ended.
pub(super) struct Process {
    pid: u32,
    /// `/proc/PID`.
    folder: OwnedFd,
}

impl Process {
    pub(super) fn open(pid: u32) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open(format!("/proc/{pid}"), flags, Mode::empty()) {
            Ok(folder) => Ok(Self { pid, folder }),
            Err(Errno::NOENT) if statat(CWD, "/proc/self", AtFlags::empty()).is_err() => {
                bail!("/proc is not there, by which processes are found")
            }
            Err(Errno::NOENT) => bail!("there is no process {pid}"),
            Err(error) => Err(error).with_context(|| format!("cannot find process {pid}")),
        }
    }

    /// Returns the contents of a file in the folder of the process.
    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        let file = openat(&self.folder, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut contents = Vec::new();
        File::from(file).take(64 << 10).read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// Returns `true` until the process has ended.
    pub(super) fn is_alive(&self) -> bool {
        // The state follows the name, which may contain anything.
        let state = |stat: Vec<u8>| {
            let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
            stat.get(end_of_name + 2).copied()
        };
        self.read("stat").ok().and_then(state).is_some_and(|state| !b"ZXx".contains(&state))
    }

    /// Returns the name of the process, as `ps` shows it.
    pub(super) fn name(&self) -> Option<String> {
        let name = self.read("comm").ok()?;
        Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
    }

    /// Returns `true` if a sample is of this process, or does not say. The page of another one may be open here. A
    /// process knows its id in its own namespace.
    fn is_of(&self, sample: &Value) -> bool {
        let own_id = || {
            let status = String::from_utf8_lossy(&self.read("status").ok()?).into_owned();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.to_owned();
            ids.split_whitespace().last()?.parse::<u64>().ok()
        };
        sample["pid"].as_u64().is_none_or(|pid| pid == own_id().unwrap_or(self.pid.into()))
    }

    /// Returns the page of the process: the first, if it contains the library more than once.
    pub(super) fn page(&self) -> Result<File> {
        let (pid, mut refused) = (self.pid, None);
        for page in self.pages()? {
            match page::read(&page).and_then(|sample| document::parse(&sample.text)) {
                Ok(sample) if self.is_of(&sample) => return Ok(page),
                Ok(_) => {}
                Err(error) => refused = Some(error),
            }
        }
        if !self.is_alive() {
            bail!("process {pid} has ended");
        }
        Err(match refused {
            Some(error) => error.context(format!("cannot read the statistics of process {pid}")),
            None => anyhow!(
                "process {pid} publishes no statistics: it must call stillpoint::statistics_page::publish (feature \
                 `statistics-page` of the library), and so must the child of a fork"
            ),
        })
    }

    /// Returns all pages that the process has.
    fn pages(&self) -> Result<Vec<File>> {
        let pid = self.pid;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(&self.folder, "fd", flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ACCESS | Errno::PERM) => bail!(
                "no permission to look at process {pid}: run this as its user, or as root (or with the capability \
                 CAP_SYS_PTRACE)"
            ),
            Err(Errno::NOENT | Errno::SRCH) => bail!("process {pid} has ended"),
            Err(error) => return Err(error).with_context(|| format!("cannot look at process {pid}")),
        };
        let mut pages = Vec::new();
        for entry in Dir::read_from(&folder).with_context(|| format!("cannot look at process {pid}"))? {
            let entry = entry.with_context(|| format!("cannot look at process {pid}"))?;
            // What cannot be looked at has been closed since.
            let link = readlinkat(&folder, entry.file_name(), Vec::new());
            if link.is_ok_and(|link| link.as_bytes() == LINK) {
                pages.extend(open_page(&folder, entry.file_name())?);
            }
        }
        Ok(pages)
    }
}

/// Opens the file of a link. Returns `None` if that has changed since.
fn open_page(folder: &OwnedFd, name: &CStr) -> Result<Option<File>> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(link) = openat(folder, name, path, Mode::empty()) else { return Ok(None) };
    if FileType::from_raw_mode(fstat(&link)?.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let again = format!("/proc/self/fd/{}", link.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(again, flags, Mode::empty()).context("cannot open the page of statistics")?;
    Ok(Some(file.into()))
}
