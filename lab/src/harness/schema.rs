//! What a measurement finds, in the form in which it is shown, written as JSON and read again.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::posted::Posted;
use super::units::digits;

/// A name: a constant of this program, or read from a file.
pub(crate) type Text = Cow<'static, str>;

/// Whether a smaller or a larger value is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Smaller values are better, as for latencies.
    Lower,
    /// Larger values are better, as for rates.
    Higher,
}

/// The parameters of a cell, in the order in which tables show them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Config(Map<String, Value>);

impl Config {
    /// Collects parameters.
    pub(crate) fn new<const N: usize>(pairs: [(&str, Value); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns the value of a parameter, as tables show it.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(plain)
    }

    /// Returns the value of a parameter, if it is a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// Returns the names of the parameters.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Returns the values of the parameters, as tables show them.
    pub(crate) fn values(&self) -> impl Iterator<Item = String> {
        self.0.values().map(plain)
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

    /// Returns the quotient to `other`, which was measured in other rounds: of the medians, and the least and the
    /// greatest that the extremes allow. `None` if it is not defined.
    pub(crate) fn over(self, other: Self) -> Option<Self> {
        let (median, min, max) = (self.median / other.median, self.min / other.max, self.max / other.min);
        (other.min > 0.0 && self.min >= 0.0).then_some(Self { median, min, max })
    }

    /// Returns the extremes, as `least..greatest`.
    pub(crate) fn range(self) -> String {
        format!("{}..{}", digits(self.min), digits(self.max))
    }
}

/// The median, extremes and identity of one measured quantity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) system: Text,
    pub(crate) metric: Text,
    pub(crate) unit: Text,
    pub(crate) better: Better,
    pub(crate) config: Config,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// How one system compares to another, round by round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) of: Text,
    pub(crate) to: Text,
    pub(crate) metric: Text,
    pub(crate) better: Better,
    pub(crate) config: Config,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// More than a single number: a course over time, or a histogram.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) system: Text,
    /// Name of the values.
    pub(crate) metric: Text,
    /// Unit of the values.
    pub(crate) unit: Text,
    /// What the values are a function of, with its unit as suffix.
    pub(crate) over: Text,
    pub(crate) config: Config,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A measurement that did not take place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    /// What was to be measured.
    pub(crate) system: Text,
    /// Why it was not, and what would change that.
    pub(crate) why: String,
}

/// What a post reports: see [`Posted`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Quoted {
    pub(crate) source: Text,
    pub(crate) expected: Text,
    tables: Value,
}

impl From<&'static Posted> for Quoted {
    fn from(posted: &'static Posted) -> Self {
        let tables = serde_json::to_value(posted.tables).unwrap_or_default();
        Self { source: posted.source.into(), expected: posted.expected.into(), tables }
    }
}

/// A table as the command prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Grid {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(title: String, table: &comfy_table::Table) -> Self {
        let cells = |row: &comfy_table::Row| row.cell_iter().map(|cell| cell.content()).collect();
        let head = table.header().map(cells).unwrap_or_default();
        Self { title, head, rows: table.row_iter().map(cells).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_middle_value_or_mean_of_middle_two() {
        let summary = Summary::of(vec![9.0, 1.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 4.0, min: 1.0, max: 9.0 }));
        let summary = Summary::of(vec![8.0, 1.0, 2.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 3.0, min: 1.0, max: 8.0 }));
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn config_keeps_its_order_in_json() {
        let config = Config::new([("threads", 2.into()), ("op", "add".into()), ("cpus", 1.into())]);
        let json = serde_json::to_string(&config).expect("a configuration is JSON");
        assert_eq!(json, r#"{"threads":2,"op":"add","cpus":1}"#);
        let read: Config = serde_json::from_str(&json).expect("the JSON is a configuration");
        assert_eq!(read.to_string(), "threads=2 op=add cpus=1");
    }
}
