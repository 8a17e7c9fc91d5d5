//! Samples by round, and their medians, extremes and ratios.
//!
//! A ratio is formed within a round, where both sides met the same machine, and the median is taken over these ratios.
//! The quotient of two medians would compare different moments.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// Whether a smaller or a larger value is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Smaller values are better, as for latencies.
    Lower,
    /// Larger values are better, as for rates.
    Higher,
}

/// What a number means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Name in tables and JSON, with its unit as suffix where it has one.
    pub(crate) name: &'static str,
    /// Unit of the value.
    pub(crate) unit: &'static str,
    /// Direction of improvement.
    pub(crate) better: Better,
}

impl Metric {
    /// A duration in nanoseconds.
    pub(crate) const fn nanoseconds(name: &'static str) -> Self {
        Self { name, unit: "ns", better: Better::Lower }
    }

    /// An amount of memory.
    pub(crate) const fn bytes(name: &'static str) -> Self {
        Self { name, unit: "bytes", better: Better::Lower }
    }

    /// A quotient of two measurements of one round, of which a smaller one is better.
    pub(crate) const fn ratio(name: &'static str) -> Self {
        Self { name, unit: "ratio", better: Better::Lower }
    }

    /// A number of events for each unit of work.
    pub(crate) const fn count(name: &'static str, better: Better) -> Self {
        Self { name, unit: "count", better }
    }
}

/// The parameters of a cell, in the order in which tables show them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config(pub(crate) Vec<(&'static str, Value)>);

impl Config {
    /// Collects parameters.
    pub(crate) fn new<const N: usize>(pairs: [(&'static str, Value); N]) -> Self {
        Self(pairs.into())
    }
}

impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            match value {
                Value::String(text) => write!(f, "{gap}{key}={text}")?,
                other => write!(f, "{gap}{key}={other}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Median and extremes over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// The middle value, or the mean of the two middle values.
    pub(crate) median: f64,
    /// The smallest value.
    pub(crate) min: f64,
    /// The largest value.
    pub(crate) max: f64,
}

impl Summary {
    /// Summarizes `values`; `None` if there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let upper = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[upper] } else { (values[upper - 1] + values[upper]) / 2.0 };
        Some(Self { median, min, max })
    }
}

/// The median, extremes and identity of one measured quantity.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) system: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) config: Config,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// How one system compares to another, round by round.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) of: &'static str,
    pub(crate) to: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) better: Better,
    pub(crate) config: Config,
    #[serde(flatten)]
    pub(crate) summary: Summary,
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
    /// The quotient to `theirs` in every round that has both; a round in which theirs is zero has none.
    fn ratios_to(&self, theirs: &Series) -> Vec<f64> {
        let quotient = |&(round, ours): &(usize, f64)| {
            let &(_, other) = theirs.values.iter().find(|(r, _)| *r == round)?;
            (other != 0.0).then_some(ours / other)
        };
        self.values.iter().filter_map(quotient).collect()
    }
}

/// Collects the samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    series: Vec<Series>,
}

impl Recorder {
    /// Announces a quantity: rows and ratios come in the order of these announcements, whatever is measured first.
    pub(crate) fn announce(&mut self, system: &'static str, metric: &'static Metric, config: &Config) {
        self.series.push(Series { system, metric, config: config.clone(), values: Vec::new() });
    }

    /// Adds the value that `system` had in `round`. A value that is not finite is no measurement and is dropped.
    pub(crate) fn record(
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
        let is_it = |s: &Series| s.system == system && s.metric == metric && s.config == *config;
        let index = self.series.iter().position(is_it).unwrap_or_else(|| {
            self.announce(system, metric, config);
            self.series.len() - 1
        });
        self.series[index].values.push((round, value));
    }

