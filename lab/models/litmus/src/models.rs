//! The memory models: ARMv8, RVWMO and x86-TSO. Each is a list of clauses, which the self-test drops one at a time.
//!
//! A model is consistent with an execution if its *order* has no cycle and the accesses of one location are coherent.
//! All three are multi-copy atomic, so one order of all accesses, on all CPUs, explains an execution.
//!
//! # Sources
//!
//! - ARMv8: Arm Architecture Reference Manual for A-profile, DDI 0487, B2.3 (*Ordering relations*); Pulte, Flur,
//!   Deacon, French, Sarkar, Sewell, *Simplifying ARM concurrency*, POPL 2018. Later issues of the manual add
//!   orderings after atomic instructions that are both Acquire and Release, and after some dependencies (of addresses
//!   by a pick). They are left out, so the model allows more.
//! - RVWMO: The RISC-V Instruction Set Manual, volume I, chapter *RVWMO memory consistency model*: the rules of
//!   preserved program order are numbered as there. An AMO is one operation, a load and a store in one.
//! - x86-TSO: Owens, Sarkar, Sewell, *A better x86 memory model: x86-TSO*, TPHOLs 2009, in the axiomatic form of
//!   Alglave, Maranget, Tautschnig, *Herding cats*, TOPLAS 2014.

use crate::execution::Execution;
use crate::program::{ALL, Architecture, Event, FULL, Fence, Kind, Kinds, LOADS, STORES};
use crate::relation::{Relation, Set};

/// A memory model, perhaps without one of its clauses.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    pub architecture: Architecture,
    pub dropped: Option<&'static str>,
}

/// The clauses of ARMv8. Names use the manual's relations; `L` is a Release, `A` an Acquire, `Q` an AcquirePC.
const ARMV8: [&str; 22] = [
    "internal", // coherence
    "atomic",   // no store in between a read-modify-write
    "rfe",      // observed externally
    "coe",
    "fre",
    "addr", // dependency-ordered-before
    "data",
    "ctrl;[W]",
    "(ctrl|addr;po);[ISB];po;[R]",
    "addr;po;[W]",
    "(ctrl|data);coi",
    "(addr|data);rfi",
    "pick;[W]", // pick-ordered-before
    "pick;[ISB];po",
    "rmw", // atomic-ordered-before
    "[W of rmw];rfi;[A|Q]",
    "dmb full", // barrier-ordered-before
    "dmb ld",
    "dmb st",
    "[L];po;[A]",
    "[A|Q];po",
    "po;[L];coi?",
];

/// The clauses of RVWMO.
const RVWMO: [&str; 17] = [
    "load value",
    "atomicity",
    "rfe",
    "co",
    "fr",
    "1 same location, then a store",
    "2 loads of one location",
    "3 load of an AMO or SC",
    "4 fence",
    "5 acquire",
    "6 release",
    "7 release and acquire",
    "9 address",
    "10 data",
    "11 control",
    "12 load of a dependent store",
    "13 store after a dependent address",
];

/// The clauses of x86-TSO.
const TSO: [&str; 8] = ["coherence", "atomicity", "rfe", "co", "fr", "program order", "mfence", "locked"];

/// Clauses that follow from the others, and are there because the manual has them. What a read-modify-write has seen
/// comes before its store in the order of the stores to the location.
pub const IMPLIED: [&str; 1] = ["rmw"];

/// Collects the clauses that a model has.
struct Order<'a> {
    model: &'a Model,
    pairs: Relation,
}

impl Order<'_> {
    fn add(&mut self, clause: &str, pairs: &Relation) {
        if self.model.has(clause) {
            self.pairs = std::mem::replace(&mut self.pairs, Relation::new(0)).or(pairs);
        }
    }
}

