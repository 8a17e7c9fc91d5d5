//! The instructions of x86-64 that tests may contain, in Intel's syntax. They name locations directly: `MOV [x],$1`.

use crate::operations::ADDRESSES;
use crate::program::*;

pub fn register(name: &str) -> Option<Register> {
    let names = ["EAX", "EBX", "ECX", "EDX", "ESI", "EDI"];
    names.iter().position(|known| *known == name).map(|number| number as Register)
}

pub fn instruction(text: &str, location: &dyn Fn(&str) -> Option<usize>) -> Option<Op> {
    let text = text.strip_prefix("LOCK ").unwrap_or(text);
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let words = rest.split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let memory = |at: usize| {
        words
            .get(at)?
            .strip_prefix('[')?
            .strip_suffix(']')
            .and_then(location)
            .map(|location| ADDRESSES + location as Register)
    };
    let operand = |at: usize| {
        let word = words.get(at)?;
        match word.strip_prefix('$') {
            Some(value) => value.parse().ok().map(Operand::Value),
            None => register(word).map(Operand::Register),
        }
    };
    let reg = |at: usize| words.get(at).and_then(|word| register(word));
    let order = Order::default();
    let modify = |function| {
        Some(Op::Modify { to: reg(1)?, function, by: Operand::Register(reg(1)?), at: memory(0)?, order })
    };
    match name {
        "MFENCE" => Some(Op::Fence(FULL)),
        "MOV" => match (memory(0), memory(1)) {
            (Some(at), _) => Some(Op::Store { from: operand(1)?, at, index: None, order }),
            (_, Some(at)) => Some(Op::Load { to: reg(0)?, at, index: None, order, exclusive: false }),
            _ => None,
        },
        "XCHG" => modify(Function::Second),
        "XADD" => modify(Function::Add),
        _ => None,
    }
}
