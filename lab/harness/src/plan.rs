//! The measurements of a bench, their order, and their time.

use std::time::Duration;

use super::progress::Progress;
use super::stats::{Config, Metric, Recorder};

/// The time of a bench.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time for all rounds, in seconds.
    pub seconds: f64,
    /// Number of rounds, if the user chose it.
    pub rounds: Option<usize>,
    /// Whether fewer cells are enough.
    pub quick: bool,
    /// The set of cells that the user chose.
    pub cells: Option<&'static str>,
}

impl Budget {
    /// Splits the time into rounds of `slices` measurements: as many rounds as give each measurement `preferred_ms`, at
    /// least 3 and at most 51 (more do not move a median). Returns the rounds and the time of a slice.
    pub fn split(self, slices: usize, preferred_ms: u64) -> (usize, Duration) {
        let fitting = self.seconds * 1e3 / (slices as f64 * preferred_ms as f64);
        let rounds = self.rounds.unwrap_or((fitting.round() as usize).clamp(3, 51)).max(1);
        (rounds, Duration::from_secs_f64(self.seconds / (slices * rounds) as f64))
    }

    /// Returns a part of the time, with the same number of rounds.
    pub fn share(self, part: f64) -> Self {
        Self { seconds: self.seconds * part, ..self }
    }

    /// Replaces the `usual` time by `seconds` if it is to be quick, unless the user chose another time.
    pub fn quick_instead_of(self, usual: f64, seconds: f64) -> Self {
        if self.quick && self.seconds == usual { Self { seconds, ..self } } else { self }
    }
}

/// A system of a bench: its name in the report, and how to measure it.
#[derive(Clone, Copy, Debug)]
pub struct System<M> {
    pub name: &'static str,
    pub measure: M,
}

/// Returns a system that is measured by a function of a cell and a time.
pub const fn system<C, T>(name: &'static str, measure: Measure<C, T>) -> System<Measure<C, T>> {
    System { name, measure }
}

type Measure<C, T> = fn(C, Duration) -> anyhow::Result<T>;

/// Cells, systems, and metrics.
#[derive(Debug)]
pub struct Plan<'a, C, M, const N: usize> {
    budget: Budget,
    slice_ms: u64,
    cells: &'a [C],
    systems: &'a mut [System<M>],
    metrics: [&'static Metric; N],
}

impl<'a, C, M, const N: usize> Plan<'a, C, M, N> {
    /// `slice_ms` is the preferred time of a measurement.
    pub fn new(
        budget: Budget,
        slice_ms: u64,
        cells: &'a [C],
        systems: &'a mut [System<M>],
        metrics: [&'static Metric; N],
    ) -> Self {
        Self { budget, slice_ms, cells, systems, metrics }
    }

    /// Measures each system in each cell, round by round, and records a value for each metric. `config` returns `None`
    /// if the system cannot be measured in the cell. A value that is not a number is not recorded.
    pub fn run(
        self,
        recorder: &mut Recorder,
        config: impl Fn(&C, &System<M>) -> Option<Config>,
        mut measure: impl FnMut(&C, &mut System<M>, Duration) -> anyhow::Result<[f64; N]>,
    ) -> anyhow::Result<()> {
        let Self { budget, slice_ms, cells, systems, metrics } = self;
        let mut slices = 0;
        for cell in cells {
            let measured: Vec<_> = systems.iter().filter_map(|s| Some((s.name, config(cell, s)?))).collect();
            slices += measured.len();
            for metric in metrics {
                measured.iter().for_each(|(name, config)| recorder.announce(name, metric, config));
            }
        }
        let (rounds, slice) = budget.split(slices, slice_ms);
        let time = Duration::from_secs_f64(budget.seconds);
        let progress = Progress::new(recorder.bench(), slices * rounds, time);
        for (round, cell, system) in order(rounds, cells.len(), systems.len()) {
            let (cell, system) = (&cells[cell], &mut systems[system]);
            let Some(config) = config(cell, system) else { continue };
            progress.show(|| format!("round {}/{rounds}: {}, {config}", round + 1, system.name));
            for (metric, value) in metrics.into_iter().zip(measure(cell, system, slice)?) {
                recorder.record(round, system.name, metric, &config, value);
            }
            progress.advance();
        }
        Ok(())
    }
}

/// Returns round, cell and system of each measurement: the first system of a cell moves on in every round and cell.
pub fn order(rounds: usize, cells: usize, systems: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..rounds).flat_map(move |round| {
        (0..cells).flat_map(move |cell| {
            (0..systems).map(move |place| (round, cell, (place + round + cell) % systems))
        })
    })
}

/// Systems of the function `$measure`, which is generic over them.
#[macro_export]
macro_rules! systems {
    ($measure:ident: $($(#[$only:meta])? $system:ty),+ $(,)?) => {
        [$($(#[$only])? $crate::plan::system(<$system>::NAME, $measure::<$system>)),+]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_come_first_equally_often() {
        let all: Vec<_> = order(6, 4, 3).collect();
        assert_eq!(all.len(), 72);
        for (cell, system) in (0..4).flat_map(|cell| (0..3).map(move |system| (cell, system))) {
            let firsts = all.chunks(3).filter(|steps| (steps[0].1, steps[0].2) == (cell, system));
            assert_eq!(firsts.count(), 2);
            assert_eq!(all.iter().filter(|step| (step.1, step.2) == (cell, system)).count(), 6);
        }
    }

    #[test]
    fn budget_is_split_into_as_many_rounds_as_fit() {
        let slice = Duration::from_millis(100);
        let auto = |seconds| Budget { seconds, rounds: None, quick: false, cells: None }.split(10, 100);
        assert_eq!((auto(10.0), auto(1.0).0, auto(1000.0).0), ((10, slice), 3, 51));
        assert_eq!(
            Budget { seconds: 10.0, rounds: Some(5), quick: false, cells: None }.split(10, 100),
            (5, slice * 2)
        );
    }
}
