//! The events of stalls that subscribers of `tracing` receive.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu;
use support::child;
use support::deadline::deadline;
use tracing::field::{Field, Visit};
use tracing::subscriber::set_global_default;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;

/// An event: its level and its fields.
type Seen = (Level, BTreeMap<&'static str, String>);

/// Records the events of the library.
#[derive(Clone, Default)]
struct Capture {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Capture {
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic under the lock").clone()
    }
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        assert_eq!(event.metadata().target(), "stillpoint");
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.seen.lock().expect("no panic under the lock").push((*event.metadata().level(), fields.0));
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

#[test]
fn stall_is_a_warning_with_a_subscriber() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    // Stderr, the stall timeout and the default subscriber are global to the process.
    let name = stall_is_a_warning_with_a_subscriber;
    let Some(variant) = child::variant() else {
        for variant in ["subscriber", "none"] {
            let stderr = child::stderr(name, variant, None);
            assert_eq!(stderr.contains("stillpoint: grace period 1 of "), variant == "none", "{stderr}");
        }
        return;
    };
    let capture = Capture::default();
    if variant == "subscriber" {
        set_global_default(registry().with(capture.clone())).expect("there is no other subscriber");
    }
    rcu::set_stall_timeout(Some(Duration::from_millis(1)));
    let guard = Own::enter();
    let writer = thread::spawn(|| Own.synchronize());
    while Own.stats().stalls == 0 {
        thread::yield_now();
    }
    drop(guard);
    writer.join().expect("the writer does not panic");
    let seen = capture.seen();
    assert_eq!(!seen.is_empty(), variant == "subscriber");
    for (level, fields) in seen {
        assert_eq!(level, Level::WARN);
        assert_eq!((fields["domain"].as_str(), fields["number"].as_str()), (type_name::<Own>(), "1"));
        assert!(fields["message"].contains(", which registered at "), "{fields:?}");
    }
}
