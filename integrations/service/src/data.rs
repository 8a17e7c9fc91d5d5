//! The data of the service, and what requests do with it.

use std::future::Future;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::Builder;

/// What can be changed while the service runs.
#[derive(Debug)]
pub struct Config {
    /// Begins each page.
    pub greeting: String,
}

/// A user who has logged in.
#[derive(Debug)]
pub struct Session {
    user: String,
    visits: AtomicU64,
}

impl Session {
    /// A session without visits.
    pub fn new(user: String) -> Self {
        Self { user, visits: AtomicU64::new(0) }
    }

    /// Appends the user's next page.
    pub fn visit(&self, config: &Config, page: &mut Vec<u8>) {
        // Relaxed: a number for the user.
        let visit = self.visits.fetch_add(1, Relaxed) + 1;
        writeln!(page, "{}, {}! Visit {visit}.", config.greeting, self.user).expect("a Vec grows");
    }
}

/// The upper bounds of the classes of [`Data::metrics`], in seconds.
pub const BOUNDS: [f64; 6] = [10e-6, 100e-6, 1e-3, 10e-3, 100e-3, 1.0];

/// The data of the service, which all its threads share.
pub trait Data: Send + Sync + Sized + 'static {
    /// Its name in tables and arguments.
    const NAME: &str;

    /// The data of a new service.
    fn new(config: Config) -> Self;

    /// Changes the runtime that the service gets.
    fn prepare(_runtime: &mut Builder) {}

    /// Appends the next page of the session. Returns `false` if there is no such session.
    fn page(&self, session: u64, page: &mut Vec<u8>) -> bool;

    /// Adds a session.
    fn login(&self, session: u64, user: String);

    /// Removes the session. Returns `false` if there is no such session.
    fn logout(&self, session: u64) -> bool;

    /// Returns the number of sessions.
    fn sessions(&self) -> usize;

    /// Replaces the configuration: for requests that begin from now on.
    fn configure(&self, config: Config);

    /// Counts a request.
    fn count(&self, took: Duration);

    /// Returns the counts in the text format of Prometheus.
    fn metrics(&self) -> String;

    /// Waits until all that requests have removed is freed. No request runs any more.
    fn shut_down(self: Arc<Self>) -> impl Future<Output = ()> + Send;
}
