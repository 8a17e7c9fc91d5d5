//! Programs of threads, and their traces: what a thread does if its loads return given values.
//!
//! A trace records, for each memory access, the loads on which its address and its data depend, and those on which a
//! branch before it depends. A dependency goes through registers only. A *pick dependency* is on a load whose value
//! was only compared: the value that the dependent access uses may be from elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::relation::Set;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    AArch64,
    RiscV,
    X86,
}

impl Architecture {
    /// The names of the architectures in headers.
    pub const ALL: [(&str, Self); 3] =
        [("AArch64", Self::AArch64), ("RISCV", Self::RiscV), ("X86", Self::X86)];

    /// Returns the name of the target.
    pub fn name(self) -> &'static str {
        match self {
            Self::AArch64 => "aarch64",
            Self::RiscV => "riscv64",
            Self::X86 => "x86_64",
        }
    }
}

/// A register. Those of the three architectures have their own numbers.
pub type Register = u8;
/// Reads as 0, and ignores what is written to it.
pub const ZERO: Register = 63;
const REGISTERS: usize = 64;

/// Returns the address of a location.
pub fn address(location: usize) -> i64 {
    0x1_0000 * (location as i64 + 1)
}

/// Returns the location at an address.
fn location(address: i64, locations: usize) -> Result<usize, String> {
    let number = address / 0x1_0000 - 1;
    if address % 0x1_0000 == 0 && (0..locations as i64).contains(&number) {
        Ok(number as usize)
    } else {
        Err(format!("{address:#x} is the address of no location"))
    }
}

/// The ordering that an instruction gives to its accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Order {
    /// ARMv8: Acquire. RISC-V: `.aq`, also of the store of an AMO.
    pub acquire: bool,
    /// ARMv8: AcquirePC, as by `LDAPR`.
    pub acquire_pc: bool,
    /// ARMv8: Release. RISC-V: `.rl`, also of the load of an AMO.
    pub release: bool,
    /// ARMv8: an atomic instruction that discards what it loads. `DMB LD` does not order the load.
    pub is_discarded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Orders accesses of the first kinds against accesses of the second kinds, as RISC-V's `fence`.
    Between(Kinds, Kinds),
    /// RISC-V's `fence.tso`.
    Tso,
    /// ARMv8's `ISB`.
    Instruction,
}

/// Kinds of accesses: loads, stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(pub bool, pub bool);

pub const LOADS: Kinds = Kinds(true, false);
pub const STORES: Kinds = Kinds(false, true);
pub const ALL: Kinds = Kinds(true, true);
pub const FULL: Fence = Fence::Between(ALL, ALL);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    Register(Register),
    Value(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Add,
    Sub,
    And,
    AndNot,
    Or,
    Xor,
    /// The second operand.
    Second,
}

impl Function {
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::And => a & b,
            Self::AndNot => a & !b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Second => b,
        }
    }
}

/// When a branch is taken. Comparisons are unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Always,
    Equal,
    NotEqual,
    NotBelow,
}

impl Test {
    fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Self::Always => true,
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::NotBelow => a as u64 >= b as u64,
        }
    }
}

/// An instruction, as the memory models see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Nop,
    Compute {
        to: Register,
        function: Function,
        a: Operand,
        b: Operand,
    },
    Load {
        to: Register,
        at: Register,
        index: Option<Register>,
        order: Order,
        exclusive: bool,
    },
    Store {
        from: Operand,
        at: Register,
        index: Option<Register>,
        order: Order,
    },
    /// Fails, or stores if the last exclusive load has the same address. 0 in `status` means success. If
    /// `status_depends`, what depends on the status depends on the store, as in RISC-V.
    StoreExclusive {
        status: Register,
        from: Register,
        at: Register,
        order: Order,
        status_depends: bool,
    },
    /// An atomic read-modify-write of one instruction.
    Modify {
        to: Register,
        function: Function,
        by: Operand,
        at: Register,
        order: Order,
    },
    /// The same, without a store if the value is not `expected`. The old value goes to `to`: if it is the
    /// expected one, either the one loaded or `expected` itself, which differ in what they depend on.
    CompareSwap {
        to: Register,
        expected: Register,
        new: Register,
        at: Register,
        order: Order,
    },
    Fence(Fence),
    /// Copies what a later branch compares.
    Compare {
        left: Register,
        right: Register,
        a: Operand,
        b: Operand,
    },
    Branch {
        test: Test,
        a: Operand,
        b: Operand,
        to: String,
    },
    Label(String),
    /// A membarrier. `aborts`: it aborts rseq critical sections. See `membarrier.rs`.
    Membarrier {
        aborts: bool,
    },
    /// A load that has returned this value. Executions in which it has not are of no interest.
    Await {
        at: usize,
        value: i64,
    },
    /// A store of a value to a location.
    Put {
        at: usize,
        value: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Load,
    Store,
    Fence(Fence),
}

