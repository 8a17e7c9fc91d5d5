//! A word on each CPU for the model checker, in the place of `words.rs`.

use loom::cell::UnsafeCell;

use crate::sync::model::{CPUS, current_cpu};
use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed, step};

/// What a section of the current CPU meets at its beginning and at its commit: one CPU executes one at a time, and
/// the interrupt comes between sections, or aborts one.
#[derive(Debug, Default)]
struct Cpu {
    interrupts: u32,
    word: u64,
}

#[derive(Debug)]
pub struct CpuWords<const N: usize> {
    cpus: [Mutex<Cpu>; CPUS],
    /// Written when the word is given back: a section that commits must not come after that.
    memory: UnsafeCell<()>,
}

impl<const N: usize> CpuWords<N> {
    pub fn new() -> Self {
        Self { cpus: std::array::from_fn(|_| Mutex::new(Cpu::default())), memory: UnsafeCell::new(()) }
    }

    /// Fails if it is interrupted between the beginning and the commit.
    pub fn try_add_open(&self, gate: &AtomicU64, by: u64) -> bool {
        let cpu = &self.cpus[current_cpu()];
        let begun = cpu.lock().unwrap().interrupts;
        if gate.load(Relaxed) & 1 != 0 {
            return false;
        }
        let mut cpu = cpu.lock().unwrap();
        let commits = cpu.interrupts == begun;
        if commits {
            self.memory.with(|_| ());
            cpu.word = cpu.word.wrapping_add(by);
        }
        commits
    }

    /// In the model, the fallback is tried after one attempt.
    pub fn try_add_open_slow(&self, _gate: &AtomicU64, _by: u64) -> bool {
        false
    }

    pub fn prepare_open(&self) -> bool {
        true
    }

    pub fn close(&self) -> Option<u64> {
        let interrupt_all = || self.cpus.iter().for_each(|cpu| cpu.lock().unwrap().interrupts += 1);
        step!("sections-not-interrupted", interrupt_all());
        let sum = self.cpus.iter().fold(0, |sum: u64, cpu| sum.wrapping_add(cpu.lock().unwrap().word));
        self.memory.with_mut(|_| ());
        Some(sum)
    }
}
