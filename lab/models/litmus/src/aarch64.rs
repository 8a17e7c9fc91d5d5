//! The instructions of AArch64 that tests may contain.
//!
//! `W` and `X` registers are the same. Atomic instructions are those of FEAT_LSE.

use crate::program::*;

/// What `CMP` has compared.
const COMPARED: [Register; 2] = [61, 62];

pub fn register(name: &str) -> Option<Register> {
    match name {
        "XZR" | "WZR" => Some(ZERO),
        _ => name.strip_prefix(['X', 'W'])?.parse().ok().filter(|number| *number <= 30),
    }
}

fn operand(text: &str) -> Option<Operand> {
    match text.strip_prefix('#') {
        Some(value) => value.parse().ok().map(Operand::Value),
        None => register(text).map(Operand::Register),
    }
}

fn ordering(acquire: bool, release: bool) -> Order {
    Order { acquire, release, ..Order::default() }
}

/// Returns the ordering of an atomic instruction by the suffix of its name: none, `A`, `L` or `AL`. One that discards
/// what it loads has no Acquire.
fn atomic(suffix: &str, to: Register) -> Option<Order> {
    let (acquire, release) = match suffix {
        "" => (false, false),
        "A" => (true, false),
        "L" => (false, true),
        "AL" => (true, true),
        _ => return None,
    };
    let is_discarded = to == ZERO;
    Some(Order { acquire: acquire && !is_discarded, release, is_discarded, ..Order::default() })
}

pub fn instruction(text: &str) -> Option<Op> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    // `[X1,X2]` becomes the operands `X1` and `X2`.
    let rest = rest.replace(['[', ']'], "");
    let mut words = rest.split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>();
    words.retain(|word| *word != "SXTW");
    let reg = |at: usize| words.get(at).and_then(|word| register(word));
    let op = |at: usize| words.get(at).and_then(|word| operand(word));
    let compute = |function| Some(Op::Compute { to: reg(0)?, function, a: op(1)?, b: op(2)? });
    let load = |order, exclusive| {
        let index = if words.len() == 3 { Some(reg(2)?) } else { None };
        Some(Op::Load { to: reg(0)?, at: reg(1)?, index, order, exclusive })
    };
    let store = |order| {
        let index = if words.len() == 3 { Some(reg(2)?) } else { None };
        Some(Op::Store { from: op(0)?, at: reg(1)?, index, order })
    };
    let store_exclusive = |order| {
        Some(Op::StoreExclusive { status: reg(0)?, from: reg(1)?, at: reg(2)?, order, status_depends: false })
    };
    let branch = |test, a: Operand, b: Operand, to: usize| {
        Some(Op::Branch { test, a, b, to: words.get(to)?.to_string() })
    };
    let [left, right] = COMPARED.map(Operand::Register);
    let zero = Operand::Value(0);
    let acquire_pc = Order { acquire_pc: true, ..Order::default() };
    match name {
        "MOV" => Some(Op::Compute { to: reg(0)?, function: Function::Second, a: zero, b: op(1)? }),
        "ADD" => compute(Function::Add),
        "SUB" => compute(Function::Sub),
        "EOR" => compute(Function::Xor),
        "AND" => compute(Function::And),
        "LDR" => load(Order::default(), false),
        "LDAR" => load(ordering(true, false), false),
        "LDAPR" => load(acquire_pc, false),
        "LDXR" => load(Order::default(), true),
        "LDAXR" => load(ordering(true, false), true),
        "STR" => store(Order::default()),
        "STLR" => store(ordering(false, true)),
        "STXR" => store_exclusive(Order::default()),
        "STLXR" => store_exclusive(ordering(false, true)),
        "DMB" => match rest.as_str() {
            "ISH" | "SY" => Some(Op::Fence(FULL)),
            "ISHLD" | "LD" => Some(Op::Fence(Fence::Between(LOADS, ALL))),
            "ISHST" | "ST" => Some(Op::Fence(Fence::Between(STORES, STORES))),
            _ => None,
        },
        "ISB" => Some(Op::Fence(Fence::Instruction)),
        "B" => branch(Test::Always, zero, zero, 0),
        "CBZ" => branch(Test::Equal, op(0)?, zero, 1),
        "CBNZ" => branch(Test::NotEqual, op(0)?, zero, 1),
        "B.EQ" => branch(Test::Equal, left, right, 0),
        "B.NE" => branch(Test::NotEqual, left, right, 0),
        "B.HS" => branch(Test::NotBelow, left, right, 0),
        "CMP" => Some(Op::Compare { left: COMPARED[0], right: COMPARED[1], a: op(0)?, b: op(1)? }),
        _ => read_modify_write(name, &words),
    }
}

fn read_modify_write(name: &str, words: &[&str]) -> Option<Op> {
    let [first, second, at] = words else { return None };
    let (first, second, at) = (register(first)?, register(second)?, register(at)?);
    if let Some(suffix) = name.strip_prefix("CAS") {
        // The first register is both the expected and the old value.
        return Some(Op::CompareSwap {
            to: first,
            expected: first,
            new: second,
            at,
            order: atomic(suffix, first)?,
        });
    }
    let functions = [
        ("SWP", Function::Second),
        ("LDADD", Function::Add),
        ("LDSET", Function::Or),
        ("LDCLR", Function::AndNot),
    ];
    let (suffix, function) =
        functions.iter().find_map(|(prefix, function)| Some((name.strip_prefix(prefix)?, *function)))?;
    let order = atomic(suffix, second)?;
    Some(Op::Modify { to: second, function, by: Operand::Register(first), at, order })
}
