//! The measurements of a bench, their order, and their time.

use std::time::Duration;

use super::cpus;
use super::profile::Profile;
use super::stats::{Config, Metric, Recorder};

/// The time of a bench.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time for all rounds, in seconds.
    pub seconds: f64,
    /// Number of rounds, if the user chose it.
    pub rounds: Option<usize>,
    /// What the user chose of a bench that consists of several.
    pub cells: Option<&'static str>,
}

impl Budget {
    /// Splits the time into rounds of `slices` measurements: as many rounds as give each measurement `preferred_ms`,
    /// at least 3 and at most 51 (more do not move a median). Returns the rounds and the time of a slice.
    pub fn split(self, slices: usize, preferred_ms: u64) -> (usize, Duration) {
        let fitting = self.seconds * 1e3 / (slices as f64 * preferred_ms as f64);
        let rounds = self.rounds.unwrap_or((fitting.round() as usize).clamp(3, 51)).max(1);
        (rounds, Duration::from_secs_f64(self.seconds / (slices * rounds) as f64))
    }

    /// Returns a part of the time, with the same number of rounds.
    pub fn share(self, part: f64) -> Self {
        Self { seconds: self.seconds * part, ..self }
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
    profiles: &'static [Profile],
}

/// A cell in a profile, and its parameters for each system that can be measured in it.
struct Place<'a, C> {
    profile: Option<Profile>,
    cell: &'a C,
    configs: Vec<Option<Config>>,
    /// The CPUs that its threads can use; 0 if it has one thread.
    usable: usize,
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
        Self { budget, slice_ms, cells, systems, metrics, profiles: &[] }
    }

    /// Measures each cell in each [profile](Profile) of this machine, which its parameters name. While a cell is
    /// measured, and asked for its parameters, the process is bound to the CPUs of the profile.
    pub fn in_profiles(self) -> anyhow::Result<Self> {
        Ok(Self { profiles: Profile::every()?, ..self })
    }

    /// Measures each system in each cell, round by round, and records a value for each metric. `config` returns
    /// `None` if the system cannot be measured in the cell. A value that is not a number is not recorded. A round of
    /// a cell whose threads did not get the CPUs that they can use is measured again, a few times.
    pub fn run(
        self,
        recorder: &mut Recorder,
        config: impl Fn(&C, &System<M>) -> Option<Config>,
        mut measure: impl FnMut(&C, &mut System<M>, Duration) -> anyhow::Result<[f64; N]>,
    ) -> anyhow::Result<()> {
        let places = self.places(config)?;
        let Self { budget, slice_ms, systems, metrics, .. } = self;
        let mut slices = 0;
        for Place { configs, .. } in &places {
            slices += configs.iter().flatten().count();
            for metric in metrics {
                let measured = systems.iter().zip(configs);
                let measured = measured.filter_map(|(system, config)| Some((system.name, config.as_ref()?)));
                measured.for_each(|(name, config)| recorder.announce(name, metric, config));
            }
        }
        let (rounds, slice) = budget.split(slices, slice_ms);
        eprintln!(
            "{}: {rounds} rounds of {slices} measurements, {:.0} s",
            recorder.bench(),
            budget.seconds.ceil()
        );
        recorder.given.look()?;
        for (round, place) in (0..rounds).flat_map(|round| (0..places.len()).map(move |place| (round, place)))
        {
            let Place { profile, cell, configs, usable } = &places[place];
            let measure_all = || -> anyhow::Result<Vec<_>> {
                let _bound = profile.map(Profile::bind).transpose()?;
                let turns = turns(round, place, systems.len());
                let measured = turns.filter_map(|system| Some((system, configs[system].as_ref()?)));
                let values = measured.map(|(number, config)| {
                    let system = &mut systems[number];
                    let values = measure(cell, system, slice)?;
                    Ok((number, config, values))
                });
                values.collect()
            };
            for (number, config, values) in recorder.given.round(*usable, measure_all)? {
                for (metric, value) in metrics.into_iter().zip(values) {
                    recorder.record(round, systems[number].name, metric, config, value);
                }
            }
        }
        recorder.given.look()?;
        Ok(())
    }

    /// Returns the cells in each profile, without twins on one CPU of cells that have one thread.
    fn places(&self, config: impl Fn(&C, &System<M>) -> Option<Config>) -> anyhow::Result<Vec<Place<'a, C>>> {
        let most = cpus::most()?;
        let profiles: Vec<_> = self.profiles.iter().copied().map(Some).collect();
        let mut places = Vec::new();
        for profile in if profiles.is_empty() { vec![None] } else { profiles } {
            let _bound = profile.map(Profile::bind).transpose()?;
            let most = if profile == Some(Profile::One) { 1 } else { most };
            for cell in self.cells {
                let in_profile = |config: Config| match profile {
                    Some(profile) => config.on(profile),
                    None => config,
                };
                let configs: Vec<_> =
                    self.systems.iter().map(|system| config(cell, system).map(in_profile)).collect();
                let threads = configs.iter().flatten().map(Config::runnable).max().unwrap_or(0);
                if threads > 1 || profile != Some(Profile::One) || self.profiles.len() == 1 {
                    let usable = if threads > 1 { threads.min(most) } else { 0 };
                    places.push(Place { profile, cell, configs, usable });
                }
            }
        }
        Ok(places)
    }
}

