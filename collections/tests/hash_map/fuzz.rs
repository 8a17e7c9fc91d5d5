//! Random programs of one thread, beside the map of the standard library.

use std::collections::{BTreeMap, BTreeSet, HashMap as Model};
use std::sync::atomic::Ordering::Relaxed;

use crate::counted::{Alive, Counted};
use crate::hashers::{MASKS, Masked};
use proptest::prelude::*;
use stillpoint::Domain as _;
use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::{Compute, Iter, Operation};
use support::deadline::deadline;

stillpoint::domain! { struct Own; }

static ALIVE: Alive = Alive::new(0);

#[derive(Debug, Clone)]
enum Op {
    Insert(u64, u64),
    /// Keys from, and how many.
    InsertMany(u64, u64),
    RemoveMany(u64, u64),
    Remove(u64),
    Get(u64),
    GetOrInsert(u64, u64),
    Update(u64),
    /// What the closure returns: insert, remove, abort.
    Compute(u64, u8),
    Retain(u64),
    Clear,
    Reserve(usize),
    /// Compares all entries.
    Compare,
    /// Begins an iteration, or goes on with the one that was begun.
    Iterate(usize),
}

fn ops() -> impl Strategy<Value = Op> {
    use Op::*;
    let key = || 0..600_u64;
    prop_oneof![
        8 => (key(), any::<u64>()).prop_map(|(key, value)| Insert(key, value)),
        4 => (key(), 1..400_u64).prop_map(|(key, count)| InsertMany(key, count)),
        4 => (key(), 1..600_u64).prop_map(|(key, count)| RemoveMany(key, count)),
        8 => key().prop_map(Remove),
        8 => key().prop_map(Get),
        4 => (key(), any::<u64>()).prop_map(|(key, value)| GetOrInsert(key, value)),
        4 => key().prop_map(Update),
        4 => (key(), 0..3_u8).prop_map(|(key, what)| Compute(key, what)),
        1 => (1..7_u64).prop_map(Retain),
        1 => Just(Clear),
        1 => (0..2000_usize).prop_map(Reserve),
        1 => Just(Compare),
        12 => (1..40_usize).prop_map(Iterate),
    ]
}

/// An iteration that other operations interrupt.
struct Iteration<'g> {
    iter: Iter<'g, Counted, Counted, Own>,
    returned: BTreeSet<u64>,
    /// The keys that have been in the map since it began.
    stayed: BTreeSet<u64>,
    /// Those that have been in the map at some time since.
    present: BTreeSet<u64>,
}