    /// One row for each quantity.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |series: &Series| {
            let values = series.values.iter().map(|&(_, value)| value).collect();
            Some(Row {
                system: series.system,
                metric: series.metric.name,
                unit: series.metric.unit,
                better: series.metric.better,
                config: series.config.clone(),
                summary: Summary::of(values)?,
            })
        };
        self.series.iter().filter_map(row).collect()
    }

    /// The ratios of `of` to every other system that measured the same quantity.
    pub(crate) fn ratios(&self, of: &'static str) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for ours in self.series.iter().filter(|s| s.system == of) {
            let same = |s: &&Series| s.system != of && s.metric == ours.metric && s.config == ours.config;
            for theirs in self.series.iter().filter(same) {
                if let Some(summary) = Summary::of(ours.ratios_to(theirs)) {
                    ratios.push(Ratio {
                        of,
                        to: theirs.system,
                        metric: ours.metric.name,
                        better: ours.metric.better,
                        config: ours.config.clone(),
                        summary,
                    });
                }
            }
        }
        ratios
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Metric = Metric::nanoseconds("cost_ns");

    fn threads(n: u64) -> Config {
        Config::new([("threads", n.into())])
    }

    #[test]
    fn median_of_odd_count_is_middle_value() {
        let summary = Summary::of(vec![9.0, 1.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 4.0, min: 1.0, max: 9.0 }));
    }

    #[test]
    fn median_of_even_count_is_mean_of_middle_two() {
        let summary = Summary::of(vec![8.0, 1.0, 2.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 3.0, min: 1.0, max: 8.0 }));
    }

    #[test]
    fn summary_of_no_values_is_none() {
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn ratio_is_median_of_ratios_of_rounds() {
        // Medians are 2 and 2; the ratios of the rounds are 0.5, 2 and 3.
        let config = threads(1);
        let mut recorder = Recorder::default();
        for (round, (ours, theirs)) in [(1.0, 2.0), (2.0, 1.0), (9.0, 3.0)].into_iter().enumerate() {
            recorder.record(round, "ours", &COST, &config, ours);
            recorder.record(round, "theirs", &COST, &config, theirs);
        }
        let ratios = recorder.ratios("ours");
        assert_eq!(ratios.len(), 1);
        assert_eq!((ratios[0].of, ratios[0].to), ("ours", "theirs"));
        assert_eq!(ratios[0].summary, Summary { median: 2.0, min: 0.5, max: 3.0 });
    }

    #[test]
    fn ratio_needs_same_round_and_same_config() {
        let mut recorder = Recorder::default();
        recorder.record(0, "ours", &COST, &threads(1), 1.0);
        recorder.record(1, "theirs", &COST, &threads(1), 1.0);
        recorder.record(0, "theirs", &COST, &threads(2), 1.0);
        assert!(recorder.ratios("ours").is_empty());
    }

    #[test]
    fn ratio_to_zero_is_dropped() {
        let mut recorder = Recorder::default();
        recorder.record(0, "ours", &COST, &threads(1), 1.0);
        recorder.record(0, "theirs", &COST, &threads(1), 0.0);
        recorder.record(1, "ours", &COST, &threads(1), 1.0);
        recorder.record(1, "theirs", &COST, &threads(1), 4.0);
        assert_eq!(recorder.ratios("ours")[0].summary, Summary { median: 0.25, min: 0.25, max: 0.25 });
    }

    #[test]
    fn rows_keep_order_of_announcement() {
        let mut recorder = Recorder::default();
        for system in ["ours", "silent", "theirs"] {
            recorder.announce(system, &COST, &threads(1));
        }
        recorder.record(0, "theirs", &COST, &threads(1), 1.0);
        recorder.record(0, "ours", &COST, &threads(1), 1.0);
        let systems: Vec<&str> = recorder.rows().iter().map(|row| row.system).collect();
        assert_eq!(systems, ["ours", "theirs"]);
    }

    #[test]
    fn value_that_is_not_finite_is_dropped() {
        let mut recorder = Recorder::default();
        recorder.record(0, "ours", &COST, &threads(1), f64::NAN);
        assert!(recorder.rows().is_empty());
    }
}
