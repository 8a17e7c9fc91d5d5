//! Threads that get, insert and remove random keys.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::repeat;
use crate::peers::maps::{Key as _, Map};
use harness::Config;

/// Operations of a step.
const OPERATIONS: usize = 64;

/// A mix of operations.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Percentage of gets.
    pub reads: u32,
    pub threads: usize,
    /// Entries of the map.
    pub size: usize,
}

impl Cell {
    pub fn config(self) -> Config {
        Config::new([
            ("reads", self.reads.into()),
            ("threads", self.threads.into()),
            ("size", self.size.into()),
        ])
    }

    /// Returns the number of keys: those of a map that changes are in it half of the time.
    fn universe(self) -> usize {
        if self.reads == 100 { self.size } else { 2 * self.size }
    }
}

/// The maps of a system, by size, and whether they change.
#[derive(Debug)]
pub struct Maps<M>(BTreeMap<(usize, bool), M>);

impl<M> Default for Maps<M> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Runs cells.
pub type Load = dyn FnMut(Cell, Duration) -> anyhow::Result<[f64; 2]>;

impl<M: Map> Maps<M> {
    pub fn into_load(mut self) -> Box<Load> {
        Box::new(move |cell, slice| run(&mut self, cell, slice))
    }
}

/// Runs a cell. Returns the nanoseconds of CPU time of an operation, and those between two operations.
fn run<M: Map>(maps: &mut Maps<M>, cell: Cell, slice: Duration) -> anyhow::Result<[f64; 2]> {
    let map = maps.0.entry((cell.size, cell.reads < 100)).or_insert_with(|| {
        let map = M::default();
        let step = cell.universe() / cell.size;
        (0..cell.universe())
            .step_by(step)
            .for_each(|number| map.insert(u64::with_number(number), number as u64));
        if cell.reads < 100 {
            // For a while: a table that the numbers fill exactly would be resized during a measurement.
            let more = || (1..cell.universe()).step_by(16);
            more().for_each(|number| map.insert(u64::with_number(number), number as u64));
            more().for_each(|number| map.remove(&u64::with_number(number)));
        }
        map
    });
    let map = &*map;
    let times = repeat(cell.threads, slice, |number| {
        let mut rng = Rng::with_seed(number as u64);
        batch(map, cell, &mut rng);
        move |_| _ = black_box(batch(map, cell, &mut rng))
    })?;
    Ok(times.map(|time| time / OPERATIONS as f64))
}

/// Does [`OPERATIONS`] operations.
#[inline(never)]
fn batch<M: Map>(map: &M, cell: Cell, rng: &mut Rng) -> u64 {
    let mut sum = 0_u64;
    for _ in 0..OPERATIONS {
        let random = rng.u64(..);
        let key = u64::with_number(random as usize & (cell.universe() - 1));
        // 0 to 199: halves of a percent.
        let draw = (((random >> 40) * 200) >> 24) as u32;
        if draw < 2 * cell.reads {
            sum = sum.wrapping_add(map.get(&key).unwrap_or(0));
        } else if draw.is_multiple_of(2) {
            map.insert(key, random);
        } else {
            map.remove(&key);
        }
    }
    sum
}
