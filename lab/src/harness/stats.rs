//! Samples by round, and their medians, extremes and ratios.
//!
//! A ratio is formed within a round, where both sides met the same machine, and the median is taken over these ratios.
//! The quotient of two medians would compare different moments.

pub(crate) use super::schema::{Better, Config, Ratio, Row, Summary};

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
                system: series.system.into(),
                metric: series.metric.name.into(),
                unit: series.metric.unit.into(),
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
                        of: of.into(),
                        to: theirs.system.into(),
                        metric: ours.metric.name.into(),
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
        assert_eq!((&*ratios[0].of, &*ratios[0].to), ("ours", "theirs"));
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
        let rows = recorder.rows();
        let systems: Vec<&str> = rows.iter().map(|row| &*row.system).collect();
        assert_eq!(systems, ["ours", "theirs"]);
    }

    #[test]
    fn value_that_is_not_finite_is_dropped() {
        let mut recorder = Recorder::default();
        recorder.record(0, "ours", &COST, &threads(1), f64::NAN);
        assert!(recorder.rows().is_empty());
    }
}
