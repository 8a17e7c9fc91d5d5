//! Candidate executions: a trace for each thread, the store that each load reads from, and the order of the stores to
//! each location.

use std::collections::BTreeSet;

use crate::membarrier::{Placed, placements};
use crate::parse::{Place, Proposition, Test, Variant};
use crate::program::{Domain, Event, Kind, Trace};
use crate::relation::{Relation, Set};

/// A candidate execution. Events are numbered from the first one of the first thread on. The initial stores are no
/// events: a load that reads from one reads from `None`, and all stores come after them.
#[derive(Debug)]
pub struct Execution {
    pub events: Vec<Event>,
    pub threads: Vec<usize>,
    /// Program order.
    pub po: Relation,
    /// From a store to the loads that read from it.
    pub rf: Relation,
    /// The order of the stores to one location.
    pub co: Relation,
    /// From a load to the stores after the one that it reads from.
    pub fr: Relation,
    pub address: Relation,
    pub data: Relation,
    pub control: Relation,
    pub pick: Relation,
    /// From the load of a read-modify-write to its store.
    pub rmw: Relation,
}

impl Execution {
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the set of events for which `is` returns `true`.
    pub fn set(&self, is: impl Fn(&Event) -> bool) -> Set {
        self.events.iter().enumerate().filter(|(_, event)| is(event)).fold(0, |set, (at, _)| set | 1 << at)
    }

    pub fn loads(&self) -> Set {
        self.set(|event| event.kind == Kind::Load)
    }

    pub fn stores(&self) -> Set {
        self.set(|event| event.kind == Kind::Store)
    }

    /// Returns the pairs of events of two threads.
    pub fn external(&self, relation: &Relation) -> Relation {
        relation.clone().and(&Relation::of(self.len(), |a, b| self.threads[a] != self.threads[b]))
    }

    /// Returns the pairs of events of one thread.
    pub fn internal(&self, relation: &Relation) -> Relation {
        relation.clone().and(&Relation::of(self.len(), |a, b| self.threads[a] == self.threads[b]))
    }

    /// Returns program order between accesses of one location.
    pub fn po_location(&self) -> Relation {
        let is_access = |event: &Event| !matches!(event.kind, Kind::Fence(_));
        let same = |a: usize, b: usize| {
            is_access(&self.events[a]) && self.events[a].location == self.events[b].location
        };
        self.po.clone().and(&Relation::of(self.len(), same))
    }

    /// Returns the execution as text, for a report.
    pub fn describe(&self, locations: &[String]) -> String {
        let mut lines = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            let location = locations.get(event.location).map_or("handshake", |name| name);
            let what = match event.kind {
                Kind::Fence(fence) => format!("{fence:?}"),
                Kind::Load => {
                    let from = (0..self.len()).find(|&store| self.rf.contains(store, at));
                    let from = from.map_or("the initial store".into(), |store| format!("e{store}"));
                    format!("loads {} from {location}, of {from}", event.value)
                }
                Kind::Store => format!("stores {} to {location}", event.value),
            };
            lines.push(format!("    e{at} P{}: {what}", self.threads[at]));
        }
        let co: Vec<_> = self.co.pairs().map(|(a, b)| format!("e{a} < e{b}")).collect();
        lines.push(format!("    stores in order: {}", co.join(", ")));
        lines.join("\n")
    }
}

/// Calls `f` with each execution that satisfies the condition.
///
/// # Errors
///
/// If the test contains an error.
pub fn each_candidate(
    test: &Test,
    variant: Option<&Variant>,
    f: &mut impl FnMut(&Execution),
) -> Result<(), String> {
    for placed in placements(test.threads(variant)?, test.locations.len()) {
        let (traces, initial) = all_traces(test, &placed)?;
        each_combination(&traces, &mut Vec::new(), &mut |chosen| {
            if test.wanted.holds(chosen, None) == Some(false) {
                return;
            }
            each_execution(chosen, &initial, &mut |execution, last| {
                if test.wanted.holds(chosen, Some(last)) == Some(true) {
                    f(execution);
                }
            });
        });
    }
    Ok(())
}

/// Returns the traces of each thread, and the initial values. The values that loads may return are those that stores
/// store, and so on, along chains that are no longer than the program has stores.
fn all_traces(test: &Test, placed: &Placed) -> Result<(Vec<Vec<Trace>>, Vec<i64>), String> {
    let mut initial = test.initial.clone();
    initial.resize(placed.locations, 0);
    let mut domain: Domain = initial.iter().map(|&value| BTreeSet::from([value])).collect();
    // A handshake's words become 1.
    domain[test.locations.len()..].iter_mut().for_each(|values| _ = values.insert(1));
    let stores = placed.threads.iter().flat_map(|thread| &thread.code).filter(|op| op.stores()).count();
    let mut traces = Vec::new();
    for _ in 0..=stores {
        traces = placed.threads.iter().map(|thread| thread.traces(&domain)).collect::<Result<Vec<_>, _>>()?;
        let before = domain.clone();
        for event in traces.iter().flatten().flat_map(|trace| &trace.events) {
            if event.kind == Kind::Store {
                domain[event.location].insert(event.value);
            }
        }
        if domain == before {
            break;
        }
    }
    Ok((traces, initial))
}

