//! E1: the process-wide fence, what it costs its caller and what it does to others.
//!
//! The cost is that of `bench fence`, with other numbers of callers. The disturbance is that of a neighbour: a process
//! that computes, beside one with two threads, of which the first runs and the second either runs too or calls the heavy
//! fence in a loop. The quotient of the two times is what the calls do to a process that has no part in them; that
//! there are two more busy threads on the machine is in both.

pub(crate) mod neighbour;

use std::thread;
use std::time::Duration;

use comfy_table::Table;

use super::Findings;
use crate::bench::fence::kind::{Answer, Load, Role};
use crate::bench::fence::{self, HEAVY, ISSUED, config};
use crate::harness::posted::{Figures, FiguresRow, table};
use crate::harness::report::{OURS, times};
use crate::harness::units::duration;
use crate::harness::worker::{self as lane, Role as _, Worker as Lane, Workers as Lanes};
use crate::harness::{Budget, Metric, Posted, Progress, Recorder, Report, Schedule, pin};
use neighbour::Work;

/// Time of the neighbour's work beside a caller, to its time beside a thread that runs in the caller's place.
const SLOWDOWN: Metric = Metric::ratio("slowdown");
/// The same of the CPU time of that work.
const SLOWDOWN_CPU: Metric = Metric::ratio("slowdown_cpu");

/// Concurrent callers.
const CALLERS: [usize; 3] = [1, 4, 16];

const CALLS: Figures = Figures {
    title: "10,000,000 calls beside T busy threads",
    unit: "s",
    columns: &["one IPI per CPU", "cpumask + IPI-many", "adaptive, with run-queue locks"],
    rows: &[
        FiguresRow { row: "1", values: &[18.8, 21.8, 21.0] },
        FiguresRow { row: "2", values: &[29.1, 22.7, 22.6] },
        FiguresRow { row: "3", values: &[46.8, 22.2, 27.0] },
        FiguresRow { row: "4", values: &[53.8, 24.7, 29.0] },
        FiguresRow { row: "5", values: &[70.9, 26.9, 32.6] },
        FiguresRow { row: "6", values: &[81.1, 30.8, 36.6] },
        FiguresRow { row: "7", values: &[98.4, 29.6, 33.1] },
    ],
};

const BUILD: Figures = Figures {
    title: "cache-hot kernel build while one thread calls in a loop and one spins",
    unit: "s",
    columns: &["without", "with"],
    rows: &[FiguresRow { row: "build", values: &[162.0, 342.0] }],
};

const POSTED: Posted = Posted {
    source: "sys_membarrier RFC v3b, 2010; Xeon E5405, 8 CPUs",
    expected: "the cost follows the number of running threads, not T; combined, C callers cost about as much as one",
    tables: &[CALLS, BUILD],
};

/// Calls of the posted run: what turns its seconds into the time of one.
const POSTED_CALLS: f64 = 1e7;

/// Runs the experiment.
///
/// # Errors
///
/// Fails if a lane cannot be started or a load needs more threads than the system allows.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Findings> {
    let (mut lanes, skipped) = lane::start(&Role::ALL)?;
    let running = fence::running_threads(pin::allowed()?.len());
    let mut recorder = Recorder::default();
    let title = "seeds e1: cost of a call";
    fence::measure(title, &mut lanes, &running, &CALLERS, budget.share(0.6), &mut recorder)?;
    disturb(&mut lanes, budget.share(0.4), &mut recorder)?;

    let roles: Vec<Role> = lanes.iter().map(|(role, _)| *role).collect();
    let report = Report::new("e1", &recorder, skipped).with_posted(&POSTED);
    let tables = vec![cost(&report, &running), combining(&report, &running), disturbance(&report, &roles)];
    Ok(Findings { report, tables })
}

