//! `seccomp-deny`: runs a command in which some syscalls return errors, to see what falls back.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, bail};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Run a command in which some syscalls return errors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The error that the denied syscalls return.
    #[arg(long, value_enum, default_value = "ENOSYS")]
    errno: Errno,
    /// The syscalls to deny: membarrier, rseq, futex_waitv, getcpu, or a number.
    #[arg(required = true, value_parser = number_of)]
    syscalls: Vec<i64>,
    /// The command to run and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Errno {
    /// The kernel does not have the syscall.
    #[value(name = "ENOSYS")]
    Enosys,
    /// A policy forbids the syscall.
    #[value(name = "EPERM")]
    Eperm,
}

/// Returns the number of a syscall on this architecture.
fn number_of(name: &str) -> Result<i64, String> {
    match name {
        "membarrier" => Ok(libc::SYS_membarrier),
        "rseq" => Ok(libc::SYS_rseq),
        "futex_waitv" => Ok(libc::SYS_futex_waitv),
        "getcpu" => Ok(libc::SYS_getcpu),
        _ => name.parse().map_err(|_| "not a name known here; give its number instead".to_owned()),
    }
}

/// Installs the filter and executes the command. Returns only if one of these is not possible.
pub fn run(args: Args) -> anyhow::Result<Infallible> {
    let errno = match args.errno {
        Errno::Enosys => libc::ENOSYS,
        Errno::Eperm => libc::EPERM,
    };
    // A syscall without conditions is denied whatever its arguments are.
    let rules: BTreeMap<_, _> = args.syscalls.iter().map(|&number| (number, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().context("no syscall filter for this architecture")?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)
        .context("cannot make the syscall filter")?;
    let program: BpfProgram = filter.try_into().context("cannot compile the syscall filter")?;
    seccompiler::apply_filter(&program)
        .context("the kernel refused the syscall filter (seccomp is off, or a sandbox forbids it)")?;

    let Some((program, arguments)) = args.command.split_first() else {
        bail!("no command given after --");
    };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::number_of;

    #[test]
    fn syscalls_are_named_or_numbered() {
        assert_eq!(number_of("membarrier"), Ok(libc::SYS_membarrier));
        assert_eq!(number_of("39"), Ok(39));
        assert!(number_of("no-such-call").is_err());
    }
}
