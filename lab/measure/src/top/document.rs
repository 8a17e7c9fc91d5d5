//! A sample as JSON. Any field may be missing, as in pages of other versions of the library, or be of another type:
//! then it is unknown. Fields that are not known here are ignored.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde_json::Value;

/// The most characters of a name or place.
const LONGEST: usize = 240;

/// Parses a sample.
pub(super) fn parse(text: &str) -> Result<Value> {
    ensure!(text.starts_with('{'), "the sample is no object of JSON");
    serde_json::from_str(text).map_err(|error| anyhow!("the sample is no JSON: {error}"))
}

/// Returns the elements of a list.
pub(super) fn list(field: &Value) -> &[Value] {
    field.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn time(field: &Value) -> Option<Duration> {
    let (seconds, nanoseconds) = (field["secs"].as_u64()?, field["nanos"].as_u64()?);
    Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanoseconds))
}

/// Returns a text of the process in printable ASCII, of bounded length: a terminal would act on control characters,
/// and a line is as long as it has characters.
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
pub(super) fn one_line(json: &Value) -> String {
    let mut line = String::new();
    let mut units = [0; 2];
    for c in json.to_string().chars() {
        match c {
            ' '..='~' => line.push(c),
            // In a string: there is nothing between the tokens.
            _ => c.encode_utf16(&mut units).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_object_is_refused() {
        let deep = "[".repeat(100_000);
        let refused = [&deep, &format!("{{\"x\":{deep}"), "", "[]", "{} {}", "{\"a\u{1b}\":}"].map(parse);
        for refused in refused {
            let error = format!("{:#}", refused.expect_err("no object"));
            assert!(error.chars().all(|c| matches!(c, ' '..='~')), "{error:?}");
        }
    }

    #[test]
    fn time_that_is_too_long_is_unknown() {
        let parsed =
            parse(r#"{"interval":{"secs":18446744073709551615,"nanos":4294967295}}"#).expect("an object");
        assert_eq!(time(&parsed["interval"]), None);
    }

    proptest! {
        #[test]
        fn one_line_of_any_text_is_printable_with_the_same_meaning(name: String, text: String) {
            let value = serde_json::json!({ name: text });
            let line = one_line(&value);
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
            prop_assert_eq!(parse(&line).expect("still JSON"), value);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,200}") {
            _ = parse(&text);
        }
    }
}
