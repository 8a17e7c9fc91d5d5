//! E4: QSBR grace periods that sleep, with a flag for each reader that is awaited, and with one flag for all.
//!
//! Ten readers differ in how often they report: some all the time, one every 5 ms. One updater waits for one grace
//! period after another. With one flag, each reader that reports while the updater sleeps wakes it; with a flag for each
//! reader, only those that it waits for do. `one-flag` and `reader-flags` are the same code but for this ([`Reference`]),
//! and `updates_gain` and `wakes_to_one_flag` compare these two. The library and liburcu have flags, and differ in more:
//! a reader of the library also yields.
//!
//! In the second cell one reader does not report for 1 s, and another does all the time: this shows the cost of the
//! updater's wait.

use std::time::Duration;

use super::posted::posted;
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, systems};
use measure::bench::qsbr::{Load, ONE_FLAG, READER_FLAGS, Reference, UPDATES, update};
use measure::peers::stillpoint::QsbrReaders;
use measure::peers::{self, ReadSide as _};

/// CPU time of the updater for each update.
const CPU: Metric = Metric::nanoseconds("updater_cpu_ns");
/// Futex wake-ups by readers for each update.
const WAKES: Metric = Metric::count("reader_wakes", Better::Lower);

/// Updates with a flag for each reader / with one flag.
const GAIN: Metric = Metric { name: "updates_gain", unit: "ratio", better: Better::Higher };
/// Wake-ups with a flag for each reader / with one flag.
const WAKES_TO: Metric = Metric::ratio("wakes_to_one_flag");

/// Time between two reports of each reader.
const MIXED: [Duration; 10] = {
    let us = Duration::from_micros;
    [us(0), us(0), us(0), us(1), us(1), us(10), us(10), us(100), us(100), us(5000)]
};
const SILENT: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = systems![update:
        QsbrReaders,
        Reference<READER_FLAGS>,
        Reference<ONE_FLAG>,
        #[cfg(feature = "liburcu")] peers::liburcu::QsbrReaders,
    ];
    // A grace period of the silent reader takes one to two seconds.
    let silent = budget.share(0.3);
    let rounds = (silent.seconds / (2.0 * systems.len() as f64)).round().clamp(1.0, 3.0);
    let silent = Budget { rounds: Some(rounds as usize), ..silent };
    let mut recorder = Recorder::new("e4");
    for (readers, budget) in [(&MIXED[..], budget.share(0.7)), (&SILENT, silent)] {
        let slowest = readers.iter().max().map_or(0, |slowest| slowest.as_millis() as u64);
        let config = Config::new([("readers", readers.len().into()), ("slowest_ms", slowest.into())]);
        Plan::new(budget, 1000, &[Load::new(readers, 0)], &mut systems, [&UPDATES, &CPU, &WAKES]).run(
            &mut recorder,
            |_, _| Some(config.clone()),
            |&load, system, slice| (system.measure)(load, slice),
        )?;
        let (flags, one) = (Reference::<READER_FLAGS>::NAME, Reference::<ONE_FLAG>::NAME);
        for (ratio, metric) in [(&GAIN, &UPDATES), (&WAKES_TO, &WAKES)] {
            recorder
                .derive(ratio, (flags, metric, &config), (one, metric, &config), |flags, one| flags / one);
        }
    }
    let posted = posted(
        "urcu-qsbr futex wake-up patch, 2011",
        "1.4 times as many updates with a flag for each reader",
        &["n_updates of rcutorture in 10 s, 10 readers, 1 updater, median of nine runs | updates
           | without flags | with flags
           100 attempts before sleeping | 292 | 408
           1 attempt before sleeping | 290 | 404"],
    );
    Ok(Report { posted, ..Report::new(&recorder, peers::missing(&[peers::LIBURCU_QSBR])) })
}
