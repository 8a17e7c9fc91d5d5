//! The events of grace periods and stalls that subscribers of `tracing` receive.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu;
use stillpoint::srcu;
use support::child;
use support::deadline::deadline;
use tracing::field::{Field, Visit};
use tracing::subscriber::{set_global_default, with_default};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;

/// An event: its level and its fields.
type Seen = (Level, BTreeMap<&'static str, String>);

/// Records the events of the library, and calls `also` for each.
#[derive(Clone)]
struct Capture {
    seen: Arc<Mutex<Vec<Seen>>>,
    also: fn(),
}

impl Capture {
    fn new(also: fn()) -> Self {
        Self { seen: Arc::default(), also }
    }

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
        (self.also)();
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

/// Returns the events of this thread while `f` runs.
fn captured(also: fn(), f: impl FnOnce()) -> Vec<Seen> {
    let capture = Capture::new(also);
    with_default(registry().with(capture.clone()), f);
    capture.seen()
}

#[test]
fn grace_period_is_an_event_of_its_leader() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let seen = captured(|| {}, || (0..3).for_each(|_| Own.synchronize()));
    let numbers: Vec<_> = seen.iter().map(|(_, fields)| fields["number"].as_str()).collect();
    assert_eq!(numbers, ["1", "2", "3"]);
    for (level, fields) in &seen {
        assert_eq!((*level, fields["message"].as_str()), (Level::TRACE, "grace period"));
        assert_eq!(fields["domain"], type_name::<Own>());
        assert!(fields["took"].ends_with('s'), "{fields:?}");
    }

    let domain = srcu::Domain::new();
    let seen = captured(|| {}, || domain.synchronize());
    assert_eq!(seen.len() as u64, domain.stats().grace_periods);
    assert_eq!(seen[0].1["domain"], "srcu::Domain");
}

#[test]
fn delayed_grace_period_is_a_debug_event() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let seen = captured(
        || {},
        || {
            let (entered, enters) = std::sync::mpsc::channel();
            let reader = thread::spawn(move || {
                let guard = Own::enter();
                entered.send(()).expect("the test receives");
                while Own.stats().sleeps == 0 {
                    thread::yield_now();
                }
                drop(guard);
            });
            enters.recv().expect("the reader enters");
            Own.synchronize();
            reader.join().expect("the reader does not panic");
        },
    );
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].0, seen[0].1["message"].as_str()),
        (Level::DEBUG, "grace period, held up by readers")
    );
}

#[test]
fn subscriber_may_wait_and_panic() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    // The grace period that the subscriber waits for makes no event.
    let seen = captured(|| Own.synchronize(), || Own.synchronize());
    assert_eq!((seen.len(), Own.stats().grace_periods), (1, 2));

    let seen = captured(|| panic!("this panic is part of a test"), || Own.synchronize());
    assert_eq!((seen.len(), Own.stats().grace_periods), (1, 3));
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
    let capture = Capture::new(|| {});
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
    let warned: Vec<_> = seen.iter().filter(|(level, _)| *level == Level::WARN).collect();
    assert_eq!(!warned.is_empty(), variant == "subscriber");
    for (_, fields) in warned {
        assert_eq!((fields["domain"].as_str(), fields["number"].as_str()), (type_name::<Own>(), "1"));
        assert!(fields["message"].contains(", which registered at "), "{fields:?}");
    }
}
