//! What runs the callbacks of a batch.

use super::state::CallbackWorker;
use crate::readers::any::AnyEngine;
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{self, RawDomain, address};
use crate::reclaim::hazards::Hazards;
use crate::slots::protected::Protected;
use crate::sync::step;

/// What each callback of a batch needs of its domain, read once.
pub(in crate::reclaim) struct Runner<'a> {
    worker: &'a CallbackWorker,
    domain: &'a dyn RawDomain,
    address: *const (),
    pub(in crate::reclaim) engine: &'a AnyEngine,
    hazards: Option<&'a Hazards>,
}

impl CallbackWorker {
    /// For a batch of callbacks.
    pub(in crate::reclaim) fn runner<'a>(&'a self, domain: &'a dyn RawDomain) -> Runner<'a> {
        let (engine, hazards) = (domain.engine(), domain.hazards());
        Runner { worker: self, domain, address: address(domain), engine, hazards }
    }
}

impl Runner<'_> {
    /// Runs a callback whose grace period has ended, or keeps it, if a hazard pointer protects its value.
    /// `protected`: see [`Hazards::is_protected`].
    #[inline(always)]
    pub(in crate::reclaim) fn run(&self, callback: Callback, protected: &mut Option<Protected>) {
        if let Some(hazards) = self.hazards {
            if hazards.is_protected(&callback, protected, self.engine) {
                step!("protected-value-freed", {
                    hazards.keep(callback);
                    // For when no other work comes.
                    return step!("kept-without-notify", self.worker.notify(self.domain));
                });
            }
        }
        domain::run(self.domain, self.address, callback);
    }
}