impl Model {
    pub fn clauses(architecture: Architecture) -> &'static [&'static str] {
        match architecture {
            Architecture::AArch64 => &ARMV8,
            Architecture::RiscV => &RVWMO,
            Architecture::X86 => &TSO,
        }
    }

    fn has(&self, clause: &str) -> bool {
        assert!(Self::clauses(self.architecture).contains(&clause), "unknown clause {clause}");
        self.dropped != Some(clause)
    }

    /// Returns `true` if the model allows the execution.
    pub fn is_consistent(&self, execution: &Execution) -> bool {
        match self.architecture {
            Architecture::AArch64 => self.armv8(execution),
            Architecture::RiscV => self.rvwmo(execution),
            Architecture::X86 => self.tso(execution),
        }
    }

    fn order(&self, execution: &Execution) -> Order<'_> {
        Order { model: self, pairs: Relation::new(execution.len()) }
    }

    fn armv8(&self, x: &Execution) -> bool {
        let (loads, stores) = (x.loads(), x.stores());
        if self.has("internal") && !is_coherent(x) || self.has("atomic") && !is_atomic(x) {
            return false;
        }
        let mut ob = self.order(x);
        ob.add("rfe", &x.external(&x.rf));
        ob.add("coe", &x.external(&x.co));
        ob.add("fre", &x.external(&x.fr));

        let (coi, rfi) = (x.internal(&x.co), x.internal(&x.rf));
        let isb = x.set(|event| event.kind == Kind::Fence(Fence::Instruction));
        let address_po = x.address.then(&x.po);
        let before_isb = x.control.clone().or(&address_po).to(isb);
        ob.add("addr", &x.address);
        ob.add("data", &x.data);
        ob.add("ctrl;[W]", &x.control.clone().to(stores));
        ob.add("(ctrl|addr;po);[ISB];po;[R]", &before_isb.then(&x.po.clone().to(loads)));
        ob.add("addr;po;[W]", &address_po.to(stores));
        ob.add("(ctrl|data);coi", &x.control.clone().or(&x.data).then(&coi));
        ob.add("(addr|data);rfi", &x.address.clone().or(&x.data).then(&rfi));

        ob.add("pick;[W]", &x.pick.clone().to(stores));
        ob.add("pick;[ISB];po", &x.pick.clone().to(isb).then(&x.po.clone().to(loads | stores)));

        let acquire = x.set(|event| event.kind == Kind::Load && event.order.acquire);
        let any_acquire = acquire | x.set(|event| event.kind == Kind::Load && event.order.acquire_pc);
        let release = x.set(|event| event.kind == Kind::Store && event.order.release);
        let paired = x.set(|event| event.pair.is_some());
        ob.add("rmw", &x.rmw);
        ob.add("[W of rmw];rfi;[A|Q]", &rfi.from(paired).to(any_acquire));

        ob.add("dmb full", &fenced(x, |fence| fence == FULL));
        let discarded = x.set(|event| event.kind == Kind::Load && event.order.is_discarded);
        ob.add("dmb ld", &fenced(x, |fence| fence == Fence::Between(LOADS, ALL)).from(!discarded));
        ob.add("dmb st", &fenced(x, |fence| fence == Fence::Between(STORES, STORES)));
        ob.add("[L];po;[A]", &x.po.clone().from(release).to(acquire));
        ob.add("[A|Q];po", &x.po.clone().from(any_acquire));
        let to_release = x.po.clone().to(release);
        ob.add("po;[L];coi?", &to_release.then(&coi).or(&to_release));
        ob.pairs.is_acyclic()
    }

    fn rvwmo(&self, x: &Execution) -> bool {
        let (loads, stores) = (x.loads(), x.stores());
        let accesses = loads | stores;
        let same_location = x.po_location();
        // Load value: no load reads from a later store of its thread, or misses an earlier one.
        let misses = |&(load, store): &(usize, usize)| x.po.contains(store, load);
        let from_later = |&(store, load): &(usize, usize)| x.po.contains(load, store);
        if self.has("load value")
            && (x.fr.pairs().any(|pair| misses(&pair)) || x.rf.pairs().any(|pair| from_later(&pair)))
        {
            return false;
        }
        if self.has("atomicity") && !is_atomic(x) {
            return false;
        }
        let mut order = self.order(x);
        order.add("rfe", &x.external(&x.rf));
        order.add("co", &x.co);
        order.add("fr", &x.fr);

        order.add("1 same location, then a store", &same_location.clone().to(stores));
        // The load and the store of an AMO are one operation.
        let operation: Vec<_> = (0..x.len())
            .map(|at| (0..at).find(|&load| x.events[at].is_atomic && x.rmw.contains(load, at)).unwrap_or(at))
            .collect();
        let source = |load: usize| (0..x.len()).find(|&store| x.rf.contains(store, load));
        let is_between = |a: usize, b: usize| {
            (a + 1..b).any(|c| {
                same_location.contains(a, c)
                    && stores >> c & 1 != 0
                    && operation[c] != operation[a]
                    && operation[c] != operation[b]
            })
        };
        let rule_2 = Relation::of(x.len(), |a, b| {
            same_location.contains(a, b)
                && (loads >> a & loads >> b & 1) != 0
                && source(a) != source(b)
                && !is_between(a, b)
        });
        order.add("2 loads of one location", &rule_2);
        let rfi = x.internal(&x.rf);
        order.add("3 load of an AMO or SC", &rfi.clone().from(x.set(|event| event.pair.is_some())));
        order.add("4 fence", &fenced(x, |_| true));
        let has = |is: fn(&Event) -> bool| x.set(is) & accesses;
        let (acquire, release) = (has(|event| event.order.acquire), has(|event| event.order.release));
        order.add("5 acquire", &x.po.clone().from(acquire).to(accesses));
        order.add("6 release", &x.po.clone().from(accesses).to(release));
        order.add("7 release and acquire", &x.po.clone().from(acquire | release).to(acquire | release));
        // Rule 8, a load-reserved and its store-conditional, is a case of rule 1: they have one location.
        order.add("9 address", &x.address);
        order.add("10 data", &x.data);
        order.add("11 control", &x.control.clone().to(stores));
        let depends = x.address.clone().or(&x.data).to(stores);
        order.add("12 load of a dependent store", &depends.then(&rfi));
        order.add("13 store after a dependent address", &x.address.then(&x.po).to(stores));
        let mut operations = Relation::new(x.len());
        for (a, b) in order.pairs.pairs().map(|(a, b)| (operation[a], operation[b])).filter(|(a, b)| a != b) {
            operations.insert(a, b);
        }
        operations.is_acyclic()
    }

    fn tso(&self, x: &Execution) -> bool {
        let (loads, stores) = (x.loads(), x.stores());
        let accesses = loads | stores;
        if self.has("coherence") && !is_coherent(x) || self.has("atomicity") && !is_atomic(x) {
            return false;
        }
        let mut order = self.order(x);
        order.add("rfe", &x.external(&x.rf));
        order.add("co", &x.co);
        order.add("fr", &x.fr);
        let among = x.po.clone().from(accesses).to(accesses);
        let kept = among.clone().from(loads).or(&among.clone().to(stores));
        order.add("program order", &kept);
        order.add("mfence", &fenced(x, |_| true));
        let locked = x.set(|event| event.is_atomic);
        order.add("locked", &among.clone().from(locked).or(&among.to(locked)));
        order.pairs.is_acyclic()
    }
}

