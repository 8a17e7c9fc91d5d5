//! Random programs of one thread, beside the map of the standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use stillpoint::Domain as _;
use stillpoint_collections::CopyMap;
use stillpoint_collections::copy_map::Plain;
use support::deadline::deadline;

use crate::counted::Alive;
use crate::hashers::{MASKS, Masked};
use crate::map::{CountedMap, Counts, Map};

stillpoint::domain! { struct Own; }

static ALIVE: Alive = Alive::new(0);

impl Counts for Own {
    fn alive() -> &'static Alive {
        &ALIVE
    }
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u16, u8),
    /// Keys from, and how many.
    InsertMany(u16, u16),
    RemoveMany(u16, u16),
    Remove(u16),
    RemoveIf(u16, u8),
    Get(u16),
    GetOrInsert(u16, u8),
    Update(u16),
    UpdateOrInsert(u16, u8),
    Exchange(u16, Option<u8>, u8),
    Compute(u16, Option<u8>),
    Retain(u16),
    Clear,
    Reserve(usize),
    ShrinkToFit,
    Compare,
    /// Begins an iteration, or continues the one that was begun.
    Iterate(usize),
}

fn ops() -> impl Strategy<Value = Op> {
    use Op::*;
    let key = || 0..600_u16;
    let value = || 0..4_u8;
    prop_oneof![
        8 => (key(), value()).prop_map(|(key, value)| Insert(key, value)),
        4 => (key(), 1..400_u16).prop_map(|(key, count)| InsertMany(key, count)),
        4 => (key(), 1..600_u16).prop_map(|(key, count)| RemoveMany(key, count)),
        8 => key().prop_map(Remove),
        4 => (key(), value()).prop_map(|(key, value)| RemoveIf(key, value)),
        8 => key().prop_map(Get),
        4 => (key(), value()).prop_map(|(key, value)| GetOrInsert(key, value)),
        4 => key().prop_map(Update),
        4 => (key(), value()).prop_map(|(key, value)| UpdateOrInsert(key, value)),
        4 => (key(), prop::option::of(value()), value()).prop_map(|(key, old, new)| Exchange(key, old, new)),
        4 => (key(), prop::option::of(value())).prop_map(|(key, new)| Compute(key, new)),
        1 => (1..7_u16).prop_map(Retain),
        1 => Just(Clear),
        1 => (0..2000_usize).prop_map(Reserve),
        1 => Just(ShrinkToFit),
        1 => Just(Compare),
        12 => (1..40_usize).prop_map(Iterate),
    ]
}

/// An iteration that other operations interrupt.
struct Iteration<I> {
    iter: I,
    returned: BTreeSet<u16>,
    /// The keys that have been in the map since it began.
    stayed: BTreeSet<u16>,
    /// Those that have been in the map at some time since.
    present: BTreeSet<u16>,
}

impl<I: Iterator<Item = (K, V)>, K: Numbered, V: Numbered> Iteration<I> {
    /// Returns `false` at the end.
    fn advance(&mut self) -> bool {
        let Some((key, _)) = self.iter.next() else {
            assert!(self.stayed.is_subset(&self.returned), "an entry was missed");
            return false;
        };
        let key = key.number();
        assert!(self.returned.insert(key) || !self.stayed.contains(&key), "an entry was returned twice");
        assert!(self.present.contains(&key), "an entry was returned that never was there");
        true
    }
}

/// A key or a value with a number.
trait Numbered: Plain + PartialEq + std::fmt::Debug {
    fn new(number: u16) -> Self;
    fn number(self) -> u16;
}

impl Numbered for u64 {
    fn new(number: u16) -> Self {
        u64::from(number) << 24
    }
    fn number(self) -> u16 {
        (self >> 24) as u16
    }
}

impl<const N: usize> Numbered for [u16; N] {
    fn new(number: u16) -> Self {
        [number; N]
    }
    fn number(self) -> u16 {
        assert!(self.iter().all(|&part| part == self[0]), "parts of several values");
        self[0]
    }
}

