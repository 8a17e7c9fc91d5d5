use proptest::prelude::*;
use serde_json::json;

use super::*;

fn shown(sample: &Value, previous: Option<&Value>) -> String {
    text(&Shown { pid: 7, process: Some("a\u{1b}[2J".into()), number: 3, sample, previous })
}

fn sample(unix_ms: u64, grace_periods: u64) -> Value {
    json!({
        "library": "0.2.0", "unix_ms": unix_ms,
        "fence": { "backend": "membarrier", "why": "works", "calls": 2 * grace_periods },
        "domains_in_use": 3,
        "domains": [{
            "name": "app::Routes",
            "stats": {
                "grace_periods": grace_periods, "queued": 10, "queued_bytes": 3 << 20, "done": 5, "limit_waits": 2,
                "limit_overruns": 1, "oldest": { "secs": 2, "nanos": 0 }
            },
            "limits": { "count": 100, "bytes": 4 << 20 },
            "worker": { "state": "running", "thread": 12, "running": { "secs": 3, "nanos": 0 } },
            "grace_period": {
                "number": 8, "waited": { "secs": 4, "nanos": 0 }, "readers": 3,
                "threads": [{ "id": 11, "name": "reader", "registered_at": "a.rs:1:2", "section_at": "a.rs:3:4" }]
            }
        }, {
            "name": "srcu::Domain", "made_at": "b.rs:1:1",
            "grace_period": {
                "number": 5, "waited": { "secs": 0, "nanos": 7_000_000 }, "readers": 2,
                "sections": [{ "at": "b.rs:2:2", "count": 2 }]
            }
        }]
    })
}

#[test]
fn text_names_threads_sections_backlogs_and_workers() {
    let text = shown(&sample(0, 7), None);
    for part in [
        "process 7 (a\\u{1b}[2J), stillpoint 0.2.0, sample 3",
        "fences   membarrier (works); 14, -/s",
        "3 domains, of which 1 are left out",
        "75 %",
        "runs, 3.00 s",
        "thread 11 (reader) holds up grace period 8 of app::Routes, which has waited 4.00 s; it registered at a.rs:1:2; it \
         began its section at a.rs:3:4",
        "\n2 more threads hold up grace period 8 of app::Routes",
        "\nthread 12 has run a callback of app::Routes for 3.00 s",
        "app::Routes: callers above the limits have blocked 2 times, 1 times until the time was up",
        "\n2 sections hold up grace period 5 of srcu::Domain (b.rs:1:1), which has waited 7.00 ms; 2 begun at b.rs:2:2",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

/// Of a narrow terminal with few rows.
#[test]
fn first_columns_and_rows_name_the_thread_and_the_domain_with_most_callbacks() {
    let mut sample = sample(0, 7);
    let long = "company::service::routes::a_long_name_of_a_module::RoutingTable";
    sample["domains"][0]["name"] = long.into();
    sample["domains"][0]["grace_period"]["threads"][0]["name"] = "fifteen-letters".into();
    let idle = (0..61).map(|number| json!({ "name": format!("a{number}"), "stats": { "queued": 9 } }));
    sample["domains"].as_array_mut().expect("a list").extend(idle);
    let text = shown(&sample, None);
    let seen: Vec<&str> = text.lines().take(15).map(|line| &line[..line.len().min(80)]).collect();
    for part in ["thread 11 (fifteen-letters) holds up", "thread 12 has run a callback", &format!("| {long}")]
    {
        assert!(seen.iter().any(|line| line.starts_with(part)), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn rates_are_those_since_the_sample_before() {
    let text = shown(&sample(3000, 27), Some(&sample(1000, 7)));
    for part in ["; 54, 20.0/s", "27 | 10.0 |"] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    // The process has begun again, or the clock was set back.
    assert!(shown(&sample(1000, 7), Some(&sample(3000, 27))).contains("-/s"));
}

#[test]
fn sample_without_fields_or_with_others_is_shown_with_what_is_missing() {
    let text = shown(&json!({ "domains": [{}], "interval": 7 }), Some(&json!({ "domains": {} })));
    assert!(text.contains("stillpoint -") && text.contains("1 domain\n"), "{text}");
}

proptest! {
    #[test]
    fn text_of_any_names_has_no_control_characters(name: String, place: String) {
        let mut hostile = sample(0, 7);
        for pointer in ["/domains/0/name", "/domains/0/worker/state", "/library", "/fence/why", "/domains/1/made_at",
            "/domains/0/grace_period/threads/0/name", "/domains/1/grace_period/sections/0/at"] {
            *hostile.pointer_mut(pointer).expect("a field") = format!("{name}\u{1b}\u{9b}\n\u{202e}{place}").into();
        }
        let text = shown(&hostile, None);
        let is_hostile = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        prop_assert!(!text.chars().any(is_hostile), "{:?}", text);
    }
}
