//! The facts about the machine, without which a result says nothing.

use std::borrow::Cow;
use std::fs;

use super::pin;

/// The machine of a run.
#[derive(Debug, PartialEq)]
#[cfg_attr(feature = "measure", derive(serde::Serialize, serde::Deserialize))]
pub struct Machine {
    /// Model name of the CPU.
    pub cpu: String,
    /// Architecture the program was compiled for.
    pub arch: Cow<'static, str>,
    /// Number of CPUs that this process may use.
    pub cpus: usize,
    /// CPUs that may ever exist, as a list like `0-3`.
    pub possible: String,
    /// `true` if a hypervisor announces itself, on architectures where it can.
    pub virtual_machine: bool,
    /// Kernel release and version.
    pub kernel: String,
    /// The fence backend of the library.
    pub fence: String,
    /// Version of the library.
    pub stillpoint: Cow<'static, str>,
}

impl Machine {
    /// Reads the facts; a missing one is `unknown`.
    pub fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let uname = rustix::system::uname();
        let kernel = format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy());
        Self {
            cpu: field("model name").unwrap_or_else(|| "unknown".into()),
            arch: std::env::consts::ARCH.into(),
            cpus: pin::allowed().map_or(0, |cpus| cpus.len()),
            possible: cpu_list("possible").unwrap_or_else(|| "unknown".into()),
            virtual_machine: field("flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor")),
            kernel,
            fence: stillpoint::fence::report().backend().to_string(),
            stillpoint: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Returns a CPU list of the kernel (`possible`, `online`, `isolated`, `nohz_full`); `None` if it is empty or
/// missing.
pub fn cpu_list(name: &str) -> Option<String> {
    let list = fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).ok()?;
    let list = list.trim();
    (!list.is_empty() && list != "(null)").then(|| list.to_owned())
}
