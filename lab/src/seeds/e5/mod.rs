//! E5: a per-CPU counter, by `lock; cmpxchg`, by `cmpxchg` in a critical section, and by load and store in one; and what the
//! number of the CPU costs.
//!
//! The overhead of a way is its loop less the bare loop, in the same round. Ours is the last row: the library's counter.

mod section;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use comfy_table::Table;
use crossbeam_utils::CachePadded;
use stillpoint::percpu::{self, Counter};

use super::Findings;
use crate::harness::posted::{Figures, FiguresRow, table};
use crate::harness::report::OURS;
use crate::harness::timed_loop::{Threads, TimedLoop, repeat};
use crate::harness::{Budget, Config, Metric, Posted, Progress, Recorder, Report, Schedule, Skipped, pin};
use section::Row;

/// CPU time of an iteration.
const LOOP: Metric = Metric::nanoseconds("loop_ns");
/// The same, less that of the bare loop.
const OVERHEAD: Metric = Metric::nanoseconds("overhead_ns");
/// CPU time of a look at the CPU's number.
const NUMBER: Metric = Metric::nanoseconds("cpu_number_ns");

const POSTED: Posted = Posted {
    source: "per-CPU critical sections, RFC, 2015; 32 threads on a 16-core Xeon E5-2630 v3",
    expected: "load-store with restart costs least; its overhead is 3.2 times smaller than that of lock; cmpxchg (5.4 times \
               with the number of the CPU from the vdso), and the number from memory a small part of the vdso's",
    tables: &[
        Figures {
            title: "a loop",
            unit: "ns",
            columns: &["loop", "overhead"],
            rows: &[
                FiguresRow { row: BARE, values: &[3.7, 0.0] },
                FiguresRow { row: LOCKED, values: &[22.0, 18.3] },
                FiguresRow { row: RESTARTED, values: &[11.1, 7.4] },
                FiguresRow { row: OURS, values: &[9.4, 5.7] },
            ],
        },
        Figures {
            title: "the number of the CPU",
            unit: "ns",
            columns: &["number"],
            rows: &[FiguresRow { row: VDSO, values: &[12.7] }, FiguresRow { row: OURS, values: &[0.3] }],
        },
    ],
};

const BARE: &str = "bare-loop";
const LOCKED: &str = "lock-cmpxchg";
const LOCKED_VDSO: &str = "lock-cmpxchg-vdso";
const RESTARTED: &str = "cmpxchg-restart";
const VDSO: &str = "vdso-getcpu";

/// In this order, as the overhead needs the bare loop first.
const WAYS: [&str; 5] = [BARE, LOCKED_VDSO, LOCKED, RESTARTED, OURS];

type GetCpu = extern "C" fn(*mut libc::c_uint, *mut libc::c_uint, *mut libc::c_void) -> libc::c_int;

/// What the loops work on.
struct World {
    words: Box<[CachePadded<AtomicU64>]>,
    rows: Box<[Row]>,
    counter: Counter,
    getcpu: Option<GetCpu>,
    offset: Option<isize>,
}

/// The vdso's function, which the C library no longer calls where it has the number itself.
fn vdso_getcpu() -> Option<GetCpu> {
    // SAFETY: the names are C strings; the kernel's library is in every process and stays; the function has this type.
    unsafe {
        let vdso = libc::dlopen(c"linux-vdso.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if vdso.is_null() {
            return None;
        }
        let found = libc::dlsym(vdso, c"__vdso_getcpu".as_ptr());
        (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, GetCpu>(found))
    }
}

fn by_vdso(getcpu: GetCpu) -> usize {
    let mut cpu = 0;
    getcpu(&mut cpu, std::ptr::null_mut(), std::ptr::null_mut());
    cpu as usize
}

impl World {
    fn new() -> Self {
        let cpus = percpu::report().cpus();
        Self {
            words: (0..cpus).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            rows: (0..cpus).map(|_| Row::default()).collect(),
            counter: Counter::new(),
            getcpu: vdso_getcpu(),
            offset: section::offset(),
        }
    }

    /// Why a way cannot be gone here.
    fn lacks(&self, way: &'static str) -> Option<Skipped> {
        let why = match way {
            LOCKED_VDSO | VDSO if self.getcpu.is_none() => "the vdso has no getcpu",
            RESTARTED if self.offset.is_none() => {
                "needs x86-64 and a C library that registers threads (glibc 2.35)"
            }
            _ => return None,
        };
        Some(Skipped { system: way.into(), why: why.to_owned() })
    }

    fn increment_locked(&self, cpu: usize) -> u64 {
        let word = &self.words[cpu];
        let mut old = word.load(Relaxed);
        while let Err(now) = word.compare_exchange(old, old + 1, Relaxed, Relaxed) {
            old = now;
        }
        0
    }