fn run<K: Numbered, V: Numbered, M: Map<K, V, Masked>>(mask: u64, program: &[Op]) {
    let (map, section) = (M::with_hasher(Masked(mask)), M::enter());
    let mut model = BTreeMap::new();
    let mut iteration = None;
    // Chains are searched from one end to the other.
    let at_most = if mask == u64::MAX { 600 } else { 30 };
    let (key, value) = (K::new, |number: u8| V::new(number.into()));
    let number = |value: Option<V>| value.map(|value| value.number() as u8);
    let next = |value: V| V::new((value.number() + 1) % 4);
    for op in program {
        match *op {
            Op::Insert(k, v) => assert_eq!(number(map.insert(key(k), value(v))), model.insert(k, v)),
            Op::InsertMany(from, count) => {
                for k in from..from + count.min(at_most) {
                    assert_eq!(number(map.insert(key(k), value(1))), model.insert(k, 1));
                }
            }
            Op::RemoveMany(from, count) => {
                for k in from..from + count.min(at_most) {
                    assert_eq!(number(map.remove(key(k))), model.remove(&k));
                }
            }
            #[cfg(fuzzing)]
            Op::Remove(k) if std::env::var_os("FUZZ_BROKEN").is_some() => _ = model.remove(&k),
            Op::Remove(k) => assert_eq!(number(map.remove(key(k))), model.remove(&k)),
            Op::RemoveIf(k, v) => {
                let is_it = model.get(&k) == Some(&v);
                let removed = map.remove_if(key(k), |found| found == value(v));
                assert_eq!(number(removed), if is_it { model.remove(&k) } else { None });
            }
            Op::Get(k) => {
                assert_eq!(number(map.get(key(k))), model.get(&k).copied());
                assert_eq!(map.contains_key(key(k)), model.contains_key(&k));
            }
            Op::GetOrInsert(k, v) => {
                let found = map.get_or_insert_with(key(k), || value(v));
                assert_eq!(found, value(*model.entry(k).or_insert(v)));
            }
            Op::Update(k) => {
                let new = model.get_mut(&k).map(|v| {
                    *v = (*v + 1) % 4;
                    *v
                });
                assert_eq!(number(map.update(key(k), next)), new);
            }
            Op::UpdateOrInsert(k, v) => {
                let new = *model.entry(k).and_modify(|v| *v = (*v + 1) % 4).or_insert(v);
                assert_eq!(map.update_or_insert(key(k), next, value(v)), value(new));
            }
            Op::Exchange(k, old, new) => {
                let current = model.get(&k).copied();
                if current == old {
                    model.insert(k, new);
                }
                let exchanged = map.compare_exchange(key(k), old.map(value), value(new));
                assert_eq!(exchanged.map_err(number), if current == old { Ok(()) } else { Err(current) });
            }
            Op::Compute(k, new) => {
                let expected = model.get(&k).copied();
                let done = map.compute(key(k), |old| {
                    assert_eq!(number(old), expected);
                    new.map(value)
                });
                assert_eq!(number(done), new);
                match new {
                    Some(new) => _ = model.insert(k, new),
                    None => _ = model.remove(&k),
                }
            }
            Op::Retain(divisor) => {
                map.retain(|k, v| k.number() % divisor == 0 || v == value(1));
                model.retain(|k, v| k % divisor == 0 || *v == 1);
            }
            Op::Clear => {
                map.clear();
                model.clear();
            }
            Op::Reserve(additional) => map.reserve(additional),
            Op::ShrinkToFit => map.shrink_to_fit(),
            Op::Compare => {
                let entries = map.entries();
                assert_eq!(entries.len(), model.len());
                assert_eq!(numbers(entries), model);
            }
            Op::Iterate(steps) => {
                let keys = || model.keys().copied().collect();
                let current = iteration.get_or_insert_with(|| Iteration {
                    iter: map.iter(&section),
                    returned: BTreeSet::new(),
                    stayed: keys(),
                    present: keys(),
                });
                if !(0..steps).all(|_| current.advance()) {
                    iteration = None;
                }
            }
        }
        if let Some(current) = &mut iteration {
            current.stayed.retain(|key| model.contains_key(key));
            current.present.extend(model.keys());
        }
        assert_eq!(map.len(), model.len());
    }
    iteration.into_iter().for_each(|mut rest| while rest.advance() {});
    assert_eq!(numbers(map.entries()), model);
}

fn numbers<K: Numbered, V: Numbered>(entries: Vec<(K, V)>) -> BTreeMap<u16, u8> {
    entries.into_iter().map(|(key, value)| (key.number(), value.number() as u8)).collect()
}

/// Runs a program on each kind of map.
fn run_all(mask: u64, program: &[Op]) {
    run::<_, _, CopyMap<u64, u64, _>>(mask, program);
    run::<_, _, CopyMap<[u16; 5], [u16; 9], _>>(mask, program);
    run::<_, _, CopyMap<u64, [u16; 1], _>>(mask, program);
    run::<_, _, CountedMap<Own>>(mask, program);
    Own.barrier();
    assert_eq!(ALIVE.load(Relaxed), 0, "an entry leaks");
}

/// Runs the program that a fuzzer's bytes stand for. Panics if the maps differ. With `FUZZ_BROKEN`, the map keeps
/// what is removed.
#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

    let programs = (proptest::sample::select(MASKS), prop::collection::vec(ops(), 1..200));
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, data);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let Ok(tree) = programs.new_tree(&mut runner) else { return };
    let (mask, program) = tree.current();
    run_all(mask, &program);
}

#[test]
fn random_programs_agree_with_the_standard_map() {
    let _running = deadline();
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(mask in proptest::sample::select(MASKS), program in prop::collection::vec(ops(), 1..200))| {
        run_all(mask, &program);
    });
}
