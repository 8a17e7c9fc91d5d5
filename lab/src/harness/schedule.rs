//! The order of measurements, and how long each may take.

use std::time::Duration;

/// One measurement: a system in a cell in a round, all by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Number of the round, from 0.
    pub(crate) round: usize,
    /// Index of the configuration.
    pub(crate) cell: usize,
    /// Index of the system.
    pub(crate) system: usize,
}

/// The measurements of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Rounds.
    pub(crate) rounds: usize,
    /// Configurations measured in each round.
    pub(crate) cells: usize,
    /// Systems measured in each cell.
    pub(crate) systems: usize,
}

impl Schedule {
    /// All measurements in order: the first system of a cell moves on by one in every round and in every cell.
    pub(crate) fn steps(self) -> impl Iterator<Item = Step> {
        let Self { rounds, cells, systems } = self;
        (0..rounds).flat_map(move |round| {
            (0..cells).flat_map(move |cell| {
                (0..systems).map(move |place| Step { round, cell, system: (place + round + cell) % systems })
            })
        })
    }

    /// Number of measurements.
    pub(crate) fn len(self) -> usize {
        self.rounds * self.cells * self.systems
    }
}

/// How much time a bench has and how it prefers to spend it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Time for all rounds, in seconds.
    pub(crate) seconds: f64,
    /// Rounds, if the user chose their number.
    pub(crate) rounds: Option<usize>,
}

impl Budget {
    /// Splits the time into rounds of `slices` measurements each: as many rounds as give every measurement the
    /// `preferred` time, but at least 3, and at most 51 (more do not move a median). Returns the rounds and the time of
    /// one slice.
    pub(crate) fn split(self, slices: f64, preferred: Duration) -> (usize, Duration) {
        let fitting = self.seconds / (slices * preferred.as_secs_f64());
        let rounds = self.rounds.unwrap_or((fitting.round() as usize).clamp(3, 51)).max(1);
        (rounds, Duration::from_secs_f64(self.seconds / (slices * rounds as f64)))
    }

    /// `seconds` in place of the `usual` time, unless the user chose it.
    pub(crate) fn instead_of(self, usual: f64, seconds: f64) -> Self {
        if self.seconds == usual { Self { seconds, ..self } } else { self }
    }

    /// A part of the time, with as many rounds.
    pub(crate) fn share(self, part: f64) -> Self {
        Self { seconds: self.seconds * part, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_come_first_equally_often() {
        let schedule = Schedule { rounds: 6, cells: 4, systems: 3 };
        let steps: Vec<Step> = schedule.steps().collect();
        assert_eq!(steps.len(), schedule.len());
        for cell in 0..4 {
            for system in 0..3 {
                let of_cell = steps.chunks(3).map(|steps| steps[0]).filter(|step| step.cell == cell);
                assert_eq!(of_cell.filter(|step| step.system == system).count(), 2);
            }
        }
    }

    #[test]
    fn round_measures_each_system_in_each_cell_once() {
        let schedule = Schedule { rounds: 2, cells: 2, systems: 3 };
        for round in 0..2 {
            for cell in 0..2 {
                for system in 0..3 {
                    let step = Step { round, cell, system };
                    assert_eq!(schedule.steps().filter(|s| *s == step).count(), 1);
                }
            }
        }
    }

    #[test]
    fn budget_is_split_into_as_many_rounds_as_fit() {
        let slice = Duration::from_millis(100);
        let auto = |seconds| Budget { seconds, rounds: None }.split(10.0, slice);
        assert_eq!(auto(10.0), (10, slice));
        assert_eq!(auto(1.0).0, 3);
        assert_eq!(auto(1000.0).0, 51);
        assert_eq!(Budget { seconds: 10.0, rounds: Some(5) }.split(10.0, slice), (5, slice * 2));
    }
}
