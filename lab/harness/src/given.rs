//! Whether the threads of a measurement got the CPUs that they could use: a round in which they did not is repeated.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::cpus::{Meter, Spinners, most};
use super::schema::Summary;
use super::units::digits;

/// The least part of the CPUs that threads must get.
pub const ENOUGH: f64 = 0.8;
/// What changes by more than this part of the CPUs has changed.
const CHANGED: f64 = 0.15;
/// How often a round is begun.
const ATTEMPTS: usize = 4;
/// The time before the CPUs are looked at again.
const PAUSE: Duration = Duration::from_millis(50);
/// A process that uses fewer CPUs measures in others.
const LEAST_USED: f64 = 0.1;

fn is_enough(given: f64, usable: usize) -> bool {
    given >= ENOUGH * usable as f64
}

/// Returns whether threads that can use so many CPUs got them all the time.
fn is_good(before: f64, after: f64, usable: usize) -> bool {
    let most = usable as f64;
    let (before, after) = (before.min(most), after.min(most));
    is_enough(before.min(after), usable) && (before - after).abs() <= CHANGED * most
}

/// Returns how many CPUs threads get now.
pub fn given_now() -> anyhow::Result<f64> {
    Given::<Spinners>::default().look()
}

/// What was given in the rounds of a bench.
#[derive(Debug, Default)]
pub struct Given<M = Spinners> {
    meter: M,
    /// What was given a moment ago.
    last: Option<f64>,
    figures: Vec<f64>,
    used: Vec<f64>,
    repeated: usize,
    marked: usize,
}

impl<M: Meter> Given<M> {
    /// Measures what is given now.
    pub fn look(&mut self) -> anyhow::Result<f64> {
        let given = self.meter.given()?;
        self.figures.push(given);
        self.last = Some(given);
        Ok(given)
    }

    /// Measures a round of a cell whose threads can use so many CPUs; again, a few times, if they did not get them.
    /// Returns what was measured last. With 0, a single thread is measured, which gets one.
    pub fn round<T>(
        &mut self,
        usable: usize,
        mut measure: impl FnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if usable == 0 {
            self.last = None;
            return measure();
        }
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let before = match self.last.take() {
                Some(before) => before,
                None => self.look()?,
            };
            if left > 0 && !is_enough(before, usable) {
                thread::sleep(PAUSE);
                self.last = None;
            } else {
                let (begin, cpu) = (Instant::now(), cpu_time());
                let measured = measure()?;
                self.used.push((cpu_time() - cpu).as_secs_f64() / begin.elapsed().as_secs_f64());
                let is_good = is_good(before, self.look()?, usable);
                if is_good || left == 0 {
                    self.marked += usize::from(!is_good);
                    return Ok(measured);
                }
            }
            self.repeated += 1;
        }
    }

    /// Returns what was given in all; `None` if that was not measured.
    pub fn cpus(&self) -> Option<Cpus> {
        let used = Summary::of(self.used.clone()).map(|used| used.median);
        Some(Cpus {
            of: most().ok()?,
            given: Summary::of(self.figures.clone())?,
            used: used.filter(|used| *used >= LEAST_USED),
            repeated: self.repeated,
            marked: self.marked,
            rounds: self.used.len(),
        })
    }
}

/// Returns the CPU time of all threads of the process.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The CPUs that threads got during a bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpus {
    /// How many could be given.
    of: usize,
    #[serde(flatten)]
    given: Summary,
    /// How many the threads of a round used: CPU time / time, the median of the rounds with more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used: Option<f64>,
    /// Rounds that were begun again, and those that got too few CPUs in spite of it, of all.
    repeated: usize,
    marked: usize,
    #[serde(default)]
    rounds: usize,
}

impl Cpus {
    /// Returns what threads got that got the same all the time.
    pub fn always(given: f64, of: usize) -> Self {
        let given = Summary { median: given, min: given, max: given };
        Self { of, given, used: None, repeated: 0, marked: 0, rounds: 0 }
    }

