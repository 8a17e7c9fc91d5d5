//! Tests that are written in operations, as `r0 = load.acquire ptr`, and what they become on each architecture: the
//! instructions that rustc emits, by `instructions.txt`. See README.md for the notation.
//!
//! A compare-exchange by `lr` and `sc` becomes one round of its loop. Executions in which the `sc` fails for no
//! reason are of no interest ([`STATUS`]).

use std::ops::Range;

use crate::program::*;
use crate::{aarch64, riscv};

const INSTRUCTIONS: &str = include_str!("../instructions.txt");

/// The first of the registers that hold the addresses of the locations, in their order.
pub const ADDRESSES: Register = 10;
/// Whether each `sc` has failed.
pub const STATUS: Range<Register> = 30..36;
/// What an operation computes for itself.
const TEMPORARY: Range<Register> = 36..61;

/// Returns the register `r0` to `r9`.
pub fn register(name: &str) -> Option<Register> {
    name.strip_prefix('r')?.parse().ok().filter(|number| *number < ADDRESSES)
}

/// Returns the locations that an operation names.
pub fn names(line: &str) -> Vec<String> {
    let operation = line.split_once(" = ").map_or(line, |(_, operation)| operation);
    let mut words = operation.split(' ');
    if matches!(words.next(), Some("if" | "goto")) {
        return Vec::new();
    }
    let is_name = |word: &&str| word.starts_with(char::is_alphabetic) && register(word).is_none();
    words.filter(is_name).map(String::from).collect()
}

/// Lowers the operations of one thread.
pub struct Lowering<'a> {
    pub architecture: Architecture,
    pub location: &'a dyn Fn(&str) -> Option<usize>,
    temporary: Range<Register>,
    status: Range<Register>,
}

/// The operands of an operation.
struct Operands {
    to: Register,
    at: Register,
    index: Option<Register>,
    values: Vec<Operand>,
}

impl<'a> Lowering<'a> {
    pub fn new(architecture: Architecture, location: &'a dyn Fn(&str) -> Option<usize>) -> Self {
        Self { architecture, location, temporary: TEMPORARY, status: STATUS }
    }

