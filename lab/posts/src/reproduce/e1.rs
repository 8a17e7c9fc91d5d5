//! E1: the process-wide fence, its cost for its caller, and for others.
//!
//! The cost is measured as in `bench fence`, with other numbers of callers. For the disturbance, this process
//! computes beside a worker of two threads: one runs, and the other runs too or calls the heavy fence in a loop. The
//! quotient of the two times is the slowdown of a neighbour by the calls; that there are two more busy threads on the
//! machine is in both.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use super::posted::posted;
use harness::timed_loop::thread_cpu_time;
use harness::worker::{Remote, Worker};
use harness::{Budget, Metric, Plan, Recorder, Report, System};
use measure::bench::fence::{Answer, Load, REMOTES, config, measure_calls};

/// Time of a unit of the neighbour's work.
const WORK: Metric = Metric::nanoseconds("work_ns");
/// CPU time of it.
const WORK_CPU: Metric = Metric::nanoseconds("work_cpu_ns");
/// These beside a caller, divided by these beside a thread that runs in the caller's place.
const SLOWDOWN: Metric = Metric::ratio("slowdown");
const SLOWDOWN_CPU: Metric = Metric::ratio("slowdown_cpu");

/// Words of the neighbour's memory: they fit in the second-level cache of any CPU of these days, and not in the
/// first, so that a flushed cache is noticed.
const WORDS: usize = 16 << 10;

/// Concurrent callers.
const CALLERS: [usize; 3] = [1, 4, 16];

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut workers, skipped) = Remote::start("fence", &REMOTES)?;
    let mut recorder = Recorder::new("e1");
    measure_calls(&mut workers, &CALLERS, budget.share(0.6), &mut recorder)?;
    disturb(&mut workers, budget.share(0.4), &mut recorder)?;
    let posted = posted(
        "sys_membarrier RFC v3b, 2010; Xeon E5405, 8 CPUs",
        "the cost follows the number of running threads, not T; combined, C callers cost about as much as one",
        &[
            "Posted: 10,000,000 calls beside T busy threads (1 s is 100 ns a call), s
             T | one IPI per CPU | cpumask + IPI-many | adaptive, with run-queue locks
             1 | 18.8 | 21.8 | 21.0
             2 | 29.1 | 22.7 | 22.6
             3 | 46.8 | 22.2 | 27.0
             4 | 53.8 | 24.7 | 29.0
             5 | 70.9 | 26.9 | 32.6
             6 | 81.1 | 30.8 | 36.6
             7 | 98.4 | 29.6 | 33.1",
            "Posted: cache-hot kernel build while one thread calls in a loop and one spins, s
             | without | with | slowdown
             build | 162 | 342 | 2.11",
        ],
    );
    Ok(Report { posted, ..Report::new(&recorder, skipped) })
}

/// Records the slowdown of a neighbour by each kind of fence.
fn disturb(workers: &mut [System<Worker>], budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut memory = vec![1_u64; WORDS];
    let kinds: Vec<_> =
        workers.iter().map(|worker| (worker.name, worker.measure.backend().to_owned())).collect();
    let config = |kind: usize, callers| config(&kinds[kind].1, 2 - callers, callers);
    let mut systems: Vec<_> = (0..kinds.len())
        .flat_map(|kind| [0, 1].map(|callers| System { name: kinds[kind].0, measure: (kind, callers) }))
        .collect();
    Plan::new(budget, 200, &[()], &mut systems, [&WORK, &WORK_CPU]).run(
        recorder,
        |(), system| Some(config(system.measure.0, system.measure.1)),
        |(), system, time| {
            let (kind, callers) = system.measure;
            let worker = &mut workers[kind].measure;
            // The work starts after the threads, and ends before them.
            let margin = time / 8;
            worker.ask(&Load { running: 2 - callers, callers, time })?;
            thread::sleep(margin);
            let work = work(&mut memory, time - 2 * margin);
            worker.answer::<Answer>()?;
            Ok(work)
        },
    )?;
    for (kind, (name, _)) in kinds.iter().enumerate() {
        let (calling, running) = (config(kind, 1), config(kind, 0));
        for (slowdown, metric) in [(&SLOWDOWN, &WORK), (&SLOWDOWN_CPU, &WORK_CPU)] {
            recorder.derive(slowdown, (name, metric, &calling), (name, metric, &running), |with, without| {
                with / without
            });
        }
    }
    Ok(())
}

/// Works for `time`. Returns the nanoseconds and the CPU time of a pass over the memory, in which each word depends
/// on the one before.
fn work(memory: &mut [u64], time: Duration) -> [f64; 2] {
    let (start, cpu) = (Instant::now(), thread_cpu_time());
    let mut passes = 0_u32;
    while start.elapsed() < time || passes == 0 {
        let mut carry = 1_u64;
        for word in memory.iter_mut() {
            carry = carry.wrapping_mul(*word | 1).rotate_left(7) ^ *word;
            *word = carry;
        }
        black_box(&mut *memory);
        passes += 1;
    }
    [start.elapsed(), thread_cpu_time() - cpu].map(|time| time.as_nanos() as f64 / f64::from(passes))
}