impl Op {
    /// Returns `true` if the instruction may store.
    pub fn stores(&self) -> bool {
        matches!(
            self,
            Self::Store { .. }
                | Self::StoreExclusive { .. }
                | Self::Modify { .. }
                | Self::CompareSwap { .. }
                | Self::Put { .. }
        )
    }
}

/// A memory access or a fence of a trace. Sets are of events of the same trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub location: usize,
    pub value: i64,
    pub order: Order,
    pub address: Set,
    pub data: Set,
    pub control: Set,
    /// The pick dependencies, of the address, of the data and by branches.
    pub pick: Set,
    /// The load of the same read-modify-write.
    pub pair: Option<usize>,
    /// The pair is one instruction.
    pub is_atomic: bool,
}

#[derive(Debug, Clone)]
pub struct Trace {
    pub events: Vec<Event>,
    pub registers: Vec<i64>,
}

/// The values that each location may have.
pub type Domain = Vec<BTreeSet<i64>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub code: Vec<Op>,
    pub registers: BTreeMap<Register, i64>,
}

/// What a value or an access depends on.
#[derive(Debug, Clone, Copy, Default)]
struct Sources {
    loads: Set,
    picks: Set,
}

impl Sources {
    fn load(loads: Set) -> Self {
        Self { loads, picks: 0 }
    }

    fn and(self, other: Self) -> Self {
        Self { loads: self.loads | other.loads, picks: self.picks | other.picks }
    }
}

#[derive(Debug, Clone)]
struct State {
    next: usize,
    values: Vec<i64>,
    /// What the values depend on.
    sources: Vec<Sources>,
    control: Sources,
    /// The last exclusive load, and its location.
    exclusive: Option<(usize, usize)>,
    events: Vec<Event>,
}

impl State {
    fn get(&self, register: Register) -> (i64, Sources) {
        let number = register as usize;
        if register == ZERO { Default::default() } else { (self.values[number], self.sources[number]) }
    }

    fn operand(&self, operand: Operand) -> (i64, Sources) {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Value(value) => (value, Sources::default()),
        }
    }

    fn set(&mut self, register: Register, value: i64, sources: Sources) {
        if register != ZERO {
            (self.values[register as usize], self.sources[register as usize]) = (value, sources);
        }
    }

    /// Adds an event. Returns it as a set.
    fn access(
        &mut self,
        kind: Kind,
        location: usize,
        value: i64,
        order: Order,
        address: Sources,
        data: Sources,
    ) -> Set {
        assert!(self.events.len() < 64);
        let pick = address.and(data).and(self.control).picks;
        let (address, data, control) = (address.loads, data.loads, self.control.loads);
        let (pair, is_atomic) = (None, false);
        self.events.push(Event {
            kind,
            location,
            value,
            order,
            address,
            data,
            control,
            pick,
            pair,
            is_atomic,
        });
        1 << (self.events.len() - 1)
    }

    fn pair_with(&mut self, load: usize, is_atomic: bool) {
        let store = self.events.last_mut().expect("a store was added");
        (store.pair, store.is_atomic) = (Some(load), is_atomic);
        self.events[load].is_atomic = is_atomic;
    }
}

impl Thread {
    /// Returns the traces in which each load returns one of the values of its location.
    pub fn traces(&self, domain: &Domain) -> Result<Vec<Trace>, String> {
        let mut values = vec![0; REGISTERS];
        for (&register, &value) in &self.registers {
            values[register as usize] = value;
        }
        let (sources, control) = (vec![Sources::default(); REGISTERS], Sources::default());
        let start = State { next: 0, values, sources, control, exclusive: None, events: Vec::new() };
        let (mut pending, mut traces) = (vec![start], Vec::new());
        while let Some(mut state) = pending.pop() {
            match self.code.get(state.next) {
                None => traces.push(Trace { events: state.events, registers: state.values }),
                Some(op) => {
                    state.next += 1;
                    self.step(op, state, domain, &mut pending)?;
                }
            }
        }
        Ok(traces)
    }

