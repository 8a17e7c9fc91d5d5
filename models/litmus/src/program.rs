//! Programs of threads, and their traces: what a thread does if its loads return given values.
//!
//! A trace records, for each memory access, the loads on which its address and its data depend, and those on which a
//! branch before it depends. A dependency goes through registers only.

use std::collections::{BTreeMap, BTreeSet};

use crate::relation::Set;

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
    /// The same, without a store if the value is not that of `expected`. The old value goes to `to`.
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

#[derive(Debug, Clone)]
pub struct Thread {
    pub code: Vec<Op>,
    pub registers: BTreeMap<Register, i64>,
}

#[derive(Debug, Clone)]
struct State {
    next: usize,
    values: Vec<i64>,
    /// What the values depend on.
    sources: Vec<Set>,
    control: Set,
    /// The last exclusive load, and its location.
    exclusive: Option<(usize, usize)>,
    events: Vec<Event>,
}

impl State {
    fn get(&self, register: Register) -> (i64, Set) {
        let number = register as usize;
        if register == ZERO { (0, 0) } else { (self.values[number], self.sources[number]) }
    }

    fn operand(&self, operand: Operand) -> (i64, Set) {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Value(value) => (value, 0),
        }
    }

    fn set(&mut self, register: Register, value: i64, sources: Set) {
        if register != ZERO {
            (self.values[register as usize], self.sources[register as usize]) = (value, sources);
        }
    }

    /// Adds an event. Returns it as a set.
    fn event(&mut self, event: Event) -> Set {
        assert!(self.events.len() < 64);
        self.events.push(Event { control: self.control, ..event });
        1 << (self.events.len() - 1)
    }

    fn access(
        &mut self,
        kind: Kind,
        location: usize,
        value: i64,
        order: Order,
        address: Set,
        data: Set,
    ) -> Set {
        let (control, pair, is_atomic) = (0, None, false);
        self.event(Event { kind, location, value, order, address, data, control, pair, is_atomic })
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
        let sources = vec![0; REGISTERS];
        let start = State { next: 0, values, sources, control: 0, exclusive: None, events: Vec::new() };
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
            let ((base, a), (offset, b)) = (state.get(at), index.map_or((0, 0), |index| state.get(index)));
            location(base.wrapping_add(offset), domain.len()).map(|location| (location, a | b))
        };
        match *op {
            Op::Nop | Op::Label(_) => {}
            Op::Compute { to, function, a, b } => {
                let ((a, of_a), (b, of_b)) = (state.operand(a), state.operand(b));
                state.set(to, function.apply(a, b), of_a | of_b);
            }
            Op::Load { to, at: base, index, order, exclusive } => {
                let (location, address) = at(&state, base, index)?;
                for &value in &domain[location] {
                    let mut state = state.clone();
                    let load = state.access(Kind::Load, location, value, order, address, 0);
                    state.set(to, value, load);
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
                failed.set(status, 1, 0);
                pending.push(failed);
                let Some((load, _)) = exclusive.filter(|&(_, reserved)| reserved == location) else {
                    return Ok(());
                };
                let store = state.access(Kind::Store, location, value, order, address, data);
                state.pair_with(load, false);
                state.set(status, 0, if status_depends { store } else { 0 });
            }
            Op::Modify { to, function, by, at: base, order } => {
                let ((location, address), (by, of_by)) = (at(&state, base, None)?, state.operand(by));
                for &value in &domain[location] {
                    let mut state = state.clone();
                    let load = state.access(Kind::Load, location, value, order, address, 0);
                    let data = of_by | if function == Function::Second { 0 } else { load };
                    let new = function.apply(value, by);
                    let number = state.events.len() - 1;
                    state.access(Kind::Store, location, new, order, address, data);
                    state.pair_with(number, true);
                    state.set(to, value, load);
                    pending.push(state);
                }
                return Ok(());
            }
            Op::CompareSwap { to, expected, new, at: base, order } => {
                let (location, address) = at(&state, base, None)?;
                let ((expected, _), (new, data)) = (state.get(expected), state.get(new));
                for &value in &domain[location] {
                    let mut state = state.clone();
                    let load = state.access(Kind::Load, location, value, order, address, 0);
                    if value == expected {
                        let number = state.events.len() - 1;
                        state.access(Kind::Store, location, new, order, address, data);
                        state.pair_with(number, true);
                    }
                    state.set(to, value, load);
                    pending.push(state);
                }
                return Ok(());
            }
            Op::Fence(fence) => {
                state.access(Kind::Fence(fence), usize::MAX, 0, Order::default(), 0, 0);
            }
            Op::Compare { left, right, a, b } => {
                let ((a, of_a), (b, of_b)) = (state.operand(a), state.operand(b));
                state.set(left, a, of_a);
                state.set(right, b, of_b);
            }
            Op::Branch { test, a, b, ref to } => {
                let ((a, of_a), (b, of_b)) = (state.operand(a), state.operand(b));
                state.control |= of_a | of_b;
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
                state.access(Kind::Load, at, value, Order::default(), 0, 0);
            }
            Op::Put { at, value } => {
                state.access(Kind::Store, at, value, Order::default(), 0, 0);
            }
        }
        pending.push(state);
        Ok(())
    }
}