    /// Returns whether they were as many as there are, and two at least: on one, nothing that is published can be
    /// checked. A median is not changed by a few rounds that got too few.
    pub fn are_enough(&self) -> bool {
        is_enough(self.given.median, self.of.max(2)) && 4 * self.marked <= self.rounds
    }

    /// Returns whether one thread got a CPU, as a rule.
    pub fn are_enough_for_one(&self) -> bool {
        is_enough(self.given.median, 1)
    }

    /// Returns the one of which threads got the lesser part.
    pub fn worse<'a>(&'a self, other: &'a Self) -> &'a Self {
        let part = |one: &Self| one.given.median / one.of as f64;
        if part(self) <= part(other) { self } else { other }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "threads got {} ({}) of {} CPUs", digits(self.given.median), self.given.range(), self.of)?;
        if let Some(used) = self.used {
            write!(f, " and used {}", digits(used))?;
        }
        if self.repeated > 0 {
            write!(f, "; {} rounds were repeated, {} had too few", self.repeated, self.marked)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures in their order; the last one is repeated.
    #[derive(Debug)]
    struct Script(Vec<f64>);

    impl Meter for Script {
        fn given(&mut self) -> anyhow::Result<f64> {
            Ok(if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] })
        }
    }

    fn given(script: &[f64]) -> Given<Script> {
        let (last, figures, used, repeated, marked) = Default::default();
        Given { meter: Script(script.to_vec()), last, figures, used, repeated, marked }
    }

    /// Returns how often a round was measured, whether it is good, and how often it was repeated.
    fn round(usable: usize, figures: &[f64]) -> (usize, bool, usize) {
        let (mut given, mut measured) = (given(figures), 0);
        let count = || {
            measured += 1;
            Ok(measured)
        };
        let last = given.round(usable, count).expect("no error");
        (last, given.marked == 0, given.repeated)
    }

    #[test]
    fn round_is_measured_with_all_cpus_or_marked_after_a_few_attempts() {
        for (usable, figures, expected) in [
            (2, &[2.0, 1.9][..], (1, true, 0)),
            (2, &[1.7, 1.6], (1, true, 0)),
            // More CPUs than the cell can use may change.
            (2, &[8.0, 4.0], (1, true, 0)),
            (1, &[2.0, 1.0], (1, true, 0)),
            // It begins when there are enough.
            (2, &[1.0, 1.5, 2.0, 2.0], (1, true, 2)),
            // It loses one, and is repeated.
            (2, &[2.0, 1.2, 1.9, 2.0], (2, true, 2)),
            // Both are enough, and one is not the other.
            (2, &[2.0, 1.65, 1.7], (2, true, 1)),
            (8, &[8.0, 6.0, 7.9, 7.8], (2, true, 2)),
            (2, &[1.0], (1, false, ATTEMPTS - 1)),
            (2, &[2.0, 1.0, 2.0, 1.0, 2.0, 1.0], (3, false, ATTEMPTS - 1)),
            (1, &[0.7], (1, false, ATTEMPTS - 1)),
        ] {
            assert_eq!(round(usable, figures), expected, "{figures:?} for {usable}");
        }
    }

    #[test]
    fn cpus_are_looked_at_between_rounds_once() {
        let mut given = given(&[2.0]);
        for _ in 0..3 {
            given.round(2, || Ok(())).expect("no error");
        }
        assert_eq!(given.figures.len(), 4);
        given.round(0, || Ok(())).expect("no error");
        given.round(2, || Ok(())).expect("no error");
        assert_eq!(given.figures.len(), 6);
    }

    #[test]
    fn one_cpu_is_never_enough_to_publish() {
        let are_enough = |given, of| Cpus::always(given, of).are_enough();
        assert!(are_enough(1.6, 2) && are_enough(6.5, 8));
        assert!(!are_enough(1.0, 1) && !are_enough(1.5, 2) && !are_enough(6.0, 8));
    }
}