    /// Executes an instruction. Adds the states to which it may lead to `pending`.
    fn step(
        &self,
        op: &Op,
        mut state: State,
        domain: &Domain,
        pending: &mut Vec<State>,
    ) -> Result<(), String> {
        // The location, and what the address depends on.
        let at = |state: &State, at: Register, index: Option<Register>| {
            let ((base, a), (offset, b)) = (state.get(at), state.get(index.unwrap_or(ZERO)));
            location(base.wrapping_add(offset), domain.len()).map(|location| (location, a.and(b)))
        };
        let none = Sources::default();
        match *op {
            Op::Nop | Op::Label(_) => {}
            Op::Compute { to, function, a, b } => {
                let ((a, of_a), (b, of_b)) = (state.operand(a), state.operand(b));
                state.set(to, function.apply(a, b), of_a.and(of_b));
            }
            Op::Load { to, at: base, index, order, exclusive } => {
                let (location, address) = at(&state, base, index)?;
                for &value in &domain[location] {
                    let mut state = state.clone();
                    let load = state.access(Kind::Load, location, value, order, address, none);
                    state.set(to, value, Sources::load(load));
                    if exclusive {
                        state.exclusive = Some((state.events.len() - 1, location));
                    }
                    pending.push(state);
                }
                return Ok(());
            }
            Op::Store { from, at: base, index, order } => {
                let ((location, address), (value, data)) = (at(&state, base, index)?, state.operand(from));
                state.access(Kind::Store, location, value, order, address, data);
            }
            Op::StoreExclusive { status, from, at: base, order, status_depends } => {
                let ((location, address), (value, data)) = (at(&state, base, None)?, state.get(from));
                let exclusive = state.exclusive.take();
                let mut failed = state.clone();
                failed.set(status, 1, none);
                pending.push(failed);
                let Some((load, _)) = exclusive.filter(|&(_, reserved)| reserved == location) else {
                    return Ok(());
                };
                let store = state.access(Kind::Store, location, value, order, address, data);
                state.pair_with(load, false);
                state.set(status, 0, Sources::load(if status_depends { store } else { 0 }));
            }
            Op::Modify { to, function, by, at: base, order } => {
                let ((location, address), (by, of_by)) = (at(&state, base, None)?, state.operand(by));
                for &value in &domain[location] {
                    let mut state = state.clone();
                    let load = state.access(Kind::Load, location, value, order, address, none);
                    let new = function.apply(value, by);
                    let number = state.events.len() - 1;
                    state.access(Kind::Store, location, new, order, address, of_by);
                    state.pair_with(number, true);
                    state.set(to, value, Sources::load(load));
                    pending.push(state);
                }
                return Ok(());
            }
            Op::CompareSwap { to, expected, new, at: base, order } => {
                let (location, address) = at(&state, base, None)?;
                let ((expected, of_expected), (new, data)) = (state.get(expected), state.get(new));
                for &value in &domain[location] {
                    let mut state = state.clone();
                    let load = state.access(Kind::Load, location, value, order, address, none);
                    if value == expected {
                        let number = state.events.len() - 1;
                        state.access(Kind::Store, location, new, order, address, data);
                        state.pair_with(number, true);
                        // The store waits for the comparison, as behind a branch.
                        state.events[number + 1].control |= of_expected.loads;
                        state.events[number + 1].pick |= of_expected.picks;
                        let mut other = state.clone();
                        other.set(to, value, of_expected.and(Sources { loads: 0, picks: load }));
                        pending.push(other);
                    }
                    state.set(to, value, Sources::load(load));
                    pending.push(state);
                }
                return Ok(());
            }
            Op::Fence(fence) => {
                state.access(Kind::Fence(fence), usize::MAX, 0, Order::default(), none, none);
            }
            Op::Compare { left, right, a, b } => {
                let ((a, of_a), (b, of_b)) = (state.operand(a), state.operand(b));
                state.set(left, a, of_a);
                state.set(right, b, of_b);
            }
            Op::Branch { test, a, b, ref to } => {
                let ((a, of_a), (b, of_b)) = (state.operand(a), state.operand(b));
                state.control = state.control.and(of_a).and(of_b);
                if test.holds(a, b) {
                    let is_target = |op: &Op| matches!(op, Op::Label(label) if label == to);
                    let target = self.code.iter().position(is_target).ok_or(format!("no label {to}"))?;
                    if target < state.next {
                        return Err(format!("the branch to {to} goes back"));
                    }
                    state.next = target;
                }
            }
            Op::Membarrier { .. } => return Err("a membarrier was not placed".into()),
            Op::Await { at, value } => {
                if !domain[at].contains(&value) {
                    return Ok(());
                }
                state.access(Kind::Load, at, value, Order::default(), none, none);
            }
            Op::Put { at, value } => {
                state.access(Kind::Store, at, value, Order::default(), none, none);
            }
        }
        pending.push(state);
        Ok(())
    }
}
