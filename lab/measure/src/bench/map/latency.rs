//! How long a get takes beside a thread that changes the map.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::peers::maps::{Key as _, Map};
use harness::controls::Controls;
use harness::stats::histogram;
use harness::{crew, pin};

/// The entries that stay.
const STAY: usize = 1 << 14;
/// Those that come and go.
const COME: usize = 15 * STAY;

/// Returns the 99.9th percentile of gets of entries that stay, in nanoseconds.
pub fn run<M: Map>(resizes: bool, slice: Duration) -> anyhow::Result<f64> {
    let (map, controls, cpus) = (M::default(), Controls::default(), pin::allowed()?);
    (0..STAY).for_each(|number| map.insert(u64::with_number(number), 0));
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    controls.scope(|scope| {
        let writer = crew::spawn(scope, || {
            let pinned = pin::to(last);
            while !controls.background_must_stop() {
                let numbers = if resizes { STAY..STAY + COME } else { 0..STAY };
                numbers.clone().for_each(|number| map.insert(u64::with_number(number), 1));
                if resizes {
                    numbers.for_each(|number| map.remove(&u64::with_number(number)));
                }
            }
            pinned
        })?;
        let reader = crew::spawn(scope, || {
            pin::to(first)?;
            let (mut rng, mut times) = (Rng::with_seed(0), histogram());
            let begin = Instant::now();
            while begin.elapsed() < slice {
                let key = u64::with_number(rng.usize(..STAY));
                let begin = Instant::now();
                black_box(map.get(&key));
                times.saturating_record(begin.elapsed().as_nanos() as u64);
            }
            Ok(times.value_at_quantile(0.999) as f64)
        })?;
        let result = crew::join(reader)?;
        controls.release();
        crew::join(writer)??;
        result
    })
}
