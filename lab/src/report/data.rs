//! Raw results as they are kept: what `report` writes, and `compare` reads.

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::part::Grid;
use crate::harness::Better;
use crate::harness::stats::Summary;

/// All results of a directory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Document {
    /// What `probe` says, by name.
    pub(crate) machine: Vec<(String, String)>,
    pub(crate) results: Vec<Outcome>,
}

/// The result of a bench or an experiment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) bench: String,
    /// Where it was measured.
    pub(crate) machine: Value,
    /// For how long.
    #[serde(default)]
    pub(crate) seconds: f64,
    pub(crate) rows: Vec<Row>,
    #[serde(default)]
    pub(crate) ratios: Vec<Ratio>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<Series>,
    #[serde(default)]
    pub(crate) skipped: Vec<Skipped>,
    /// Figures of the original post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) posted: Option<Posted>,
    #[serde(default)]
    pub(crate) tables: Vec<Grid>,
}

/// See [`crate::harness::stats::Row`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) system: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) config: Config,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// See [`crate::harness::stats::Ratio`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) of: String,
    pub(crate) to: String,
    pub(crate) metric: String,
    pub(crate) better: Better,
    pub(crate) config: Config,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// See [`crate::harness::report::Series`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) system: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) over: String,
    pub(crate) config: Config,
    pub(crate) points: Vec<(f64, f64)>,
}

/// See [`crate::harness::Skipped`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) system: String,
    pub(crate) why: String,
}

/// See [`crate::harness::Posted`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Posted {
    pub(crate) source: String,
    pub(crate) expected: String,
    tables: Vec<Figures>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figures {
    title: String,
    unit: String,
    columns: Vec<String>,
    rows: Vec<FiguresRow>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FiguresRow {
    row: String,
    values: Vec<f64>,
}

/// Parameters in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config(Vec<(String, Value)>);

impl Config {
    /// The parameter `name`, if it is a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(key, _)| key == name)?.1.as_f64()
    }

    /// The parameter `name`, if it is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name)?.1.as_str()
    }

    /// Whether each of `wanted` is a parameter.
    pub(crate) fn has(&self, wanted: &[(&str, Value)]) -> bool {
        wanted.iter().all(|(name, value)| self.0.iter().any(|(key, its)| key == name && its == value))
    }
}

impl Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (key, value)) in self.0.iter().enumerate() {
            let gap = if place == 0 { "" } else { " " };
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
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Config;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of parameters")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Config, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Config(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Document {
    /// Reads the results of a report, or of a single bench or experiment.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is neither.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let value: Value = serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))?;
        let of_report = value.get("results").is_some();
        if !of_report && value.get("bench").is_none() {
            bail!("{name} is neither of `report` nor of a bench or an experiment with --json");
        }
        let read = || {
            Ok(match of_report {
                true => serde_json::from_str(&text)?,
                false => Self { machine: Vec::new(), results: vec![serde_json::from_str(&text)?] },
            })
        };
        read().map_err(|why: serde_json::Error| why).with_context(|| format!("{name} lacks something"))
    }

    /// Writes the results: a line for each row, so that two files can be compared by eye.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(self).context("cannot encode the results")?;
        for item in [r#"{"bench":"#, r#"{"system":"#, r#"{"of":"#, r#"{"title":"#, r#"{"head":"#] {
            text = text.replace(item, &format!("\n{item}"));
        }
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The result of a part.
    pub(crate) fn result(&self, bench: &str) -> Option<&Outcome> {
        self.results.iter().find(|result| result.bench == bench)
    }

    /// Puts a result in the place of an older one.
    pub(super) fn put(&mut self, result: Outcome) {
        match self.results.iter_mut().find(|old| old.bench == result.bench) {
            Some(old) => *old = result,
            None => self.results.push(result),
        }
    }
}

/// What a row is looked up by: metric and some parameters.
pub(super) type Wanted<'a> = (&'a str, &'a [(&'a str, Value)]);

impl Outcome {
    /// The rows of a metric in the configuration that has these parameters.
    pub(super) fn rows<'a>(&'a self, (metric, config): Wanted<'_>) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.metric == metric && row.config.has(config))
    }

    /// A system's row.
    pub(super) fn row(&self, system: &str, wanted: Wanted<'_>) -> Option<&Row> {
        self.rows(wanted).find(|row| row.system == system)
    }

    /// How we compare to `theirs`.
    pub(super) fn ratio(&self, theirs: &str, (metric, config): Wanted<'_>) -> Option<&Ratio> {
        self.ratios
            .iter()
            .find(|ratio| ratio.to == theirs && ratio.metric == metric && ratio.config.has(config))
    }

    /// Different values of a parameter among the rows of a metric, in their order.
    pub(super) fn values(&self, metric: &str, name: &str) -> Vec<f64> {
        let mut values = Vec::new();
        for value in self.rows((metric, &[])).filter_map(|row| row.config.number(name)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}
