//! Samples by round, and their medians, extremes and ratios.
//!
//! A ratio is formed within a round, where both sides met the same machine, and the median is taken over these
//! ratios. The quotient of two medians would compare different moments.

use hdrhistogram::Histogram;

use super::given::Given;
pub use super::schema::{Better, Config, Row, Summary};

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

/// Returns an empty histogram of nanoseconds, up to a minute, with three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid")
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
}

impl Recorder {
    pub fn new(bench: &'static str) -> Self {
        Self { bench, series: Vec::new(), given: Given::default() }
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

    /// Returns a row for each quantity, with the ratio of `ours` to it. A round in which theirs is zero has none.
    pub fn rows(&self, ours: &str) -> Vec<Row> {
        let row = |theirs: &Series| {
            let is_ours =
                |s: &&Series| s.system == ours && s.metric == theirs.metric && s.config == theirs.config;
            let pairs = self.series.iter().find(is_ours).map(|ours| ours.pairs(theirs)).unwrap_or_default();
            let ratios =
                pairs.into_iter().filter(|pair| pair.2 != 0.0).map(|(_, ours, theirs)| ours / theirs);
            Some(Row {
                system: theirs.system.into(),
                metric: theirs.metric.name.into(),
                unit: theirs.metric.unit.into(),
                better: theirs.metric.better,
                config: theirs.config.clone(),
                summary: Summary::of(theirs.values.iter().map(|value| value.1).collect())?,
                ratio: Summary::of(ratios.collect()).filter(|_| theirs.system != ours),
            })
        };
        self.series.iter().filter_map(row).collect()
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
        let [ours, theirs] = recorder.rows("ours").try_into().expect("two rows");
        assert_eq!((ours.ratio, &*theirs.system), (None, "theirs"));
        assert_eq!(theirs.ratio, Some(Summary { median: 2.0, min: 0.5, max: 3.0 }));
    }

    #[test]
    fn ratio_needs_same_round_same_config_and_a_divisor() {
        let (one, two) = (threads(1), threads(2));
        let ours = ("ours", &one, &[1.0, 1.0, f64::NAN][..]);
        let theirs = ("theirs", &one, &[f64::NAN, 0.0, 1.0][..]);
        let rows = recorder(&[ours, theirs, ("theirs", &two, &[1.0])]).rows("ours");
        assert!(rows.len() == 3 && rows.iter().all(|row| row.ratio.is_none()));
    }

    #[test]
    fn derived_quantity_combines_values_of_a_round() {
        let (one, two) = (threads(1), threads(2));
        let mut recorder = recorder(&[("ours", &one, &[10.0, 20.0]), ("ours", &two, &[30.0, 50.0])]);
        recorder.derive(&MORE, ("ours", &COST, &two), ("ours", &COST, &one), |value, base| value - base);
        let row = recorder.rows("ours").pop().expect("a derived row");
        assert_eq!((&*row.metric, row.config), ("more_ns", two));
        assert_eq!(row.summary, Summary { median: 25.0, min: 20.0, max: 30.0 });
    }

    #[test]
    fn rows_keep_order_of_announcement() {
        let mut recorder = Recorder::new("test");
        for system in ["ours", "silent", "theirs"] {
            recorder.announce(system, &COST, &threads(1));
        }
        recorder.record(0, "theirs", &COST, &threads(1), 1.0);
        recorder.record(0, "ours", &COST, &threads(1), 1.0);
        let rows = recorder.rows("ours");
        let systems: Vec<&str> = rows.iter().map(|row| &*row.system).collect();
        assert_eq!(systems, ["ours", "theirs"]);
    }
}
