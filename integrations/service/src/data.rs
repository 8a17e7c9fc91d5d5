//! The data of the service, and what requests do with it.
//!
//! Configuration and sessions are in one [`srcu::Domain`], a value that belongs to the service: a request enters it once
//! for both, and could hold its guard across `.await`. At the end a barrier waits for what they have removed.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use stillpoint::percpu::{Counter, Histogram};
use stillpoint::rcu::Rcu;
use stillpoint::{Domain as _, srcu};
use stillpoint_collections::HashMap;

/// What can be changed while the service runs.
#[derive(Debug)]
pub struct Config {
    /// Begins each page.
    pub greeting: String,
}

/// A user who has logged in.
#[derive(Debug)]
struct Session {
    user: String,
    visits: AtomicU64,
}

impl Session {
    fn new(user: String) -> Self {
        Self { user, visits: AtomicU64::new(0) }
    }

    fn visit(&self, config: &Config, page: &mut Vec<u8>) {
        // Relaxed: a number for the user.
        let visit = self.visits.fetch_add(1, Relaxed) + 1;
        writeln!(page, "{}, {}! Visit {visit}.", config.greeting, self.user).expect("a Vec grows");
    }
}

/// The upper bounds of the classes of [`Data::metrics`], in nanoseconds.
const BOUNDS: [u64; 6] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The data of the service, which all its threads share.
#[derive(Debug)]
pub struct Data {
    domain: srcu::Domain,
    config: Rcu<Config, srcu::Domain>,
    sessions: HashMap<u64, Session, RandomState, srcu::Domain>,
    requests: Counter,
    nanoseconds: Histogram,
}

impl Data {
    /// Returns the data of a new service.
    pub fn new(config: Config) -> Self {
        let domain = srcu::Domain::new();
        Self {
            config: Rcu::new_in(config, domain.clone()),
            sessions: HashMap::new_in(domain.clone()),
            requests: Counter::new(),
            nanoseconds: Histogram::new(),
            domain,
        }
    }

    /// Appends the next page of the session. Returns `false` if there is no such session.
    pub fn page(&self, session: u64, page: &mut Vec<u8>) -> bool {
        let guard = self.domain.enter();
        let Some(session) = self.sessions.get(&session, &guard) else { return false };
        session.visit(self.config.load(&guard), page);
        true
    }

    /// Adds a session.
    pub fn login(&self, session: u64, user: String) {
        self.sessions.insert(session, Session::new(user), &self.domain.enter());
    }

    /// Removes the session. Returns `false` if there is no such session.
    pub fn logout(&self, session: u64) -> bool {
        self.sessions.remove(&session, &self.domain.enter()).is_some()
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Replaces the configuration: for requests that begin from now on.
    pub fn configure(&self, config: Config) {
        drop(self.config.replace(config));
    }

    /// Counts a request.
    pub fn count(&self, took: Duration) {
        self.requests.inc();
        self.nanoseconds.record(took.as_nanos() as u64);
    }

    /// Returns the counts in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let seen = self.nanoseconds.snapshot();
        let mut text = format!(
            "# HELP requests Requests answered.\n# TYPE requests counter\nrequests {}\n\
             # HELP seconds The time of a request.\n# TYPE seconds histogram\n",
            self.requests.get()
        );
        for (bound, count) in seen.cumulative(BOUNDS) {
            let seconds = bound as f64 / 1e9;
            writeln!(text, "seconds_bucket{{le=\"{seconds}\"}} {count}").expect("a String grows");
        }
        let (count, sum) = (seen.count(), seen.sum() as f64 / 1e9);
        write!(text, "seconds_bucket{{le=\"+Inf\"}} {count}\nseconds_sum {sum}\nseconds_count {count}\n")
            .expect("a String grows");
        text
    }

    /// Waits until all that requests have removed is freed. No request runs any more.
    pub async fn shut_down(self: Arc<Self>) {
        let domain = self.domain.clone();
        drop(self);
        domain.barrier_async().await;
    }
}