/// Returns the order of the systems: the first one moves on in every round and cell.
fn turns(round: usize, cell: usize, systems: usize) -> impl Iterator<Item = usize> {
    (0..systems).map(move |place| (place + round + cell) % systems)
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
        for system in 0..3 {
            let orders = (0..6).map(|round| turns(round, 2, 3).collect::<Vec<_>>());
            let places = orders.map(|order| order.iter().position(|&one| one == system));
            assert_eq!(places.filter(|&place| place == Some(0)).count(), 2);
        }
    }

    #[test]
    fn cells_are_measured_on_the_cpus_of_each_profile() {
        const SEEN: Metric = Metric::count("cpus", crate::Better::Higher);
        let _alone = crate::profile::tests::alone();
        let budget = Budget { seconds: 0.01, rounds: Some(2), cells: None };
        let (mut recorder, mut systems) = (Recorder::new("test"), [System { name: "system", measure: () }]);
        let plan = Plan::new(budget, 1, &[1, 4], &mut systems, [&SEEN]).in_profiles().expect("CPUs");
        let config = |threads: &usize, _: &_| Some(Config::default().with("threads", (*threads).into()));
        let seen = || Ok([crate::pin::allowed()?.len() as f64]);
        plan.run(&mut recorder, config, |_, _, _| seen()).expect("measurements");
        let seen = recorder.rows("").into_iter().map(|row| (row.config.to_string(), row.summary.median));
        let cpus = crate::pin::allowed().expect("CPUs").len() as f64;
        let expected = [
            ("threads=1 profile=all", cpus),
            ("threads=4 profile=all", cpus),
            ("threads=4 profile=one", 1.0),
        ];
        let on_one = [("threads=1 profile=one", 1.0), ("threads=4 profile=one", 1.0)];
        let expected = if cpus > 1.0 { &expected[..] } else { &on_one };
        assert!(seen.eq(expected.iter().map(|&(config, cpus)| (config.to_owned(), cpus))));
        assert!(recorder.given.cpus().is_some());
    }

    #[test]
    fn budget_is_split_into_as_many_rounds_as_fit() {
        let slice = Duration::from_millis(100);
        let auto = |seconds| Budget { seconds, rounds: None, cells: None }.split(10, 100);
        assert_eq!((auto(10.0), auto(1.0).0, auto(1000.0).0), ((10, slice), 3, 51));
        assert_eq!(Budget { seconds: 10.0, rounds: Some(5), cells: None }.split(10, 100), (5, slice * 2));
    }
}