    /// The loop of a way, in the calling thread.
    fn run(&self, way: &str, turn: &TimedLoop) -> f64 {
        match (way, self.getcpu, self.offset) {
            (LOCKED_VDSO, Some(getcpu), _) => turn.time_on_cpu(|n| {
                let world = black_box(self);
                repeat(n, || world.increment_locked(by_vdso(getcpu)))
            }),
            (LOCKED, ..) => turn.time_on_cpu(|n| {
                let world = black_box(self);
                repeat(n, || world.increment_locked(percpu::cpu()))
            }),
            (RESTARTED, _, Some(offset)) => turn.time_on_cpu(|n| {
                let (rows, cpus) = black_box((self.rows.as_ptr(), self.rows.len()));
                repeat(n, || {
                    // SAFETY: there is a row for each CPU, and the offset is that of every thread.
                    while !unsafe { section::increment(rows, cpus, offset) } {}
                    0
                })
            }),
            (OURS, ..) => turn.time_on_cpu(|n| {
                let counter = black_box(&self.counter);
                repeat(n, || {
                    counter.add(1);
                    0
                })
            }),
            _ => turn.time_on_cpu(|n| repeat(n, || black_box(0))),
        }
    }

    /// The same, of a look at the CPU's number.
    fn number(&self, way: &str, turn: &TimedLoop) -> f64 {
        match (way, self.getcpu) {
            (VDSO, Some(getcpu)) => turn.time_on_cpu(|n| repeat(n, || black_box(by_vdso(getcpu)) as u64)),
            _ => turn.time_on_cpu(|n| repeat(n, || black_box(percpu::cpu()) as u64)),
        }
    }
}

/// Runs the experiment.
///
/// # Errors
///
/// Fails if threads cannot be started or bound to the CPUs of this process.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Findings> {
    let cpus = pin::allowed()?;
    let crowds: Vec<Threads> =
        Threads::all(cpus.len()).into_iter().filter(|c| c.count >= cpus.len()).collect();
    let world = World::new();
    let ways: Vec<&'static str> = WAYS.into_iter().filter(|way| world.lacks(way).is_none()).collect();
    let numbers: Vec<&'static str> =
        [VDSO, OURS].into_iter().filter(|way| world.lacks(way).is_none()).collect();
    let skipped = WAYS.iter().chain(&[VDSO]).filter_map(|way| world.lacks(way)).collect();

    let measured = crowds.len() * (ways.len() + numbers.len());
    let (rounds, slice) = budget.split(measured as f64, Duration::from_millis(60));
    let progress = Progress::new("seeds e5", measured * rounds, slice * u32::try_from(measured * rounds)?);
    let mut recorder = Recorder::default();
    for &crowd in &crowds {
        for metric in [&LOOP, &OVERHEAD] {
            ways.iter().for_each(|way| recorder.announce(way, metric, &config(crowd)));
        }
        numbers.iter().for_each(|way| recorder.announce(way, &NUMBER, &config(crowd)));
    }
    for round in 0..rounds {
        for &crowd in &crowds {
            let config = config(crowd);
            let mut loops = Vec::new();
            let schedule = Schedule { rounds: 1, cells: 1, systems: ways.len() };
            for step in schedule.steps() {
                // Another one first in each round.
                let way = ways[(step.system + round) % ways.len()];
                progress.show(|| format!("round {}/{rounds}: {way}, {config}", round + 1));
                loops.push((way, crowd.measure(slice, |turn| world.run(way, turn))?));
                progress.advance();
            }
            let bare = loops.iter().find(|(way, _)| *way == BARE).map_or(0.0, |(_, time)| *time);
            for (way, time) in loops {
                recorder.record(round, way, &LOOP, &config, time);
                if way != BARE {
                    recorder.record(round, way, &OVERHEAD, &config, time - bare);
                }
            }
            for &way in &numbers {
                let number = crowd.measure(slice, |turn| world.number(way, turn))?;
                recorder.record(round, way, &NUMBER, &config, number);
                progress.advance();
            }
        }
    }
    drop(progress);

    let report = Report::new("e5", &recorder, skipped).with_posted(&POSTED);
    let tables = crowds.iter().map(|&crowd| (title(crowd), compare(&report, crowd))).collect();
    Ok(Findings { report, tables })
}

fn title(crowd: Threads) -> String {
    format!("{} threads, {} a CPU: ns, and our overhead to theirs", crowd.count, crowd.per_cpu)
}

fn config(crowd: Threads) -> Config {
    Config::new([("threads", crowd.count.into()), ("threads_per_cpu", crowd.per_cpu.into())])
}

fn compare(report: &Report, crowd: Threads) -> Table {
    let config = config(crowd);
    let mut table = table(["", "loop", "posted", "overhead", "posted ", "ratio"]);
    let posted = |index: usize, row: &str, column: &str| {
        let value = POSTED.tables[index].value(row, column);
        value.map_or_else(String::new, |value| format!("{value} ns"))
    };
    for way in WAYS {
        table.add_row([
            way.to_owned(),
            report.value(way, &LOOP, &config),
            posted(0, way, "loop"),
            report.value(way, &OVERHEAD, &config),
            posted(0, way, "overhead"),
            report.ratio(way, &OVERHEAD, &config),
        ]);
    }
    for way in [VDSO, OURS] {
        table.add_row([
            format!("number: {way}"),
            report.value(way, &NUMBER, &config),
            posted(1, way, "number"),
            String::new(),
            String::new(),
            report.ratio(way, &NUMBER, &config),
        ]);
    }
    table
}
