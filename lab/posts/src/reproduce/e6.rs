//! E6: the lock of the posts, patch by patch, for more and more threads a CPU, beside ours.
//!
//! The posts measured a kernel build in guests with more virtual CPUs than the host has. Here, a thread stands for a
//! virtual CPU, and the loops of `bench lock` for the build. In a guest of an emulator, the CPUs are virtual too.
//! `gain` is the rate with a patch divided by the rate without it. `pvq-merged` is what Linux has, beside the posted
//! "before"; `pvq-v2` is the series as it was posted (see [`pvq`]), whose figures the posted ones are. Each lock's
//! events are counted in a run of their own.

use std::time::Duration;

use super::posted::posted;
use harness::{Better, Budget, Config, Metric, Profile, Report, System, pin, systems};
use measure::bench::lock::load::{self, Cell, Outcome};
use measure::bench::lock::{MOPS, measure};
use measure::peers::Lock;
use measure::peers::pvq::{self, Counted, Patches, Pvq, stat};

/// The rate of a lock divided by the rate of the same lock with one patch less.
const GAIN: Metric = Metric { name: "gain", unit: "ratio", better: Better::Higher };

type Measure = fn(Cell, Duration) -> anyhow::Result<Outcome>;

/// A state of the posted lock: its name, how its events are counted, and the state that it is compared with.
struct Stage {
    name: &'static str,
    counted: Measure,
    before: Option<&'static str>,
}

const fn stage<P: Patches>(before: Option<&'static str>) -> Stage {
    Stage { name: P::NAME, counted: load::run::<Pvq<Counted<P>>>, before }
}

/// The patches in the order of the posts; then the last one as it was merged and as it was posted.
const STAGES: [Stage; 7] = [
    stage::<pvq::UnconditionalKick>(None),
    stage::<pvq::PendingBit>(Some(pvq::UnconditionalKick::NAME)),
    stage::<pvq::KickAhead>(Some(pvq::PendingBit::NAME)),
    stage::<pvq::DeferredKick>(Some(pvq::KickAhead::NAME)),
    stage::<pvq::Series>(Some(pvq::DeferredKick::NAME)),
    stage::<pvq::Merged>(Some(pvq::PendingBit::NAME)),
    stage::<pvq::Posted>(Some(pvq::DeferredKick::NAME)),
];

/// The part of the time in which events are counted.
const COUNTING: f64 = 0.15;

fn systems() -> Vec<System<Measure>> {
    use load::run as run_load;
    systems![run_load:
        stillpoint::lock::Mutex<u64>,
        std::sync::Mutex<u64>,
        Pvq<pvq::UnconditionalKick>,
        Pvq<pvq::PendingBit>,
        Pvq<pvq::KickAhead>,
        Pvq<pvq::DeferredKick>,
        Pvq<pvq::Series>,
        Pvq<pvq::Merged>,
        Pvq<pvq::Posted>,
    ]
    .into()
}

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    // The lock rate of two threads, and 1 to 32 threads a CPU with work. The posts' 48 on 32 are 1.5.
    let mut cells = vec![Cell::new(2, 0, 0)];
    cells.extend([2, 3, 4, 16, 64].map(|halves| Cell::new((halves * cpus).div_ceil(2), 1000, 1000)));
    let mut recorder = measure("e6", &mut systems(), &cells, budget.share(1.0 - COUNTING))?;
    let profiles = Profile::every()?;
    for config in profiles.iter().flat_map(|profile| cells.iter().map(|cell| cell.config().on(*profile))) {
        for stage in &STAGES {
            let Some(before) = stage.before else { continue };
            let (with, without) = ((stage.name, &MOPS, &config), (before, &MOPS, &config));
            recorder.derive(&GAIN, with, without, |with, without| with / without);
        }
    }
    let time = Duration::from_secs_f64(budget.seconds * COUNTING / (cells.len() * STAGES.len()) as f64);
    for cell in &cells {
        let config = Config::new([("threads", cell.threads.into()), ("cs_ns", cell.cs.into())]);
        for stage in &STAGES {
            stat::reset();
            let outcome = (stage.counted)(*cell, time)?;
            for (metric, value) in stat::METRICS.iter().zip(stat::read(outcome.elapsed.as_secs_f64())) {
                recorder.record(0, stage.name, metric, &config, value);
            }
        }
    }
    let posted = posted(
        "pvqspinlock v2, 2015; 32 and 48 virtual CPUs on 32 CPUs, kernel build",
        "with more threads than CPUs, deferred kicks and adaptive spinning gain, kick-ahead next to nothing; the lock rate \
         of two threads gains by the pending bit",
        &[
            "Posted: kernel build, s
             patches | Westmere 32 | Westmere 48 | Haswell 32 | Haswell 48
             before | 205.0 | 634.1 | 122.0 | 935.9
             + kick-ahead | 207.4 | 632.0 | 120.8 | 892.5
             + deferred kick | 181.3 | 590.9 | 120.5 | 808.1
             + adaptive spinning | 186.2 | 578.0 | 121.8 | 546.9",
            "Posted: lock rate of 2 threads, 1/us
             | same socket | other socket
             before | 6.52 | 2.97
             pending bit | 7.08 | 4.35",
            "Posted: statistics of one build, count
             | pending_lock | pending_fail | wait_node | lock_kick | unlock_kick | spurious
             build | 2912098 | 10619 | 755359 | 755354 | 87 | 8",
            "Posted: latencies, us
             | least | greatest
             wake-up | 67.6 | 89.8
             kick | 7.4 | 9.3",
        ],
    );
    Ok(Report { posted, ..Report::new(&recorder, Vec::new()) })
}
