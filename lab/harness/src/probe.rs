//! `probe`: what this machine offers, what the library chose, and what that costs here.

use std::fs;
use std::hint::spin_loop;
use std::io;
use std::ptr;
use std::time::Instant;

use stillpoint::fence;

use crate::controls::Controls;
use crate::cpus::{Meter as _, Spinners, most};
use crate::machine::{Machine, cpu_list};
use crate::{crew, pin, units};

/// Commands of `membarrier(2)`, by bit of its query.
const COMMANDS: [&str; 9] = [
    "global",
    "global-expedited",
    "register-global-expedited",
    "private-expedited",
    "register-private-expedited",
    "private-expedited-sync-core",
    "register-private-expedited-sync-core",
    "private-expedited-rseq",
    "register-private-expedited-rseq",
];

/// Asks for the registrations of this process (Linux 6.3).
const GET_REGISTRATIONS: libc::c_int = 1 << 9;

/// Size of the part of an rseq area that the kernel uses (Linux 6.3).
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

/// Prints what was found.
pub fn run() -> anyhow::Result<()> {
    for (name, value) in facts()? {
        println!("{name:<12} {value}");
    }
    Ok(())
}

/// Returns what was found, by name; the name of a detail is indented.
///
/// # Errors
///
/// Returns an error if a thread cannot be started.
pub fn facts() -> anyhow::Result<Vec<(&'static str, String)>> {
    // First of all, while the process has a single thread: later it would cost milliseconds.
    let start = Instant::now();
    let chosen = fence::report();
    let choosing = start.elapsed();
    let machine = Machine::read();

    let mut facts = Vec::new();
    let mut line = |name, value| facts.push((name, value));
    let kind = if machine.virtual_machine { ", in a virtual machine" } else { "" };
    line("cpu", format!("{} ({}){kind}", machine.cpu, machine.arch));
    line("cpus", cpus(&machine));
    line("  given", format!("{:.2} to threads bound to {} of them", Spinners::default().given()?, most()?));
    line("quota", quota().unwrap_or_else(|| "none".into()));
    line("kernel", machine.kernel);
    line(
        "clock",
        read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default(),
    );
    line("seccomp", seccomp());
    line("membarrier", commands(libc::MEMBARRIER_CMD_QUERY));
    line("  registered", commands(GET_REGISTRATIONS));
    line("rseq", rseq());
    line("percpu", stillpoint::percpu::report().to_string());
    line("fence", chosen.to_string());
    line("  choosing", units::duration(choosing.as_nanos() as f64));
    let [alone, beside] = heavy(None)?.map(units::duration);
    line("  heavy()", format!("{alone} alone, {beside} beside a running thread"));
    Ok(facts)
}

fn cpus(machine: &Machine) -> String {
    let list = |name| cpu_list(name).unwrap_or_else(|| "none".into());
    format!(
        "{} allowed; possible {}, online {}, isolated {}, without tick {}",
        machine.cpus,
        machine.possible,
        list("online"),
        list("isolated"),
        list("nohz_full")
    )
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the CPU bandwidth of the control group, if it is limited.
fn quota() -> Option<String> {
    // The unified hierarchy as seen in a container, whose group is the root.
    let (quota, period) = if let Some(both) = read("/sys/fs/cgroup/cpu.max") {
        both.split_once(' ').map(|(quota, period)| (quota.to_owned(), period.to_owned()))?
    } else {
        (read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?, read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?)
    };
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0).then(|| format!("{:.2} CPUs ({quota} us in each {period} us)", quota / period))
}

fn seccomp() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim) {
        Some("0") => "off".into(),
        Some("1") => "strict".into(),
        Some("2") => "a filter is installed; it may deny what the kernel offers".into(),
        _ => "not offered".into(),
    }
}

/// Returns the commands of a query of `membarrier`.
fn commands(query: libc::c_int) -> String {
    // SAFETY: both queries take no pointers and change nothing.
    let set = unsafe { libc::syscall(libc::SYS_membarrier, query, 0, 0) };
    if set < 0 {
        return format!("not available: {}", io::Error::last_os_error());
    }
    let names: Vec<&str> =
        (0..).zip(COMMANDS).filter(|(bit, _)| (set >> bit) & 1 != 0).map(|(_, name)| name).collect();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// Returns what the kernel offers of restartable sequences. The library's own line says which party registers
/// threads.
fn rseq() -> String {
    // SAFETY: the call returns an error, as there is no area.
    unsafe { libc::syscall(libc::SYS_rseq, ptr::null_mut::<()>(), 0, 0, 0) };
    let error = io::Error::last_os_error();
    // SAFETY: `getauxval` only reads the auxiliary vector.
    match (error.raw_os_error(), unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) }) {
        (Some(libc::EINVAL), 0) => "first version".to_owned(),
        (Some(libc::EINVAL), size) => format!("features of {size} bytes"),
        _ => format!("not available: {error}"),
    }
}

/// Returns the nanoseconds of a heavy fence: alone, and beside a thread that runs, on `cpu` if one is given.
///
/// # Errors
///
/// Returns an error if the thread cannot be started or bound.
pub fn heavy(cpu: Option<usize>) -> anyhow::Result<[f64; 2]> {
    let alone = median(16, fence::heavy);
    let controls = Controls::default();
    let beside = controls.scope(|scope| {
        let thread = crew::spawn(scope, || {
            let bound = cpu.map_or(Ok(()), pin::to);
            controls.ready.arrive();
            while !controls.background_must_stop() {
                fence::light();
                spin_loop();
            }
            bound
        })?;
        controls.ready.wait_for(1);
        let beside = median(16, fence::heavy);
        controls.release();
        crew::join(thread)??;
        Ok(beside)
    })?;
    Ok([alone, beside])
}

/// Batches of which [`median`] is the median.
pub const BATCHES: usize = 41;

/// Returns the nanoseconds of a call of `f`: the median of batches of `calls` calls, because reading the clock costs as
/// much as a cheap one.
pub fn median(calls: u32, mut f: impl FnMut()) -> f64 {
    let mut costs = [0.0; BATCHES].map(|_: f64| {
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    });
    costs.sort_by(f64::total_cmp);
    costs[BATCHES / 2]
}
