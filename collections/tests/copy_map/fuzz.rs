//! Random programs of one thread, beside the map of the standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;

use proptest::prelude::*;
use stillpoint_collections::CopyMap;
use stillpoint_collections::copy_map::{Iter, Plain};
use support::deadline::deadline;

use crate::hashers::{MASKS, Masked};

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
struct Iteration<'m, K: Plain, V: Plain> {
    iter: Iter<'m, K, V, Masked>,
    returned: BTreeSet<u16>,
    /// The keys that have been in the map since it began.
    stayed: BTreeSet<u16>,
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

fn run<K: Numbered + std::hash::Hash + Eq, V: Numbered>(mask: u64, program: &[Op]) {
    let map = CopyMap::<K, V, _>::with_hasher(Masked(mask));
    let mut model = BTreeMap::new();
    let mut iteration: Option<Iteration<'_, K, V>> = None;
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
                    assert_eq!(number(map.remove(&key(k))), model.remove(&k));
                }
            }
            Op::Remove(k) => assert_eq!(number(map.remove(&key(k))), model.remove(&k)),
            Op::RemoveIf(k, v) => {
                let removed = map.remove_if(&key(k), |found| found == value(v));
                let is_it = model.get(&k) == Some(&v);
                let model = if is_it {
                    Ok(model.remove(&k))
                } else {
                    model.get(&k).map_or(Ok(None), |&stays| Err(stays))
                };
                let byte = |value: V| value.number() as u8;
                assert_eq!(removed.map(number).map_err(byte), model);
            }
            Op::Get(k) => {
                assert_eq!(number(map.get(&key(k))), model.get(&k).copied());
                assert_eq!(map.contains_key(&key(k)), model.contains_key(&k));
            }
            Op::GetOrInsert(k, v) => {
                let found = map.get_or_insert(key(k), value(v));
                assert_eq!(found, value(*model.entry(k).or_insert(v)));
            }
            Op::Update(k) => {
                let new = model.get_mut(&k).map(|v| {
                    *v = (*v + 1) % 4;
                    *v
                });
                assert_eq!(number(map.update(&key(k), next)), new);
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
                let done = map.compute(&key(k), |old| {
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
                let entries: Vec<_> = map.iter().map(|(k, v)| (k.number(), v.number() as u8)).collect();
                assert_eq!(entries.len(), model.len());
                assert_eq!(entries.into_iter().collect::<BTreeMap<_, _>>(), model);
            }
            Op::Iterate(steps) => {
                let current = iteration.get_or_insert_with(|| Iteration {
                    iter: map.iter(),
                    returned: BTreeSet::new(),
                    stayed: model.keys().copied().collect(),
                });
                for _ in 0..steps {
                    let Some((key, _)) = current.iter.next() else {
                        assert!(current.stayed.is_subset(&current.returned), "an entry was missed");
                        iteration = None;
                        break;
                    };
                    assert!(
                        current.returned.insert(key.number()) || !current.stayed.contains(&key.number()),
                        "an entry was returned twice"
                    );
                }
            }
        }
        if let Some(current) = &mut iteration {
            current.stayed.retain(|key| model.contains_key(key));
        }
        assert_eq!(map.len(), model.len());
    }
    let entries: BTreeMap<_, _> = map.iter().map(|(k, v)| (k.number(), v.number() as u8)).collect();
    assert_eq!(entries, model);
}

#[test]
fn random_programs_agree_with_the_standard_map() {
    let _running = deadline();
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(mask in proptest::sample::select(MASKS), program in prop::collection::vec(ops(), 1..200))| {
        run::<u64, u64>(mask, &program);
        run::<[u16; 5], [u16; 9]>(mask, &program);
        run::<u64, [u16; 1]>(mask, &program);
    });
}

/// Of the same hasher as programs use.
#[test]
fn large_table_agrees_with_the_standard_map() {
    let (map, mut rng) = (CopyMap::<u32, u64, RandomState>::default(), fastrand::Rng::with_seed(0));
    let mut model = std::collections::HashMap::new();
    let (keys, rounds) = if cfg!(miri) { (1 << 9, 2_000) } else { (1 << 16, 400_000) };
    for round in 0..rounds {
        let key = rng.u32(..keys);
        match rng.u8(..4) {
            0 | 1 => assert_eq!(map.insert(key, round), model.insert(key, round)),
            2 => assert_eq!(map.remove(&key), model.remove(&key)),
            _ => assert_eq!(map.get(&key), model.get(&key).copied()),
        }
    }
    assert_eq!(map.iter().collect::<std::collections::HashMap<_, _>>(), model);
}
