//! The data in stillpoint.
//!
//! Configuration and sessions are in one [`srcu::Domain`], a value that belongs to the service: a request enters it once
//! for both, could hold its guard across `.await`, and [`close`](srcu::Domain::close) waits for all of them at the end.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use stillpoint::percpu::{Counter, Histogram};
use stillpoint::rcu::Rcu;
use stillpoint::srcu;
use stillpoint_collections::HashMap;
use stillpoint_tokio::BuilderExt as _;
use tokio::runtime::Builder;

use crate::data::{BOUNDS, Config, Data, Session};

/// See the [module](self).
#[derive(Debug)]
pub struct OnStillpoint {
    domain: srcu::Domain,
    config: Rcu<Config, srcu::Domain>,
    sessions: HashMap<u64, Session, RandomState, srcu::Domain>,
    requests: Counter,
    nanoseconds: Histogram,
}

impl Data for OnStillpoint {
    const NAME: &str = "stillpoint";

    fn new(config: Config) -> Self {
        let domain = srcu::Domain::new();
        Self {
            config: Rcu::new_in(config, domain.clone()),
            sessions: HashMap::new_in(domain.clone()),
            requests: Counter::new(),
            nanoseconds: Histogram::new(),
            domain,
        }
    }

    fn prepare(runtime: &mut Builder) {
        runtime.hint_idle_on_park();
    }

    fn page(&self, session: u64, page: &mut Vec<u8>) -> bool {
        let guard = self.domain.enter();
        let Some(session) = self.sessions.get(&session, &guard) else { return false };
        session.visit(self.config.load(&guard), page);
        true
    }

    fn login(&self, session: u64, user: String) {
        self.sessions.insert(session, Session::new(user), &self.domain.enter());
    }

    fn logout(&self, session: u64) -> bool {
        self.sessions.remove(&session, &self.domain.enter()).is_some()
    }

    fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn configure(&self, config: Config) {
        drop(self.config.replace(config));
    }

    fn count(&self, took: Duration) {
        self.requests.add(1);
        self.nanoseconds.record(took.as_nanos() as u64);
    }

    fn metrics(&self) -> String {
        let seen = self.nanoseconds.snapshot();
        let mut text = format!(
            "# HELP requests Requests answered.\n# TYPE requests counter\nrequests {}\n\
             # HELP seconds The time of a request.\n# TYPE seconds histogram\n",
            self.requests.sum()
        );
        for bound in BOUNDS {
            let below = seen.buckets().take_while(|(_, highest, _)| *highest as f64 <= bound * 1e9);
            let count: u64 = below.map(|(_, _, count)| count).sum();
            writeln!(text, "seconds_bucket{{le=\"{bound}\"}} {count}").expect("a String grows");
        }
        let (count, sum) = (seen.count(), seen.sum() as f64 / 1e9);
        write!(text, "seconds_bucket{{le=\"+Inf\"}} {count}\nseconds_sum {sum}\nseconds_count {count}\n")
            .expect("a String grows");
        text
    }

    async fn shut_down(self: Arc<Self>) {
        let domain = self.domain.clone();
        drop(self);
        domain.close().await;
    }
}
