//! The data in arc-swap, dashmap and prometheus, each used as its documentation recommends: a guard of
//! [`ArcSwap::load`] for a short read, references to entries of the [`DashMap`] that no `.await` sees, counters that are
//! created and registered once.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use prometheus::{Histogram, HistogramOpts, IntCounter, Registry, TextEncoder};

use crate::data::{BOUNDS, Config, Data, Session};

/// See the [module](self).
#[derive(Debug)]
pub struct OnOthers {
    config: ArcSwap<Config>,
    sessions: DashMap<u64, Session>,
    requests: IntCounter,
    seconds: Histogram,
    registry: Registry,
}

impl Data for OnOthers {
    const NAME: &str = "others";

    fn new(config: Config) -> Self {
        let registry = Registry::new();
        let requests = IntCounter::new("requests", "Requests answered.").expect("a valid name");
        let options = HistogramOpts::new("seconds", "The time of a request.").buckets(BOUNDS.to_vec());
        let seconds = Histogram::with_opts(options).expect("valid buckets");
        registry.register(Box::new(requests.clone())).expect("its only counter");
        registry.register(Box::new(seconds.clone())).expect("its only histogram");
        Self { config: ArcSwap::from_pointee(config), sessions: DashMap::new(), requests, seconds, registry }
    }

    fn page(&self, session: u64, page: &mut Vec<u8>) -> bool {
        let Some(session) = self.sessions.get(&session) else { return false };
        session.visit(&self.config.load(), page);
        true
    }

    fn login(&self, session: u64, user: String) {
        self.sessions.insert(session, Session::new(user));
    }

    fn logout(&self, session: u64) -> bool {
        self.sessions.remove(&session).is_some()
    }

    fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn configure(&self, config: Config) {
        self.config.store(Arc::new(config));
    }

    fn count(&self, took: Duration) {
        self.requests.inc();
        self.seconds.observe(took.as_secs_f64());
    }

    fn metrics(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).expect("valid metrics")
    }

    async fn shut_down(self: Arc<Self>) {}
}
