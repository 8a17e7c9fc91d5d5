//! Reads litmus tests in herd's format: a header, the initial state, a column of instructions for each thread, and a
//! condition. See README.md for the subset, for what is added to it, and for tests in operations.

use std::collections::BTreeMap;

use crate::membarrier::{ABORT, BEGIN, COMMIT};
use crate::operations::{ADDRESSES, Lowering, STATUS};
use crate::program::{Architecture, Op, Order, Register, Thread, address};
use crate::{aarch64, operations, riscv, x86};

impl Architecture {
    fn register(self, name: &str) -> Option<Register> {
        match self {
            Self::AArch64 => aarch64::register(name),
            Self::RiscV => riscv::register(name),
            Self::X86 => x86::register(name),
        }
    }

    fn instruction(self, text: &str, location: &dyn Fn(&str) -> Option<usize>) -> Option<Op> {
        match self {
            Self::AArch64 => aarch64::instruction(text),
            Self::RiscV => riscv::instruction(text),
            Self::X86 => x86::instruction(text, location),
        }
    }
}

/// What stands in place of an architecture in a test in operations.
const OPERATIONS: &str = "Operations";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Forbidden,
}

/// What a condition compares: a register of a thread, or a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Register(usize, Register),
    Memory(usize),
}

/// What an execution must look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposition {
    Equal(Place, i64),
    Not(Box<Proposition>),
    And(Vec<Proposition>),
    Or(Vec<Proposition>),
}

/// The same test with other instructions.
#[derive(Debug, Clone)]
pub struct Variant {
    pub name: String,
    /// The thread, the line that is replaced, and the new lines.
    changes: Vec<(usize, String, Vec<String>)>,
    pub expected: Verdict,
}

#[derive(Debug, Clone)]
pub struct Test {
    pub architecture: Architecture,
    /// Lines are operations, which become instructions of the architecture.
    in_operations: bool,
    /// Loads that acquire become `LDAPR`.
    with_ldapr: bool,
    pub name: String,
    pub expected: Verdict,
    pub variants: Vec<Variant>,
    pub locations: Vec<String>,
    pub initial: Vec<i64>,
    registers: Vec<BTreeMap<Register, i64>>,
    lines: Vec<Vec<String>>,
    /// The execution that is asked for.
    pub wanted: Proposition,
}

/// Returns the text with single spaces, without spaces around commas.
fn normal(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace(" ,", ",").replace(", ", ",")
}

/// Reads `Allowed`, `Forbidden`, or `Allowed on` and the architectures.
fn verdict(text: &str, architecture: Architecture) -> Result<Verdict, String> {
    match text.trim() {
        "Allowed" => Ok(Verdict::Allowed),
        "Forbidden" => Ok(Verdict::Forbidden),
        other => {
            let on = other.strip_prefix("Allowed on ").ok_or(format!("{other:?} is no verdict"))?;
            let is_on = on.split(", ").any(|name| name == architecture.name());
            Ok(if is_on { Verdict::Allowed } else { Verdict::Forbidden })
        }
    }
}

/// Returns the number in `P0`.
fn thread_number(word: &str) -> Result<usize, String> {
    word.trim().strip_prefix('P').and_then(|n| n.parse().ok()).ok_or(format!("{word:?} is no thread"))
}

/// Reads `NAME | P0 OLD => NEW; NEW & P1 OLD => | VERDICT`.
fn variant(text: &str, architecture: Architecture) -> Result<Variant, String> {
    let parts: Vec<_> = text.split('|').collect();
    let [name, changes, expected] = parts[..] else { return Err(format!("not a variant: {text}")) };
    let change = |text: &str| {
        let (old, new) = text.split_once("=>").ok_or(format!("not a change: {text}"))?;
        let (thread, old) = old.trim().split_once(' ').ok_or(format!("not a line: {old}"))?;
        let new = new.split(';').map(normal).filter(|line| !line.is_empty()).collect();
        Ok::<_, String>((thread_number(thread)?, normal(old), new))
    };
    let changes = changes.split('&').map(change).collect::<Result<_, _>>()?;
    Ok(Variant { name: normal(name), changes, expected: verdict(expected, architecture)? })
}

