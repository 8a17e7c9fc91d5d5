//! What a sample says: the fields that are shown. All may be missing, as in pages of other versions of the library, and
//! fields that are not known here are ignored.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

/// The most characters of a name or place.
const LONGEST: usize = 240;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Document {
    pub(super) library: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) pid_namespace: Option<u64>,
    pub(super) unix_ms: Option<u64>,
    pub(super) interval: Option<Duration>,
    pub(super) took: Option<Duration>,
    pub(super) fence: Option<Fence>,
    pub(super) workers_idle: Option<bool>,
    pub(super) domains_in_use: Option<u64>,
    pub(super) domains: Vec<Domain>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fence {
    pub(super) backend: Option<String>,
    pub(super) why: Option<String>,
    pub(super) calls: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Domain {
    pub(super) name: Option<String>,
    pub(super) made_at: Option<String>,
    pub(super) stats: Stats,
    pub(super) limits: Option<Limits>,
    pub(super) worker: Worker,
    pub(super) grace_period: Option<GracePeriod>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    pub(super) grace_periods: Option<u64>,
    pub(super) queued: Option<u64>,
    pub(super) protected: Option<u64>,
    pub(super) queued_bytes: Option<u64>,
    pub(super) oldest: Option<Duration>,
    pub(super) done: Option<u64>,
    pub(super) limit_waits: Option<u64>,
    pub(super) limit_overruns: Option<u64>,
    pub(super) panics: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Limits {
    pub(super) count: Option<u64>,
    pub(super) bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Worker {
    pub(super) state: Option<String>,
    pub(super) thread: Option<u32>,
    pub(super) running: Option<Duration>,
    pub(super) waiting: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GracePeriod {
    pub(super) number: Option<u64>,
    pub(super) waited: Option<Duration>,
    pub(super) readers: Option<u64>,
    pub(super) threads: Vec<Reader>,
    pub(super) sections: Vec<Sections>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reader {
    pub(super) id: Option<u32>,
    pub(super) name: Option<String>,
    pub(super) registered_at: Option<String>,
    pub(super) section_at: Option<String>,
    pub(super) has_exited: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sections {
    pub(super) at: Option<String>,
    pub(super) count: Option<u64>,
}

impl Document {
    /// Parses a sample, all of it: also what is not shown is JSON.
    pub(super) fn parse(text: &str) -> Result<Self> {
        ensure!(text.starts_with('{'), "the sample is no object of JSON");
        // The error quotes the names of fields as they are.
        serde_json::from_str(text).map_err(|error| {
            anyhow!("the sample is not one that this command knows: {}", printable(&error.to_string()))
        })
    }
}

/// Returns a text of the process in printable ASCII, of bounded length: a terminal would act on control characters, and a
/// line is as long as it has characters.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::new();
    for c in text.chars().take(LONGEST) {
        match c {
            ' '..='~' => printable.push(c),
            _ => printable.extend(c.escape_unicode()),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        printable.push_str("...");
    }
    printable
}

/// Returns the JSON of a sample in one line of printable ASCII, with the same meaning. A terminal would act on the
/// control characters that JSON allows in strings.
pub(super) fn one_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        match c {
            ' '..='~' => line.push(c),
            // Between tokens: JSON does not allow them in strings.
            '\0'..='\x1f' => line.push(' '),
            // In strings, or it would not be JSON.
            _ => c.encode_utf16(&mut units).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Other versions of the library.
    #[test]
    fn missing_fields_are_unknown_and_unknown_ones_ignored() {
        let older = Document::parse("{}").expect("a document");
        assert!(older.pid.is_none() && older.domains.is_empty());
        let newer = json!({
            "pid": 7, "surprise": [1, {}], "fence": null,
            "domains": [{ "name": "a", "stats": { "queued": 3, "colour": "red" }, "worker": {} }]
        });
        let newer = Document::parse(&newer.to_string()).expect("a document");
        assert_eq!((newer.pid, newer.domains[0].stats.queued), (Some(7), Some(3)));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = "[".repeat(100_000);
        let refused =
            [&deep, &format!("{{\"x\":{deep}"), "", "[]", "{\"pid\":-1}", "{} {}", "{\"domains\":{}}"]
                .map(Document::parse);
        assert!(refused.iter().all(Result::is_err));
        let too_long = r#"{"interval":{"secs":18446744073709551615,"nanos":4294967295}}"#;
        assert!(Document::parse(too_long).is_err());
    }

    #[test]
    fn one_line_has_no_control_characters_and_the_same_meaning() {
        let hostile = json!({ "name\u{9b}2J": "\u{1b}[31m\n\u{7f}\u{9b}\u{202e}\u{1f600}\"\\é" });
        let pretty = serde_json::to_string_pretty(&hostile).expect("plain data");
        let line = one_line(&pretty);
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).expect("still JSON"), hostile);
    }

    proptest! {
        #[test]
        fn one_line_keeps_the_meaning_of_any_string(text: String) {
            let json = serde_json::to_string(&text).expect("plain data");
            let line = one_line(&json);
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(serde_json::from_str::<String>(&line).expect("still JSON"), text);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,200}") {
            _ = Document::parse(&text);
        }
    }
}
