//! Results in the form in which they are shown, written as JSON and read again.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::grid::Grid;
use super::profile::Profile;
use super::units::digits;

/// A name: a constant of this program, or read from a file.
pub type Text = Cow<'static, str>;

/// The direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller values are better, as for latencies.
    Lower,
    /// Larger values are better, as for rates.
    Higher,
}

/// The parameters of a cell, in the order in which tables show them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(Map<String, Value>);

impl Config {
    /// Collects parameters.
    pub fn new<const N: usize>(pairs: [(&str, Value); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns the parameters with one more.
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Returns the value of a parameter, as tables show it.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(plain)
    }

    /// Returns the value of a parameter, if it is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// Returns the names of the parameters.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Returns the values of the parameters, as tables show them.
    pub fn values(&self) -> impl Iterator<Item = String> {
        self.0.values().map(plain)
    }

    /// Returns the parameters of the cell in a profile.
    pub fn on(self, profile: Profile) -> Self {
        self.with(Profile::PARAMETER, profile.name().into())
    }

    /// Returns how many threads of a cell can run at the same time, by the names of its parameters: two, if none
    /// says.
    pub(super) fn runnable(&self) -> usize {
        let of = |name| self.number(name).map(|number| number as usize);
        let beside: Vec<usize> = ["readers", "busy", "running"].into_iter().filter_map(of).collect();
        match of("threads").or(of("callers")) {
            Some(threads) => threads + beside.iter().sum::<usize>(),
            None if beside.is_empty() => 2,
            None => 1 + beside.iter().sum::<usize>(),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
        f.write_str(&pairs.join(" "))
    }
}

/// Median and extremes over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Summarizes `values`; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let upper = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[upper] } else { (values[upper - 1] + values[upper]) / 2.0 };
        Some(Self { median, min, max })
    }

    /// Returns the quotient to `other`, which was measured in other rounds: of the medians, and the least and the
    /// greatest that the extremes allow. `None` if it is not defined.
    pub fn over(self, other: Self) -> Option<Self> {
        let (median, min, max) = (self.median / other.median, self.min / other.max, self.max / other.min);
        (other.min > 0.0 && self.min >= 0.0).then_some(Self { median, min, max })
    }

    /// Returns the extremes, as `least..greatest`.
    pub fn range(self) -> String {
        format!("{}..{}", digits(self.min), digits(self.max))
    }
}

/// The median, extremes and identity of one measured quantity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub system: Text,
    pub metric: Text,
    pub unit: Text,
    pub better: Better,
    pub config: Config,
    #[serde(flatten)]
    pub summary: Summary,
    /// Ours / theirs, by round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Summary>,
}

impl Row {
    /// Returns whether it was measured on one CPU of several.
    pub fn is_of_one_cpu(&self) -> bool {
        self.config.text(Profile::PARAMETER).is_some_and(|profile| profile == Profile::One.name())
    }
}

/// A course over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    pub system: Text,
    pub metric: Text,
    pub unit: Text,
    /// The variable of which the values are a function, with its unit as suffix.
    pub over: Text,
    pub config: Config,
    pub points: Vec<(f64, f64)>,
}

/// A measurement that did not take place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub system: Text,
    /// The reason, and what would change it.
    pub why: String,
}

/// What an original post reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Posted {
    /// The post, and the machine it was measured on.
    pub source: Text,
    /// The shape that must carry over: times belong to machines.
    pub expected: Text,
    pub tables: Vec<Grid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_can_run_are_known_by_the_parameters() {
        let config = |pairs: &[(&str, u64)]| {
            pairs.iter().fold(Config::default(), |config, &(name, value)| config.with(name, value.into()))
        };
        for (pairs, runnable) in [
            (&[("threads", 1), ("nesting", 1)][..], 1),
            (&[("readers", 0), ("callers", 1), ("idle_threads", 1000)], 1),
            (&[("readers", 4), ("callers", 8)], 12),
            // An updater, and threads beside it.
            (&[("readers", 1)], 2),
            (&[("threads", 8), ("busy", 2)], 10),
            (&[("guards", 10)], 2),
        ] {
            assert_eq!(config(pairs).runnable(), runnable, "{pairs:?}");
        }
    }

    #[test]
    fn median_is_middle_value_or_mean_of_middle_two() {
        let summary = Summary::of(vec![9.0, 1.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 4.0, min: 1.0, max: 9.0 }));
        let summary = Summary::of(vec![8.0, 1.0, 2.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 3.0, min: 1.0, max: 8.0 }));
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn quotient_has_the_extremes_that_both_allow() {
        let summary = |median, min, max| Summary { median, min, max };
        let quotient = summary(20.0, 10.0, 24.0).over(summary(10.0, 8.0, 20.0));
        assert_eq!(quotient, Some(summary(2.0, 0.5, 3.0)));
        assert_eq!(quotient.and_then(|one| one.over(summary(0.0, 0.0, 0.0))), None);
    }

    #[test]
    fn config_keeps_its_order_in_json() {
        let config = Config::new([("threads", 2.into()), ("op", "add".into()), ("profile", "one".into())]);
        let json = serde_json::to_string(&config).expect("a configuration is JSON");
        assert_eq!(json, r#"{"threads":2,"op":"add","profile":"one"}"#);
        let read: Config = serde_json::from_str(&json).expect("the JSON is a configuration");
        assert_eq!(read.to_string(), "threads=2 op=add profile=one");
    }
}
