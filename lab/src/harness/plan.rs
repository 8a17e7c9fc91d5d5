//! What is measured, and how it is carried out.

use std::time::Duration;

use super::progress::Progress;
use super::schedule::Schedule;
use super::stats::{Config, Metric, Recorder};

/// A system of a bench: its name in the report, and what measures it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System<M> {
    pub(crate) name: &'static str,
    pub(crate) measure: M,
}

/// Cells, systems, and what a measurement of one in the other gives.
#[derive(Debug)]
pub(crate) struct Plan<'a, C, M, const N: usize> {
    /// Shown with the progress.
    pub(crate) title: &'a str,
    /// The number of rounds, and the time of a measurement.
    pub(crate) timing: (usize, Duration),
    pub(crate) cells: &'a [C],
    pub(crate) systems: &'a mut [System<M>],
    pub(crate) metrics: [&'static Metric; N],
}

/// Measures every system in every cell once a round, and records the values, one for each metric. A value that is not a
/// number is none: the system cannot run in that cell, or does not count these events.
pub(crate) fn run<C, M, const N: usize>(
    plan: Plan<'_, C, M, N>,
    recorder: &mut Recorder,
    config: impl Fn(&C, &System<M>) -> Config,
    mut measure: impl FnMut(&C, &mut System<M>, Duration) -> anyhow::Result<[f64; N]>,
) -> anyhow::Result<()> {
    let Plan { title, timing: (rounds, slice), cells, systems, metrics } = plan;
    for cell in cells {
        for metric in metrics {
            systems.iter().for_each(|system| recorder.announce(system.name, metric, &config(cell, system)));
        }
    }
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new(title, schedule.len(), slice * schedule.len() as u32);
    for step in schedule.steps() {
        let (cell, system) = (&cells[step.cell], &mut systems[step.system]);
        let config = config(cell, system);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name));
        for (metric, value) in metrics.into_iter().zip(measure(cell, system, slice)?) {
            recorder.record(step.round, system.name, metric, &config, value);
        }
        progress.advance();
    }
    Ok(())
}

/// Systems of the function `$measure`, which is generic over them.
macro_rules! systems {
    ($measure:ident: $($(#[$only:meta])? $system:ty),+ $(,)?) => {
        [$($(#[$only])? $crate::harness::System {
            name: <$system>::NAME,
            measure: $measure::<$system> as fn(_, _) -> _,
        }),+]
    };
}
pub(crate) use systems;