/// Returns `true` if the accesses of each location are in one order that agrees with program order.
fn is_coherent(x: &Execution) -> bool {
    x.po_location().or(&x.rf).or(&x.co).or(&x.fr).is_acyclic()
}

/// Returns `true` if no store of another thread comes between the load and the store of a read-modify-write.
fn is_atomic(x: &Execution) -> bool {
    x.external(&x.fr).then(&x.external(&x.co)).and(&x.rmw).is_empty()
}

/// Returns the accesses that fences order.
fn fenced(x: &Execution, is: impl Fn(Fence) -> bool) -> Relation {
    let mut all = Relation::new(x.len());
    for (at, event) in x.events.iter().enumerate() {
        let Kind::Fence(fence) = event.kind else { continue };
        if !is(fence) {
            continue;
        }
        let among = |before: Kinds, after: Kinds| {
            let from = x.po.clone().from(accesses(x, before)).to(1 << at);
            from.then(&x.po.clone().to(accesses(x, after)))
        };
        match fence {
            Fence::Between(before, after) => all = all.or(&among(before, after)),
            Fence::Tso => all = all.or(&among(LOADS, ALL)).or(&among(STORES, STORES)),
            Fence::Instruction => {}
        }
    }
    all
}

fn accesses(x: &Execution, Kinds(loads, stores): Kinds) -> Set {
    (if loads { x.loads() } else { 0 }) | if stores { x.stores() } else { 0 }
}