/// Calls `f` with each choice of a trace for each thread.
fn each_combination<'a>(
    traces: &'a [Vec<Trace>],
    chosen: &mut Vec<&'a Trace>,
    f: &mut impl FnMut(&[&'a Trace]),
) {
    match traces.get(chosen.len()) {
        None => f(chosen),
        Some(all) => {
            for trace in all {
                chosen.push(trace);
                each_combination(traces, chosen, f);
                chosen.pop();
            }
        }
    }
}

/// Calls `f` with each execution of these traces, and the last store to each location.
fn each_execution(traces: &[&Trace], initial: &[i64], f: &mut impl FnMut(&Execution, &[i64])) {
    let events: Vec<_> = traces.iter().flat_map(|trace| trace.events.iter().cloned()).collect();
    let threads: Vec<_> = traces
        .iter()
        .enumerate()
        .flat_map(|(thread, trace)| trace.events.iter().map(move |_| thread))
        .collect();
    let len = events.len();
    let first = |at: usize| threads.iter().position(|thread| *thread == threads[at]).expect("it is there");
    // The sets of an event are of its trace.
    let from_sets = |set: &dyn Fn(&Event) -> Set| {
        Relation::of(len, |a, b| threads[a] == threads[b] && set(&events[b]) >> (a - first(a)) & 1 != 0)
    };
    let mut execution = Execution {
        po: Relation::of(len, |a, b| threads[a] == threads[b] && a < b),
        rf: Relation::new(len),
        co: Relation::new(len),
        fr: Relation::new(len),
        address: from_sets(&|event| event.address),
        data: from_sets(&|event| event.data),
        control: from_sets(&|event| event.control),
        pick: from_sets(&|event| event.pick),
        rmw: from_sets(&|event| event.pair.map_or(0, |load| 1 << load)),
        events,
        threads,
    };
    let stores_to = |location: usize| -> Vec<usize> {
        let is_store = |event: &Event| event.kind == Kind::Store && event.location == location;
        (0..len).filter(|&at| is_store(&execution.events[at])).collect()
    };
    let stores: Vec<_> = (0..initial.len()).map(stores_to).collect();
    let loads: Vec<_> = (0..len).filter(|&at| execution.events[at].kind == Kind::Load).collect();
    let mut sources = Vec::new();
    for &load in &loads {
        let Event { location, value, .. } = execution.events[load];
        let matches = stores[location].iter().filter(|&&store| execution.events[store].value == value);
        let mut all: Vec<_> = matches.map(|&store| Some(store)).collect();
        if initial[location] == value {
            all.push(None);
        }
        if all.is_empty() {
            return;
        }
        sources.push(all);
    }
    let orders: Vec<_> = stores.iter().map(|stores| orders(stores)).collect();
    each_choice(&orders, &mut Vec::new(), &mut |orders| {
        execution.co = Relation::new(len);
        for order in orders {
            for (at, &store) in order.iter().enumerate() {
                order[at + 1..].iter().for_each(|&later| execution.co.insert(store, later));
            }
        }
        let value = |store: &usize| execution.events[*store].value;
        let last: Vec<_> =
            orders.iter().zip(initial).map(|(order, &initial)| order.last().map_or(initial, value)).collect();
        each_choice(&sources, &mut Vec::new(), &mut |sources| {
            execution.rf = Relation::new(len);
            execution.fr = Relation::new(len);
            for (&load, source) in loads.iter().zip(sources) {
                if let Some(store) = **source {
                    execution.rf.insert(store, load);
                }
                for &store in &stores[execution.events[load].location] {
                    if source.is_none_or(|source| execution.co.contains(source, store)) {
                        execution.fr.insert(load, store);
                    }
                }
            }
            f(&execution, &last);
        });
    });
}

/// Returns all orders of the stores to one location.
fn orders(stores: &[usize]) -> Vec<Vec<usize>> {
    stores.iter().fold(vec![Vec::new()], |all, &store| {
        let with = |order: Vec<usize>| {
            (0..=order.len()).map(move |at| {
                let mut order = order.clone();
                order.insert(at, store);
                order
            })
        };
        all.into_iter().flat_map(with).collect()
    })
}

/// Calls `f` with each choice of an element of each list.
fn each_choice<'a, T>(lists: &'a [Vec<T>], chosen: &mut Vec<&'a T>, f: &mut impl FnMut(&[&'a T])) {
    match lists.get(chosen.len()) {
        None => f(chosen),
        Some(list) => {
            for element in list {
                chosen.push(element);
                each_choice(lists, chosen, f);
                chosen.pop();
            }
        }
    }
}

impl Proposition {
    /// Returns whether it holds, if that is known: the `last` stores to locations may not be.
    fn holds(&self, traces: &[&Trace], last: Option<&[i64]>) -> Option<bool> {
        match self {
            Self::Equal(Place::Register(thread, register), value) => {
                Some(traces[*thread].registers[*register as usize] == *value)
            }
            Self::Equal(Place::Memory(location), value) => last.map(|last| last[*location] == *value),
            Self::Not(inner) => inner.holds(traces, last).map(|holds| !holds),
            Self::And(all) => combine(all.iter().map(|one| one.holds(traces, last)), false),
            Self::Or(all) => combine(all.iter().map(|one| one.holds(traces, last)), true),
        }
    }
}

/// Returns `decisive` if one of the results is, `None` if one is unknown, and else the opposite.
fn combine(results: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let results: Vec<_> = results.collect();
    if results.contains(&Some(decisive)) {
        Some(decisive)
    } else if results.contains(&None) {
        None
    } else {
        Some(!decisive)
    }
}
