//! The systems, and the workers that measure them.

use core::array;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use stillpoint::Domain as _;

use super::jobs::{self, JOBS, Job};
use super::load::{Cell, Load, Maps};
use super::{churn, latency, memory};
use crate::peers::counters::{self, Counters};
use crate::peers::maps::{self, Map};
use harness::System;
use harness::worker::{self, Worker};

/// A request to a worker. The time is that of a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Request {
    /// The only one that a worker is asked more than once: it keeps the maps.
    Load(Cell, Duration),
    /// Beside resizes, or not.
    Latency(bool, Duration),
    Memory,
    /// With strings as keys, or not, by so many threads.
    Churn(bool, usize, Duration),
    /// A job by its index, by so many threads.
    Job(usize, usize, Duration),
    Million,
}

/// What a system can do.
#[derive(Clone, Copy)]
pub struct Measures {
    /// With numbers as keys and values.
    pub numbers: Option<Numbers>,
    /// With strings as keys.
    pub strings: Option<churn::Churn>,
    pub jobs: [Option<Job>; JOBS.len()],
}

#[derive(Clone, Copy)]
pub struct Numbers {
    load: fn() -> Box<Load>,
    latency: fn(bool, Duration) -> anyhow::Result<f64>,
    memory: fn() -> [f64; 2],
    churn: churn::Churn,
    million: fn() -> [f64; 4],
}

const fn numbers<M: Map>() -> Numbers {
    Numbers {
        load: || Maps::<M>::default().into_load(),
        latency: latency::run::<M>,
        memory: memory::run::<M>,
        churn: churn::run::<u64, M>,
        million: jobs::million::<M>,
    }
}

const fn counters<N: Counters<u64>, W: Counters<str>>() -> System<Measures> {
    let jobs = [Some(jobs::count::<N> as Job), Some(jobs::words::<W>), None, None, None];
    System { name: N::NAME, measure: Measures { numbers: None, strings: None, jobs } }
}

macro_rules! all {
    ($name:ident) => {{
        let mut system = counters::<counters::$name<u64>, counters::$name<str>>();
        let [_, _, cache, cache_strings, churn] = &mut system.measure.jobs;
        *cache = Some(jobs::cache::<u64, maps::$name>);
        *cache_strings = Some(jobs::cache::<String, maps::$name<u64, String>>);
        *churn = Some(jobs::churn::<maps::$name>);
        system.measure.numbers = Some(numbers::<maps::$name>());
        system.measure.strings = Some(churn::run::<String, maps::$name<String>>);
        system
    }};
}

const COPY: Measures = Measures {
    numbers: Some(numbers::<maps::CopyMap>()),
    strings: None,
    jobs: [
        Some(jobs::count::<counters::CopyMap>),
        None,
        Some(jobs::cache::<u64, maps::CopyMap>),
        None,
        Some(jobs::churn::<maps::CopyMap>),
    ],
};

/// All of them.
pub const SYSTEMS: [System<Measures>; 9] = [
    all!(Stillpoint),
    counters::<counters::StillpointAtomic<u64>, counters::StillpointAtomic<str>>(),
    System { name: <maps::CopyMap as Map>::NAME, measure: COPY },
    all!(Papaya),
    counters::<counters::PapayaAtomic<u64>, counters::PapayaAtomic<str>>(),
    all!(Dashmap),
    all!(Scc),
    all!(SccIndex),
    all!(Locked),
];

/// Starts a worker.
pub fn start(system: &str) -> anyhow::Result<Worker> {
    Worker::start(&["map", system], None)
}

/// Has a new worker measure.
pub fn measure<const N: usize>(system: &str, request: Request) -> anyhow::Result<[f64; N]> {
    measure_in(&mut start(system)?, request)
}

/// Has a worker measure.
pub fn measure_in<const N: usize>(worker: &mut Worker, request: Request) -> anyhow::Result<[f64; N]> {
    // JSON has no NaN.
    let answer: Vec<Option<f64>> = worker.measure(&request)?;
    Ok(array::from_fn(|at| answer[at].unwrap_or(f64::NAN)))
}

/// Has threads of the library run at the same time. Their stacks, which are mapped as a whole and hardly touched, are
/// no part of a map: the C library keeps them for later ones.
fn map_stacks() {
    let all = Arc::new(Barrier::new(3));
    let domains: [_; 3] = array::from_fn(|_| stillpoint::srcu::Domain::new());
    for domain in &domains {
        let all = Arc::clone(&all);
        domain.call(move || _ = all.wait());
    }
    domains.iter().for_each(|domain| domain.barrier());
}

/// Runs a worker.
pub fn serve(args: &worker::Args) -> anyhow::Result<()> {
    let system = SYSTEMS.into_iter().find(|system| system.name == args.name).context("no such system")?;
    let Measures { numbers, strings, jobs } = system.measure;
    let mut load = None;
    map_stacks();
    worker::serve(None, |request| {
        let numbers = numbers.context("it is no map of numbers");
        Ok(match request {
            Request::Load(cell, time) => load.get_or_insert_with(numbers?.load)(cell, time)?.to_vec(),
            Request::Latency(resizes, time) => vec![(numbers?.latency)(resizes, time)?],
            Request::Memory => (numbers?.memory)().to_vec(),
            Request::Churn(false, threads, time) => (numbers?.churn)(threads, time)?.to_vec(),
            Request::Churn(true, threads, time) => strings.context("no strings")?(threads, time)?.to_vec(),
            Request::Job(job, threads, time) => jobs[job].context("no such job")?(threads, time)?.to_vec(),
            Request::Million => (numbers?.million)().to_vec(),
        })
    })
}