    /// Returns the instructions of an operation.
    pub fn lower(&mut self, text: &str) -> Option<Vec<Op>> {
        let (to, operation) = match text.split_once(" = ") {
            Some((to, operation)) => (register(to)?, operation),
            None => (self.temporary.next()?, text),
        };
        let words: Vec<_> = operation.split(' ').collect();
        match words[..] {
            ["if", a, test, b, "goto", to] => {
                let test = match test {
                    "==" => Test::Equal,
                    "!=" => Test::NotEqual,
                    ">=" => Test::NotBelow,
                    _ => return None,
                };
                return Some(vec![Op::Branch { test, a: self.value(a)?, b: self.value(b)?, to: to.into() }]);
            }
            ["goto", to] => {
                let zero = Operand::Value(0);
                return Some(vec![Op::Branch { test: Test::Always, a: zero, b: zero, to: to.into() }]);
            }
            [a, "+", b] => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                return Some(vec![Op::Compute { to, function: Function::Add, a, b }]);
            }
            [value] if self.value(value).is_some() => {
                let (a, b) = (Operand::Value(0), self.value(value)?);
                return Some(vec![Op::Compute { to, function: Function::Second, a, b }]);
            }
            _ => {}
        }
        let (name, order) = words[0].split_once('.').unwrap_or((words[0], "relaxed"));
        let mut instructions = self.instructions(&format!("{name}_{order}"))?;
        if name == "fence" {
            // What follows the fence is not part of it.
            instructions.pop();
            return instructions.iter().map(|instruction| self.template(instruction)).collect();
        }
        let mut ops = Vec::new();
        let mut words = words[1..].iter().peekable();
        let place = words.next()?;
        let at = match place.strip_prefix('[') {
            Some(pointer) => register(pointer.strip_suffix(']')?)?,
            None => ADDRESSES + (self.location)(place)? as Register,
        };
        let mut index = None;
        if let Some(depends) = words.next_if(|word| word.starts_with('^')) {
            let on = Operand::Register(register(&depends[1..])?);
            let zero = self.temporary.next()?;
            ops.push(Op::Compute { to: zero, function: Function::Xor, a: on, b: on });
            index = Some(zero);
        }
        let values = words.map(|word| self.value(word)).collect::<Option<Vec<_>>>()?;
        let operands = Operands { to, at, index, values };
        match name {
            "load" | "store" => {
                for instruction in instructions {
                    ops.push(self.access(&instruction, name, &operands)?);
                }
            }
            "cas" => ops.extend(self.compare_exchange(&instructions, &operands)?),
            _ => ops.extend(self.modify(&instructions, name, &operands)?),
        }
        Some(ops)
    }

    fn value(&self, text: &str) -> Option<Operand> {
        let address_of = |name| (self.location)(name).map(|at| Operand::Value(address(at)));
        let number = text.parse().ok().map(Operand::Value);
        number.or_else(|| register(text).map(Operand::Register)).or_else(|| address_of(text))
    }

    /// Returns the instructions in which rustc expresses an operation.
    fn instructions(&self, operation: &str) -> Option<Vec<String>> {
        let (mut target, mut operation) = (self.architecture.name(), operation);
        if operation == "load_acquire_pc" {
            operation = "load_acquire";
            if self.architecture == Architecture::AArch64 {
                target = "aarch64+rcpc";
            }
        }
        let is_it = |line: &&str| line.split_whitespace().take(2).eq([target, operation]);
        let line = INSTRUCTIONS.lines().find(is_it)?;
        let text = line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        Some(text.split("; ").filter(|text| *text != "nothing").map(String::from).collect())
    }

    /// Returns an instruction with any operands.
    fn template(&self, instruction: &str) -> Option<Op> {
        let with = |name: &str, operands: &[&str], parse: fn(&str) -> Option<Op>| {
            operands.iter().find_map(|operands| parse(&format!("{name}{operands}")))
        };
        match self.architecture {
            Architecture::AArch64 => {
                let operands = [" X20,[X10]", " X20,X0,[X10]", ""];
                with(&instruction.to_uppercase(), &operands, aarch64::instruction)
            }
            Architecture::RiscV => {
                let operands = [" a0,(s2)", " a0,t0,(s2)", ""];
                with(&instruction.replace(", ", ","), &operands, riscv::instruction)
            }
            Architecture::X86 => Some(match instruction {
                "mfence" | "lock orl" => Op::Fence(FULL),
                "lock cmpxchgq" => {
                    Op::CompareSwap { to: 0, expected: 0, new: 0, at: 0, order: Order::default() }
                }
                "xchgq" | "lock xaddq" | "lock orq" | "lock andq" => {
                    let (function, by) = (Function::Second, Operand::Value(0));
                    Op::Modify { to: 0, function, by, at: 0, order: Order::default() }
                }
                _ => return None,
            }),
        }
    }

    /// Lowers an instruction of a plain load or store, or a fence beside it.
    fn access(&mut self, instruction: &str, name: &str, operands: &Operands) -> Option<Op> {
        let Operands { to, at, index, .. } = *operands;
        let plain = Order::default();
        let store = |order| Some(Op::Store { from: *operands.values.first()?, at, index, order });
        if self.architecture == Architecture::X86 && instruction == "movq" {
            let load = Op::Load { to, at, index, order: plain, exclusive: false };
            return if name == "load" { Some(load) } else { store(plain) };
        }
        match self.template(instruction)? {
            Op::Load { order, .. } => Some(Op::Load { to, at, index, order, exclusive: false }),
            Op::Store { order, .. } => store(order),
            Op::Fence(fence) => Some(Op::Fence(fence)),
            _ => None,
        }
    }

    /// Lowers a read-modify-write that always stores. A loop of compare-exchanges counts as one instruction.
    fn modify(&mut self, instructions: &[String], name: &str, operands: &Operands) -> Option<Vec<Op>> {
        let Operands { to, at, .. } = *operands;
        let zero = Operand::Value(0);
        let function = match name {
            "swap" => Function::Second,
            "add" => Function::Add,
            "or" => Function::Or,
            "clear" => Function::AndNot,
            "add_zero" | "or_zero" => Function::Or,
            _ => return None,
        };
        let by = operands.values.first().copied().unwrap_or(zero);
        let mut ops = Vec::new();
        let has_lock =
            instructions.iter().any(|text| matches!(self.template(text), Some(Op::CompareSwap { .. })));
        for instruction in instructions {
            // x86 loads what the loop expects.
            if instruction == "movq" {
                if !has_lock {
                    ops.push(Op::Load { to, at, index: None, order: Order::default(), exclusive: false });
                }
                continue;
            }
            ops.push(match self.template(instruction)? {
                Op::Modify { order, .. } | Op::CompareSwap { order, .. } => {
                    Op::Modify { to, function, by, at, order }
                }
                Op::Fence(fence) => Op::Fence(fence),
                _ => return None,
            });
        }
        Some(ops)
    }

    fn compare_exchange(&mut self, instructions: &[String], operands: &Operands) -> Option<Vec<Op>> {
        let Operands { to, at, ref values, .. } = *operands;
        let [expected, new] = values[..] else { return None };
        let mut ops = Vec::new();
        let mut computed = |value| {
            let to = self.temporary.next()?;
            ops.push(Op::Compute { to, function: Function::Second, a: Operand::Value(0), b: value });
            Some(to)
        };
        let (expected, new) = (computed(expected)?, computed(new)?);
        for instruction in instructions {
            match self.template(instruction)? {
                Op::CompareSwap { order, .. } => ops.push(Op::CompareSwap { to, expected, new, at, order }),
                Op::Load { order, .. } => {
                    let failed = format!("failed {expected}");
                    let (a, b) = (Operand::Register(to), Operand::Register(expected));
                    ops.push(Op::Load { to, at, index: None, order, exclusive: true });
                    ops.push(Op::Branch { test: Test::NotEqual, a, b, to: failed });
                }
                Op::StoreExclusive { order, status_depends, .. } => {
                    let status = self.status.next()?;
                    ops.push(Op::StoreExclusive { status, from: new, at, order, status_depends });
                    ops.push(Op::Label(format!("failed {expected}")));
                }
                _ => return None,
            }
        }
        Some(ops)
    }
}
