//! Samples by round, and their medians, extremes and ratios.
//!
//! A ratio is formed within a round, where both sides met the same machine, and the median is taken over these ratios.
//! The quotient of two medians would compare different moments.

use super::given::Given;
pub use super::schema::{Better, Config, Ratio, Row, Summary};

/// A measured quantity.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in tables and JSON, with the unit as suffix if it has one.
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
}

impl Metric {
    /// A duration in nanoseconds.
    pub const fn nanoseconds(name: &'static str) -> Self {
        Self { name, unit: "ns", better: Better::Lower }
    }

    /// An amount of memory.
    pub const fn bytes(name: &'static str) -> Self {
        Self { name, unit: "bytes", better: Better::Lower }
    }

    /// A quotient of two measurements of one round, of which a smaller one is better.
    pub const fn ratio(name: &'static str) -> Self {
        Self { name, unit: "ratio", better: Better::Lower }
    }

    /// A number of events for each unit of work.
    pub const fn count(name: &'static str, better: Better) -> Self {
        Self { name, unit: "count", better }
    }
}

/// The values of one quantity, each with its round.
#[derive(Debug)]
struct Series {
    system: &'static str,
    metric: &'static Metric,
    config: Config,
    values: Vec<(usize, f64)>,
}

impl Series {
    fn is(&self, (system, metric, config): Quantity<'_>) -> bool {
        self.system == system && self.metric == metric && self.config == *config
    }

    /// Returns the value of a round.
    fn at(&self, round: usize) -> Option<f64> {
        self.values.iter().find(|value| value.0 == round).map(|value| value.1)
    }

    /// Returns the rounds that both have, with both values.
    fn pairs(&self, other: &Self) -> Vec<(usize, f64, f64)> {
        let pair = |&(round, value): &(usize, f64)| Some((round, value, other.at(round)?));
        self.values.iter().filter_map(pair).collect()
    }
}

/// A metric of a system in a configuration.
pub type Quantity<'a> = (&'static str, &'static Metric, &'a Config);

/// Collects the samples of a bench.
#[derive(Debug)]
pub struct Recorder {
    bench: &'static str,
    series: Vec<Series>,
    /// The CPUs that threads got.
    pub given: Given,
    /// The rounds of cells in which they got too few.
    marked: Vec<(usize, Config)>,
}

impl Recorder {
    pub fn new(bench: &'static str) -> Self {
        Self { bench, series: Vec::new(), given: Given::default(), marked: Vec::new() }
    }

    /// Marks a round of a cell: its threads got too few CPUs.
    pub fn mark(&mut self, round: usize, config: &Config) {
        self.marked.push((round, config.clone()));
    }

    /// Summarizes the values of a cell: those of rounds that are not marked, if they are half of all at least. Returns
    /// the number of the others, too, unless they are left out.
    fn summary(&self, config: &Config, values: &[(usize, f64)]) -> Option<(Summary, usize)> {
        let is_marked = |round: usize| self.marked.iter().any(|mark| mark.0 == round && mark.1 == *config);
        let good: Vec<f64> = values.iter().filter(|value| !is_marked(value.0)).map(|value| value.1).collect();
        let marked = values.len() - good.len();
        if marked <= good.len() {
            return Some((Summary::of(good)?, 0));
        }
        Some((Summary::of(values.iter().map(|value| value.1).collect())?, marked))
    }

