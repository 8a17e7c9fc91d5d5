//! How many CPUs the machine gives: threads, each bound to a CPU, spin, and their progress is compared with that of
//! one alone. A virtual machine may have fewer CPUs than it shows, for minutes, and no steal time says so.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::controls::{Controls, join_all, spawn_all};
use super::pin;

/// The most CPUs that are measured.
const MOST: usize = 8;
/// The time of a measurement; and of one thread alone, which is repeated, at first more often.
const TIME: Duration = Duration::from_millis(24);
const ALONE: Duration = Duration::from_millis(4);

/// Measures how many CPUs threads get.
pub trait Meter {
    /// Returns how many of the CPUs that this process may use threads get now; of more than eight, how many of eight.
    fn given(&mut self) -> anyhow::Result<f64>;
}

/// Returns how many CPUs can be given: those that this process may use, at most eight.
pub fn most() -> anyhow::Result<usize> {
    Ok(pin::allowed()?.len().min(MOST))
}

/// The [`Meter`] of this machine.
#[derive(Debug, Default)]
pub struct Spinners {
    /// The best that a thread alone has reached: a CPU that is shared for a while does not lower it.
    alone: f64,
}

impl Meter for Spinners {
    fn given(&mut self) -> anyhow::Result<f64> {
        let cpus = pin::allowed()?;
        let cpus = &cpus[..most()?];
        if cpus.len() == 1 {
            return Ok(1.0);
        }
        for _ in 0..if self.alone == 0.0 { 10 } else { 2 } {
            self.alone = self.alone.max(spin(&cpus[..1], ALONE)?);
        }
        Ok(spin(cpus, TIME)? / self.alone)
    }
}

/// Returns the progress of threads, one bound to each of `cpus`, in a nanosecond.
fn spin(cpus: &[usize], time: Duration) -> anyhow::Result<f64> {
    let (controls, end) = (Controls::default(), OnceLock::new());
    controls.scope(|scope| {
        let threads = spawn_all(scope, cpus.len(), |number| {
            let bound = pin::to(cpus[number]);
            controls.begin();
            let (mut steps, mut state) = (0_u64, 1_u64);
            while end.get().is_some_and(|end| Instant::now() < *end) {
                // Each step needs the one before: hardware threads of one core hardly slow each other.
                for _ in 0..1000 {
                    state = black_box(state ^ state >> 3).wrapping_mul(3);
                }
                steps += 1;
            }
            black_box(state);
            bound.map(|()| steps)
        })?;
        controls.ready.wait_for(cpus.len());
        let _ = end.set(Instant::now() + time);
        controls.start.open();
        let steps = join_all(threads)?.into_iter().sum::<anyhow::Result<u64>>()?;
        Ok(steps as f64 / time.as_nanos() as f64)
    })
}

#[cfg(all(test, feature = "measure"))]
mod tests {
    use super::*;
    use crate::profile::tests::alone;

    #[test]
    fn thread_of_one_cpu_is_given_one() {
        let _alone = alone();
        let cpu = pin::allowed().expect("CPUs")[0];
        let bound = std::thread::spawn(move || {
            pin::to(cpu).expect("it may use the CPU");
            (most().expect("CPUs"), Spinners::default().given().expect("threads"))
        });
        assert_eq!(bound.join().expect("no panic"), (1, 1.0));
    }

    #[test]
    fn threads_are_given_no_more_cpus_than_there_are() {
        let _alone = alone();
        let mut meter = Spinners::default();
        // The first may be wrong: a thread alone is slow when others run on its CPU.
        let given = (0..20).map(|_| meter.given().expect("threads")).last().expect("a figure");
        let most = most().expect("CPUs") as f64;
        assert!(given > 0.0 && given < 1.2 * most, "{given} of {most}");
    }
}