/// Records the slowdown of a neighbour, for each kind of fence.
fn disturb(lanes: &mut Lanes<Role>, budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut neighbour = Lane::start(&["neighbour"], None)?;
    // In each round two measurements of each lane, in turn one or the other first.
    let (rounds, slice) = budget.split(2.0 * lanes.len() as f64, Duration::from_millis(200));
    let schedule = Schedule { rounds, cells: 1, systems: lanes.len() };
    let progress = Progress::new("seeds e1: disturbance", schedule.len(), slice * 2 * schedule.len() as u32);
    for step in schedule.steps() {
        let (role, lane) = &mut lanes[step.system];
        let config = config(*role, 1, 1);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, role.system()));
        let mut beside = |callers| work_beside(&mut neighbour, lane, callers, slice);
        let (running, calling) = if step.round % 2 == 0 {
            let running = beside(0)?;
            (running, beside(1)?)
        } else {
            let calling = beside(1)?;
            (beside(0)?, calling)
        };
        let (wall, cpu) = (calling.wall_ns() / running.wall_ns(), calling.cpu_ns() / running.cpu_ns());
        recorder.record(step.round, role.system(), &SLOWDOWN, &config, wall);
        recorder.record(step.round, role.system(), &SLOWDOWN_CPU, &config, cpu);
        progress.advance();
    }
    Ok(())
}

/// The neighbour's work beside two threads of `lane`, of which `callers` call.
fn work_beside(
    neighbour: &mut Lane,
    lane: &mut Lane,
    callers: usize,
    slice: Duration,
) -> anyhow::Result<Work> {
    // The work begins after the threads do, and ends before them.
    let lead = slice / 8;
    lane.ask(&Load { running: 2 - callers, callers, time: slice })?;
    thread::sleep(lead);
    let work = neighbour.measure(&(slice - 2 * lead))?;
    lane.answer::<Answer>()?;
    Ok(work)
}

fn cost(report: &Report, running: &[usize]) -> (String, Table) {
    let systems = [Role::Membarrier, Role::Signal, Role::Seqcst, Role::Syscall];
    let heads = ["T", "posted: one IPI per CPU", "posted: cpumask + IPI-many", "posted: adaptive"];
    let mut table = table(heads.into_iter().chain(systems.map(Role::name)));
    let most = running.iter().copied().max().unwrap_or(0).max(CALLS.rows.len());
    for threads in 0..=most {
        let row = threads.to_string();
        let posted = CALLS.columns.iter().map(|column| {
            let seconds = CALLS.value(&row, column);
            seconds.map(|seconds| duration(seconds * 1e9 / POSTED_CALLS)).unwrap_or_default()
        });
        let ours = systems.iter().map(|&role| report.value(role.system(), &HEAVY, &config(role, threads, 1)));
        let values: Vec<String> = posted.chain(ours).collect();
        if values.iter().any(|value| !value.is_empty()) {
            table.add_row([row.clone()].into_iter().chain(values));
        }
    }
    ("Time of a call beside T busy threads".to_owned(), table)
}

fn combining(report: &Report, running: &[usize]) -> (String, Table) {
    let mut table = table(["T", "callers", "combined", "not combined", "ratio", "fences a call"]);
    for &threads in running {
        for callers in CALLERS {
            let config = config(Role::Membarrier, threads, callers);
            let theirs = Role::Syscall.system();
            table.add_row([
                threads.to_string(),
                callers.to_string(),
                report.value(OURS, &HEAVY, &config),
                report.value(theirs, &HEAVY, &config),
                report.ratio(theirs, &HEAVY, &config),
                report.value(OURS, &ISSUED, &config),
            ]);
        }
    }
    ("Concurrent callers on membarrier: time of a call".to_owned(), table)
}

fn disturbance(report: &Report, roles: &[Role]) -> (String, Table) {
    let mut table = table(["fence", "time", "min..max", "CPU time", "min..max"]);
    let posted = |column| BUILD.value("build", column).unwrap_or(f64::NAN);
    table.add_row(["posted", &times(posted("with") / posted("without")), "", "", ""]);
    for &role in roles {
        let (system, config) = (role.system(), config(role, 1, 1));
        table.add_row([
            role.name().to_owned(),
            report.value(system, &SLOWDOWN, &config),
            report.range(system, &SLOWDOWN, &config),
            report.value(system, &SLOWDOWN_CPU, &config),
            report.range(system, &SLOWDOWN_CPU, &config),
        ]);
    }
    ("Slowdown of a neighbour process while one thread calls in a loop and one runs".to_owned(), table)
}