    /// Returns the name of the bench.
    pub fn bench(&self) -> &'static str {
        self.bench
    }

    /// Announces a quantity: rows and ratios have the order of these announcements, not that of measurements.
    pub fn announce(&mut self, system: &'static str, metric: &'static Metric, config: &Config) {
        self.series.push(Series { system, metric, config: config.clone(), values: Vec::new() });
    }

    /// Adds the value that `system` had in `round`, unless it is not finite, and so no measurement.
    pub fn record(
        &mut self,
        round: usize,
        system: &'static str,
        metric: &'static Metric,
        config: &Config,
        value: f64,
    ) {
        if !value.is_finite() {
            return;
        }
        let known = self.series.iter().position(|series| series.is((system, metric, config)));
        let index = known.unwrap_or_else(|| {
            self.announce(system, metric, config);
            self.series.len() - 1
        });
        self.series[index].values.push((round, value));
    }

    /// Records `metric`: for each round that has both, `combine` of the values of `of` and of `base`.
    pub fn derive(
        &mut self,
        metric: &'static Metric,
        of: Quantity<'_>,
        base: Quantity<'_>,
        combine: fn(f64, f64) -> f64,
    ) {
        let find = |quantity| self.series.iter().find(|series| series.is(quantity));
        let pairs = find(of).zip(find(base)).map(|(of, base)| of.pairs(base)).unwrap_or_default();
        for (round, value, base) in pairs {
            self.record(round, of.0, metric, of.2, combine(value, base));
        }
    }

    /// Records `metric`: for each round that has all, the value of `of` divided by the best value that the `peers` have
    /// of the same quantity.
    pub fn derive_ratio(&mut self, metric: &'static Metric, of: Quantity<'_>, peers: &[&'static str]) {
        let find = |system| self.series.iter().find(|series| series.is((system, of.1, of.2)));
        let theirs: Option<Vec<&Series>> = peers.iter().map(|peer| find(*peer)).collect();
        let Some((ours, theirs)) = find(of.0).zip(theirs) else { return };
        let better = match of.1.better {
            Better::Lower => f64::min,
            Better::Higher => f64::max,
        };
        let ratio = |&(round, value): &(usize, f64)| {
            let values: Option<Vec<f64>> = theirs.iter().map(|peer| peer.at(round)).collect();
            Some((round, value / values?.into_iter().reduce(better)?))
        };
        let ratios: Vec<(usize, f64)> = ours.values.iter().filter_map(ratio).collect();
        for (round, ratio) in ratios {
            self.record(round, of.0, metric, of.2, ratio);
        }
    }

    /// Returns a row for each quantity.
    pub fn rows(&self) -> Vec<Row> {
        let row = |series: &Series| {
            let (summary, marked) = self.summary(&series.config, &series.values)?;
            Some(Row {
                system: series.system.into(),
                metric: series.metric.name.into(),
                unit: series.metric.unit.into(),
                better: series.metric.better,
                config: series.config.clone(),
                summary,
                marked,
            })
        };
        self.series.iter().filter_map(row).collect()
    }

    /// Returns the ratios of `of` to every other system that measured the same quantity. A round in which theirs is
    /// zero has none.
    pub fn ratios(&self, of: &'static str) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for ours in self.series.iter().filter(|s| s.system == of) {
            let same = |s: &&Series| s.system != of && s.metric == ours.metric && s.config == ours.config;
            for theirs in self.series.iter().filter(same) {
                let pairs = ours.pairs(theirs).into_iter();
                let ratio = |(round, ours, theirs)| (round, ours / theirs);
                let values: Vec<_> = pairs.filter(|pair| pair.2 != 0.0).map(ratio).collect();
                ratios.extend(self.summary(&ours.config, &values).map(|(summary, marked)| Ratio {
                    of: of.into(),
                    to: theirs.system.into(),
                    metric: ours.metric.name.into(),
                    better: ours.metric.better,
                    config: ours.config.clone(),
                    summary,
                    marked,
                }));
            }
        }
        ratios
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Metric = Metric::nanoseconds("cost_ns");
    const MORE: Metric = Metric::nanoseconds("more_ns");

    fn threads(n: u64) -> Config {
        Config::new([("threads", n.into())])
    }

    /// Records the values of a system, one a round.
    fn recorder(values: &[(&'static str, &Config, &[f64])]) -> Recorder {
        let mut recorder = Recorder::new("test");
        for (system, config, values) in values {
            let mut record = |(round, &value)| recorder.record(round, system, &COST, config, value);
            values.iter().enumerate().for_each(&mut record);
        }
        recorder
    }

    #[test]
    fn ratio_is_median_of_ratios_of_rounds() {
        // Both medians are 2; the ratios of the rounds are 0.5, 2 and 3.
        let one = threads(1);
        let recorder = recorder(&[("ours", &one, &[1.0, 2.0, 9.0]), ("theirs", &one, &[2.0, 1.0, 3.0])]);
        let ratios = recorder.ratios("ours");
        assert_eq!(ratios.len(), 1);
        assert_eq!((&*ratios[0].of, &*ratios[0].to), ("ours", "theirs"));
        assert_eq!(ratios[0].summary, Summary { median: 2.0, min: 0.5, max: 3.0 });
    }

    #[test]
    fn marked_rounds_are_left_out_if_there_are_enough_others() {
        let (one, values) = (threads(1), [1.0, 2.0, 100.0]);
        let mut recorder = recorder(&[("ours", &one, &values), ("theirs", &one, &[1.0, 1.0, 1.0])]);
        recorder.mark(2, &one);
        recorder.mark(0, &threads(2));
        let found = |recorder: &Recorder| {
            let (row, ratio) = (recorder.rows().remove(0), recorder.ratios("ours").remove(0));
            assert_eq!((row.summary, row.marked), (ratio.summary, ratio.marked));
            (row.summary.max, row.marked)
        };
        assert_eq!(found(&recorder), (2.0, 0));
        recorder.mark(0, &one);
        assert_eq!(found(&recorder), (100.0, 2));
    }

    #[test]
    fn ratio_needs_same_round_same_config_and_a_divisor() {
        let (one, two) = (threads(1), threads(2));
        let ours = ("ours", &one, &[1.0, 1.0, f64::NAN][..]);
        let theirs = ("theirs", &one, &[f64::NAN, 0.0, 1.0][..]);
        assert!(recorder(&[ours, theirs, ("theirs", &two, &[1.0])]).ratios("ours").is_empty());
    }

    #[test]
    fn derived_quantity_combines_values_of_a_round() {
        let (one, two) = (threads(1), threads(2));
        let mut recorder = recorder(&[("ours", &one, &[10.0, 20.0]), ("ours", &two, &[30.0, 50.0])]);
        recorder.derive(&MORE, ("ours", &COST, &two), ("ours", &COST, &one), |value, base| value - base);
        let row = recorder.rows().pop().expect("a derived row");
        assert_eq!((&*row.metric, row.config), ("more_ns", two));
        assert_eq!(row.summary, Summary { median: 25.0, min: 20.0, max: 30.0 });
    }

    #[test]
    fn derived_ratio_is_to_the_best_peer_of_the_round() {
        const RATE: Metric = Metric { name: "rate", unit: "1/s", better: Better::Higher };
        const TO_BEST: Metric = Metric::ratio("to_best");
        let one = threads(1);
        let derived = |metric: &'static Metric| {
            let mut recorder = Recorder::new("test");
            let values = [("ours", [8.0, 8.0, 8.0]), ("a", [1.0, 4.0, 2.0]), ("b", [2.0, 1.0, f64::NAN])];
            for (system, values) in values {
                for (round, value) in values.into_iter().enumerate() {
                    recorder.record(round, system, metric, &one, value);
                }
            }
            recorder.derive_ratio(&TO_BEST, ("ours", metric, &one), &["a", "b"]);
            recorder.derive_ratio(&TO_BEST, ("a", metric, &one), &["a", "unknown"]);
            recorder.rows().split_off(3)
        };
        // The third round has no value of b.
        let expected =
            [Summary { median: 3.0, min: 2.0, max: 4.0 }, Summary { median: 8.0, min: 8.0, max: 8.0 }];
        for (metric, expected) in [&RATE, &COST].into_iter().zip(expected) {
            let summaries: Vec<Summary> = derived(metric).iter().map(|row| row.summary).collect();
            assert_eq!(summaries, [expected], "{}", metric.name);
        }
    }

    #[test]
    fn rows_keep_order_of_announcement() {
        let mut recorder = Recorder::new("test");
        for system in ["ours", "silent", "theirs"] {
            recorder.announce(system, &COST, &threads(1));
        }
        recorder.record(0, "theirs", &COST, &threads(1), 1.0);
        recorder.record(0, "ours", &COST, &threads(1), 1.0);
        let rows = recorder.rows();
        let systems: Vec<&str> = rows.iter().map(|row| &*row.system).collect();
        assert_eq!(systems, ["ours", "theirs"]);
    }
}