/// Removes comments: `(* ... *)`.
fn without_comments(text: &str) -> Result<String, String> {
    let (mut left, mut kept) = (text, String::new());
    while let Some((before, after)) = left.split_once("(*") {
        kept.push_str(before);
        left = after.split_once("*)").ok_or("a comment does not end")?.1;
    }
    Ok(kept + left)
}

impl Test {
    /// Reads a test. One in operations becomes a test of each architecture.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let text = without_comments(text)?;
        let name = text.trim_start().split(' ').next().unwrap_or("");
        let architectures =
            Architecture::ALL.iter().filter(|(known, _)| *known == name || name == OPERATIONS);
        let tests = architectures.map(|(_, architecture)| Self::of(&text, *architecture));
        let tests = tests.collect::<Result<Vec<_>, _>>()?;
        if tests.is_empty() { Err(format!("unknown architecture {name}")) } else { Ok(tests) }
    }

    fn of(text: &str, architecture: Architecture) -> Result<Self, String> {
        let (head, rest) = text.split_once('{').ok_or("no initial state")?;
        let (state, body) = rest.split_once('}').ok_or("the initial state does not end")?;
        let mut head = head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('"'));
        let (kind, name) = head.next().unwrap_or("").split_once(' ').ok_or("no name")?;
        let (mut expected, mut variants) = (None, Vec::new());
        for line in head {
            match line.split_once('=').ok_or(format!("not of the form name=value: {line}"))? {
                ("Expect", value) => expected = Some(verdict(value, architecture)?),
                ("Variant", value) => variants.push(variant(value, architecture)?),
                // For people, and for `ci/litmus.sh`.
                ("Source" | "Functions", _) => {}
                (key, _) => return Err(format!("unknown key: {key}")),
            }
        }
        let at = body.find("exists").or_else(|| body.find("forall")).ok_or("no condition")?;
        let (table, condition) = body.split_at(if body[..at].ends_with('~') { at - 1 } else { at });
        let mut rows = table.split(';').map(str::trim).filter(|row| !row.is_empty());
        let threads = rows.next().ok_or("no threads")?.split('|').count();
        let mut lines = vec![Vec::new(); threads];
        for row in rows {
            let cells: Vec<_> = row.split('|').map(normal).collect();
            if cells.len() != threads {
                return Err(format!("a row with {} columns: {row}", cells.len()));
            }
            lines
                .iter_mut()
                .zip(cells)
                .filter(|(_, cell)| !cell.is_empty())
                .for_each(|(lines, cell)| lines.push(cell));
        }
        let mut test = Self {
            architecture,
            in_operations: kind == OPERATIONS,
            with_ldapr: false,
            name: name.trim().into(),
            expected: expected.ok_or("no expected verdict")?,
            variants,
            locations: Vec::new(),
            initial: Vec::new(),
            registers: vec![BTreeMap::new(); threads],
            lines,
            wanted: Proposition::And(Vec::new()),
        };
        test.read_state(state)?;
        if test.in_operations {
            test.add_locations();
        }
        test.read_condition(condition)?;
        Ok(test)
    }

    fn location(&self, name: &str) -> Option<usize> {
        self.locations.iter().position(|known| known == name)
    }

    /// Returns the location with this name, which it adds if it is new.
    fn add_location(&mut self, name: &str) -> usize {
        self.location(name).unwrap_or_else(|| {
            self.locations.push(name.into());
            self.initial.push(0);
            self.locations.len() - 1
        })
    }

    /// Adds the locations that operations name.
    fn add_locations(&mut self) {
        let changed = self.variants.iter().flat_map(|variant| &variant.changes).flat_map(|(_, _, new)| new);
        let names: Vec<_> =
            self.lines.iter().flatten().chain(changed).flat_map(|line| operations::names(line)).collect();
        for name in names {
            self.add_location(&name);
        }
    }

    /// Returns the value of a number, or the address of a location.
    fn value(&mut self, text: &str) -> i64 {
        text.parse().unwrap_or_else(|_| address(self.add_location(text)))
    }

    fn read_state(&mut self, text: &str) -> Result<(), String> {
        for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
            let (place, value) = item.split_once('=').ok_or(format!("not an assignment: {item}"))?;
            let value = self.value(value.trim());
            match self.place(place.trim())? {
                Place::Register(thread, register) => _ = self.registers[thread].insert(register, value),
                Place::Memory(location) => self.initial[location] = value,
            }
        }
        Ok(())
    }

    fn place(&mut self, text: &str) -> Result<Place, String> {
        let Some((thread, register)) = text.split_once(':') else {
            return Ok(Place::Memory(self.add_location(text.trim_matches(['[', ']']))));
        };
        let thread: usize = thread.parse().map_err(|_| format!("not a thread: {text}"))?;
        let register = if self.in_operations {
            operations::register(register)
        } else {
            self.architecture.register(register)
        }
        .ok_or(format!("not a register: {text}"))?;
        if thread >= self.lines.len() {
            return Err(format!("there is no thread {thread}"));
        }
        Ok(Place::Register(thread, register))
    }

    fn read_condition(&mut self, text: &str) -> Result<(), String> {
        let text = text.trim();
        // `~exists` asks for the same executions as `exists`: `Expect` says whether they are allowed.
        let (inverse, rest) = match text.strip_prefix("forall") {
            Some(rest) => (true, rest),
            None => (false, text.trim_start_matches('~').trim_start_matches("exists")),
        };
        let tokens = rest.replace('(', " ( ").replace(')', " ) ").replace("/\\", " & ").replace("\\/", " | ");
        let tokens: Vec<_> = tokens.replace('~', " ~ ").split_whitespace().map(String::from).collect();
        let mut left = &tokens[..];
        let proposition = self.disjunction(&mut left)?;
        if !left.is_empty() {
            return Err(format!("left in the condition: {left:?}"));
        }
        self.wanted = if inverse { Proposition::Not(Box::new(proposition)) } else { proposition };
        // On RISC-V a compare-exchange is a loop, of which a test has one round. A store-conditional may fail at any
        // time: only executions count in which all succeed.
        if self.in_operations && self.architecture == Architecture::RiscV {
            let threads = 0..self.lines.len();
            let succeeds = threads.flat_map(|thread| {
                STATUS.map(move |status| Proposition::Equal(Place::Register(thread, status), 0))
            });
            let wanted = std::mem::replace(&mut self.wanted, Proposition::And(Vec::new()));
            self.wanted = Proposition::And(succeeds.chain([wanted]).collect());
        }
        Ok(())
    }

    fn disjunction(&mut self, left: &mut &[String]) -> Result<Proposition, String> {
        let mut all = vec![self.conjunction(left)?];
        while left.first().is_some_and(|token| token == "|") {
            *left = &left[1..];
            all.push(self.conjunction(left)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Proposition::Or(all) })
    }

    fn conjunction(&mut self, left: &mut &[String]) -> Result<Proposition, String> {
        let mut all = vec![self.atom(left)?];
        while left.first().is_some_and(|token| token == "&") {
            *left = &left[1..];
            all.push(self.atom(left)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Proposition::And(all) })
    }

    fn atom(&mut self, left: &mut &[String]) -> Result<Proposition, String> {
        let (token, rest) = left.split_first().ok_or("the condition ends early")?;
        *left = rest;
        match token.as_str() {
            "~" => Ok(Proposition::Not(Box::new(self.atom(left)?))),
            "(" => {
                let inner = self.disjunction(left)?;
                let (close, rest) = left.split_first().ok_or("no closing parenthesis")?;
                *left = rest;
                if close == ")" { Ok(inner) } else { Err(format!("{close:?} in place of a parenthesis")) }
            }
            equation => {
                let (place, value) =
                    equation.split_once('=').ok_or(format!("not an equation: {equation}"))?;
                let value = self.value(value);
                Ok(Proposition::Equal(self.place(place)?, value))
            }
        }
    }

    /// Returns the test with each `LDAR` replaced by `LDAPR`, if there are any: compilers emit that where they may.
    pub fn with_ldapr(&self) -> Option<Self> {
        let weaker = Self { with_ldapr: true, ..self.clone() };
        let is_weaker = self.architecture == Architecture::AArch64
            && self.threads(None).ok()? != weaker.threads(None).ok()?;
        is_weaker.then_some(weaker)
    }

    /// Returns where a line is. Of equal lines, `LINE #2` names the second.
    fn line(&self, thread: usize, text: &str) -> Result<usize, String> {
        let all = self.lines.get(thread).ok_or(format!("there is no thread {thread}"))?;
        let (line, number) = match text.rsplit_once(" #") {
            Some((line, number)) => {
                (line, Some(number.parse::<usize>().map_err(|_| format!("no number: {text}"))?))
            }
            None => (text, None),
        };
        let at: Vec<_> = (0..all.len()).filter(|&at| all[at] == line).collect();
        match number {
            None if at.len() == 1 => Ok(at[0]),
            Some(number) if (1..=at.len()).contains(&number) => Ok(at[number - 1]),
            _ => Err(format!("P{thread} has {} lines {line:?}", at.len())),
        }
    }

    /// Returns the programs of the threads, of a variant if one is given.
    pub fn threads(&self, variant: Option<&Variant>) -> Result<Vec<Thread>, String> {
        let mut lines = self.lines.clone();
        for (thread, old, new) in variant.iter().flat_map(|variant| &variant.changes) {
            let at = self.line(*thread, old)?;
            lines[*thread][at] = new.join(";");
        }
        let location = |name: &str| self.location(name);
        let parse = |lowering: &mut Lowering, line: &str| {
            if let Some(label) = line.strip_suffix(':') {
                return Ok(vec![Op::Label(label.into())]);
            }
            match line {
                "NOP" => Ok(vec![Op::Nop]),
                "MEMBARRIER" => Ok(vec![Op::Membarrier { aborts: false }]),
                "MEMBARRIER_RSEQ" => Ok(vec![Op::Membarrier { aborts: true }]),
                _ if self.in_operations => lowering.lower(line).ok_or(format!("unknown operation: {line}")),
                _ => self
                    .architecture
                    .instruction(line, &location)
                    .map(|op| vec![op])
                    .ok_or(format!("unknown instruction: {line}")),
            }
        };
        let thread = |(lines, registers): (&Vec<String>, &BTreeMap<_, _>)| {
            let lines = lines.iter().flat_map(|line| line.split(';')).filter(|line| !line.is_empty());
            let mut lowering = Lowering::new(self.architecture, &location);
            let mut code = Vec::new();
            for line in lines {
                code.extend(parse(&mut lowering, line)?);
            }
            for op in &mut code {
                match op {
                    Op::Load { order, exclusive: false, .. } if self.with_ldapr && order.acquire => {
                        *order = Order { acquire_pc: true, ..Order::default() };
                    }
                    _ => {}
                }
            }
            let has = |label: &&&str| code.contains(&Op::Label(label.to_string()));
            if !matches!([BEGIN, COMMIT, ABORT].iter().filter(has).count(), 0 | 3) {
                return Err("an rseq critical section has three labels".into());
            }
            let mut registers = registers.clone();
            // These registers hold the addresses of the locations.
            if self.in_operations || self.architecture == Architecture::X86 {
                let addresses = (0..self.locations.len()).map(|at| (ADDRESSES + at as Register, address(at)));
                registers.extend(addresses);
            }
            Ok(Thread { code, registers })
        };
        lines.iter().zip(&self.registers).map(thread).collect()
    }
}
