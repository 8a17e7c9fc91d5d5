//! The instructions of RISC-V that tests may contain. Widths do not matter.

use crate::program::*;

pub fn register(name: &str) -> Option<Register> {
    let number = |prefix: char, first: u8, count: u8| {
        let number: u8 = name.strip_prefix(prefix)?.parse().ok()?;
        (number < count).then_some(first + number)
    };
    match name {
        "x0" | "zero" => Some(ZERO),
        "s0" => Some(8),
        "s1" => Some(9),
        _ => number('x', 0, 32)
            .or_else(|| number('a', 10, 8))
            .or_else(|| number('s', 16, 12))
            .or_else(|| number('t', 5, 3).or_else(|| number('t', 25, 7))),
    }
}

fn kinds(text: &str) -> Option<Kinds> {
    match text {
        "r" => Some(LOADS),
        "w" => Some(STORES),
        "rw" => Some(ALL),
        _ => None,
    }
}

/// Returns the register in `0(a0)` or `(a0)`.
fn base(text: &str) -> Option<Register> {
    register(text.strip_prefix('0').unwrap_or(text).strip_prefix('(')?.strip_suffix(')')?)
}

pub fn instruction(text: &str) -> Option<Op> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let words = rest.split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let reg = |at: usize| words.get(at).and_then(|word| register(word));
    let value = |at: usize| words.get(at).and_then(|word| word.parse().ok()).map(Operand::Value);
    let compute = |function, b| Some(Op::Compute { to: reg(0)?, function, a: Operand::Register(reg(1)?), b });
    let with_register = |function| compute(function, Operand::Register(reg(2)?));
    let branch = |test, a: Option<Register>, b: Option<Register>, to: usize| {
        let (a, b) = (Operand::Register(a?), Operand::Register(b?));
        Some(Op::Branch { test, a, b, to: words.get(to)?.to_string() })
    };
    let zero = Operand::Value(0);
    match name {
        "li" => Some(Op::Compute { to: reg(0)?, function: Function::Second, a: zero, b: value(1)? }),
        "mv" => Some(Op::Compute {
            to: reg(0)?,
            function: Function::Second,
            a: zero,
            b: Operand::Register(reg(1)?),
        }),
        "addi" => compute(Function::Add, value(2)?),
        "andi" => compute(Function::And, value(2)?),
        "ori" => compute(Function::Or, value(2)?),
        "add" => with_register(Function::Add),
        "sub" => with_register(Function::Sub),
        "and" => with_register(Function::And),
        "or" => with_register(Function::Or),
        "xor" => with_register(Function::Xor),
        "fence" => Some(Op::Fence(Fence::Between(kinds(words.first()?)?, kinds(words.get(1)?)?))),
        "fence.tso" => Some(Op::Fence(Fence::Tso)),
        "j" => branch(Test::Always, Some(ZERO), Some(ZERO), 0),
        "beqz" => branch(Test::Equal, reg(0), Some(ZERO), 1),
        "bnez" => branch(Test::NotEqual, reg(0), Some(ZERO), 1),
        "beq" => branch(Test::Equal, reg(0), reg(1), 2),
        "bne" => branch(Test::NotEqual, reg(0), reg(1), 2),
        "bgeu" => branch(Test::NotBelow, reg(0), reg(1), 2),
        _ => access(name, &words),
    }
}

fn access(name: &str, words: &[&str]) -> Option<Op> {
    let reg = |at: usize| words.get(at).and_then(|word| register(word));
    let at = base(words.last()?)?;
    let parts: Vec<_> = name.split('.').collect();
    // Plain loads and stores have neither a width nor an annotation after a dot.
    let (acquire, release) = match parts[1..] {
        [] if matches!(name, "lw" | "ld" | "sw" | "sd") => (false, false),
        _ if matches!(parts[0], "lw" | "ld" | "sw" | "sd") => return None,
        ["w" | "d"] => (false, false),
        ["w" | "d", "aq"] => (true, false),
        ["w" | "d", "rl"] => (false, true),
        ["w" | "d", "aqrl"] | ["w" | "d", "aq", "rl"] => (true, true),
        _ => return None,
    };
    let order = Order { acquire, release, ..Order::default() };
    let modify =
        |function| Some(Op::Modify { to: reg(0)?, function, by: Operand::Register(reg(1)?), at, order });
    match parts[0] {
        "lw" | "ld" => Some(Op::Load { to: reg(0)?, at, index: None, order, exclusive: false }),
        "sw" | "sd" => Some(Op::Store { from: Operand::Register(reg(0)?), at, index: None, order }),
        "lr" => Some(Op::Load { to: reg(0)?, at, index: None, order, exclusive: true }),
        "sc" => Some(Op::StoreExclusive { status: reg(0)?, from: reg(1)?, at, order, status_depends: true }),
        "amoswap" => modify(Function::Second),
        "amoadd" => modify(Function::Add),
        "amoor" => modify(Function::Or),
        "amoand" => modify(Function::And),
        _ => None,
    }
}
