//! The data of the service, and what requests do with it.
//!
//! Configuration and sessions are in one [`srcu::Domain`], a value that belongs to the service: a request enters it
//! once for both, and could hold its guard across `.await`. At the end a barrier waits for what they have removed.

use std::collections::hash_map::RandomState;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillpoint::percpu::Counter;
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

/// The data of the service, which all its threads share.
#[derive(Debug)]
pub struct Data {
    domain: srcu::Domain,
    config: Rcu<Config, srcu::Domain>,
    sessions: HashMap<u64, Session, RandomState, srcu::Domain>,
    requests: Counter,
}

impl Data {
    /// Returns the data of a new service.
    pub fn new(config: Config) -> Self {
        let domain = srcu::Domain::new();
        Self {
            config: Rcu::new_in(config, domain.clone()),
            sessions: HashMap::new_in(domain.clone()),
            requests: Counter::new(),
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
    pub fn count(&self) {
        self.requests.inc();
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Waits until all that requests have removed is freed. No request runs any more.
    pub async fn shut_down(self: Arc<Self>) {
        let domain = self.domain.clone();
        drop(self);
        domain.barrier_async().await;
    }
}