fn run(mask: u64, program: &[Op]) {
    let counted = |number| Counted::new(number, &ALIVE);
    let map = HashMap::with_hasher_in(Masked(mask), Own);
    let mut model = Model::new();
    let guard = Own::enter();
    let mut iteration: Option<Iteration<'_>> = None;
    // Chains are searched from one end to the other.
    let at_most = if mask == u64::MAX { 600 } else { 30 };
    for op in program {
        let get = |value: Option<&Counted>| value.map(Counted::get);
        match *op {
            Op::Insert(key, value) => {
                assert_eq!(get(map.insert(counted(key), counted(value), &guard)), model.insert(key, value));
            }
            Op::InsertMany(from, count) => {
                for key in from..from + count.min(at_most) {
                    assert_eq!(get(map.insert(counted(key), counted(1), &guard)), model.insert(key, 1));
                }
            }
            Op::RemoveMany(from, count) => {
                for key in from..from + count.min(at_most) {
                    assert_eq!(get(map.remove(&counted(key), &guard)), model.remove(&key));
                }
            }
            #[cfg(fuzzing)]
            Op::Remove(key) if std::env::var_os("FUZZ_BROKEN").is_some() => {
                model.remove(&key);
            }
            Op::Remove(key) if key % 2 == 1 => {
                let taken = map.take(&counted(key), &guard).map(|entry| (entry.key.get(), entry.value.get()));
                assert_eq!(taken, model.remove_entry(&key));
            }
            Op::Remove(key) => {
                let removed = map.remove_entry(&counted(key), &guard);
                let removed = removed.map(|(key, value)| (key.get(), value.get()));
                assert_eq!(removed, model.remove_entry(&key));
            }
            Op::Get(key) => {
                assert_eq!(get(map.get(&counted(key), &guard)), model.get(&key).copied());
                assert_eq!(map.contains_key(&counted(key), &guard), model.contains_key(&key));
            }
            Op::GetOrInsert(key, value) => {
                let found = map.get_or_insert_with(&counted(key), || counted(value), &guard);
                assert_eq!(found.get(), *model.entry(key).or_insert(value));
            }
            Op::Update(key) => {
                let new = map.update(&counted(key), |old| counted(old.get().wrapping_add(1)), &guard);
                let expected = model.get_mut(&key).map(|value| {
                    *value = value.wrapping_add(1);
                    *value
                });
                assert_eq!(get(new), expected);
            }
            Op::Compute(key, what) => {
                let done = map.compute(
                    &counted(key),
                    |_| match what {
                        0 => Operation::Insert(counted(5)),
                        1 => Operation::Remove,
                        _ => Operation::Abort(7),
                    },
                    &guard,
                );
                match done {
                    Compute::Inserted(_, new) => assert_eq!((new.get(), model.insert(key, 5)), (5, None)),
                    Compute::Updated { old, new } => {
                        assert_eq!((new.1.get(), model.insert(key, 5)), (5, Some(old.1.get())));
                    }
                    Compute::Removed(old) => {
                        assert_eq!((what, get(old.map(|(_, old)| old))), (1, model.remove(&key)));
                    }
                    Compute::Aborted(value) => assert_eq!((what, value), (2, 7)),
                }
            }
            Op::Retain(divisor) => {
                map.retain(|key, value| key.get() % divisor == 0 || value.get() == 5, &guard);
                model.retain(|key, value| key % divisor == 0 || *value == 5);
            }
            Op::Clear => {
                map.clear(&guard);
                model.clear();
            }
            Op::Reserve(additional) => map.reserve(additional, &guard),
            Op::Compare => {
                let entries: Vec<_> = map.iter(&guard).map(|(key, value)| (key.get(), value.get())).collect();
                assert_eq!(entries.len(), model.len());
                assert_eq!(
                    entries.into_iter().collect::<BTreeMap<_, _>>(),
                    model.clone().into_iter().collect()
                );
            }
            Op::Iterate(steps) => {
                let keys = || model.keys().copied().collect();
                let current = iteration.get_or_insert_with(|| Iteration {
                    iter: map.iter(&guard),
                    returned: BTreeSet::new(),
                    stayed: keys(),
                    present: keys(),
                });
                for _ in 0..steps {
                    let Some((key, _)) = current.iter.next() else {
                        assert!(current.stayed.is_subset(&current.returned), "an entry was missed");
                        iteration = None;
                        break;
                    };
                    assert!(current.returned.insert(key.get()), "an entry was returned twice");
                    assert!(
                        current.present.contains(&key.get()),
                        "an entry was returned that never was there"
                    );
                }
            }
        }
        if let Some(current) = &mut iteration {
            current.stayed.retain(|key| model.contains_key(key));
            current.present.extend(model.keys());
        }
        assert_eq!(map.len(), model.len());
    }
    if let Some(current) = iteration {
        let mut returned = current.returned;
        for (key, _) in current.iter {
            assert!(returned.insert(key.get()), "an entry was returned twice");
        }
        assert!(current.stayed.is_subset(&returned), "an entry was missed");
    }
    drop(guard);
    let taken: Model<_, _> = map.into_iter().map(|(key, value)| (key.get(), value.get())).collect();
    assert_eq!(taken, model);
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
    run(mask, &program);
    Own.barrier();
    assert_eq!(ALIVE.load(Relaxed), 0, "an entry leaks");
}

#[test]
fn random_programs_agree_with_the_standard_map() {
    let _running = deadline();
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(mask in proptest::sample::select(MASKS), program in prop::collection::vec(ops(), 1..200))| {
        run(mask, &program);
        Own.barrier();
        assert_eq!(ALIVE.load(Relaxed), 0, "an entry leaks");
    });
}
