//! E4: QSBR grace periods that sleep, with a flag for each reader that is awaited, and with one flag for all.
//!
//! Ten readers never sleep, and one updater waits for one grace period after another. Readers report after each 100
//! reads; in the second cell one of them does every 5 ms. The mail thread ("urcu-qsbr futex wake-up patch", 2011) has
//! three schemes, which are one [`Reference`] with two switches:
//!
//! - `as-before`: the updater looks at the readers 100 times, as in all three, sleeps on the futex once, and then
//!   waits busily. The post had 292 updates.
//! - `one-flag`: it sleeps each time, and the next reader that reports wakes it. The answer to the post proposed
//!   this, and gave no figure.
//! - `reader-flags`: it sleeps each time, and only readers that it waits for wake it. The post had 408 updates.
//!
//! `updates_gain` compares the last with the first, `wakes_to_one_flag` the last with the second. The library and
//! liburcu have a flag for each reader too, but are other code, so no ratio is derived from them.

use std::time::Duration;

use super::posted::posted;
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, systems};
use measure::bench::qsbr::{AS_BEFORE, Load, ONE_FLAG, READER_FLAGS, Reference, UPDATES, update};
use measure::peers::stillpoint::QsbrReaders;
use measure::peers::{self, ReadSide as _};

/// CPU time of the updater for each update.
const CPU: Metric = Metric::nanoseconds("updater_cpu_ns");
/// Futex wake-ups by readers for each update.
const WAKES: Metric = Metric::count("reader_wakes", Better::Lower);

/// Updates with a flag for each reader / as before.
const GAIN: Metric = Metric { name: "updates_gain", unit: "ratio", better: Better::Higher };
/// Wake-ups with a flag for each reader / with one flag.
const WAKES_TO: Metric = Metric::ratio("wakes_to_one_flag");

/// Time between two reports of each reader: zero stands for a report after each 100 reads.
const EAGER: [Duration; 10] = [Duration::ZERO; 10];
const MIXED: [Duration; 10] = {
    let mut mixed = EAGER;
    mixed[9] = Duration::from_millis(5);
    mixed
};

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = systems![update:
        QsbrReaders,
        Reference<READER_FLAGS>,
        Reference<ONE_FLAG>,
        Reference<AS_BEFORE>,
        #[cfg(feature = "liburcu")] peers::liburcu::QsbrReaders,
    ];
    let mut recorder = Recorder::new("e4");
    let config = |slowest_ms: u64| Config::new([("readers", 10.into()), ("slowest_ms", slowest_ms.into())]);
    // Both without other threads that are busy.
    let cells = [(0, Load::new(&EAGER, 0)), (5, Load::new(&MIXED, 0))];
    Plan::new(budget, 1000, &cells, &mut systems, [&UPDATES, &CPU, &WAKES]).run(
        &mut recorder,
        |cell, _| Some(config(cell.0)),
        |&(_, load), system, slice| (system.measure)(load, slice),
    )?;
    let (flags, before, one) =
        (Reference::<READER_FLAGS>::NAME, Reference::<AS_BEFORE>::NAME, Reference::<ONE_FLAG>::NAME);
    for config in [config(0), config(5)] {
        for (ratio, metric, base) in [(&GAIN, &UPDATES, before), (&WAKES_TO, &WAKES, one)] {
            recorder.derive(ratio, (flags, metric, &config), (base, metric, &config), |of, base| of / base);
        }
    }
    let posted = posted(
        "urcu-qsbr futex wake-up patch, 2011",
        "1.4 times as many updates with a flag for each reader",
        &["Posted: n_updates of rcutorture in 10 s, 10 readers, 1 updater, median of nine runs, updates
           | without flags | with flags
           100 attempts before sleeping | 292 | 408
           1 attempt before sleeping | 290 | 404"],
    );
    Ok(Report { posted, ..Report::new(&recorder, peers::missing(&[peers::LIBURCU_QSBR])) })
}
