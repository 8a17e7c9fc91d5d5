//! Types that mention maps of themselves compile: whether one is `Send` is not asked to find that out.
#![cfg(not(loom))]

use std::sync::Arc;

use stillpoint::{hazard, qsbr, srcu};
use stillpoint_collections::{CopyMap, HashMap, HashSet};

type Hasher = std::hash::RandomState;

fn is_shared<T: Send + Sync>() {}

macro_rules! recursive {
    ($($test:ident: $map:ty;)+) => { $(
        #[test]
        fn $test() {
            #[allow(dead_code, reason = "not all have such keys")]
            #[derive(PartialEq, Eq, Hash)]
            struct Key(Option<Box<Node>>);
            #[expect(dead_code, reason = "only its type matters")]
            struct Node {
                entries: $map,
                name: String,
            }
            impl PartialEq for Node {
                fn eq(&self, other: &Self) -> bool {
                    self.name == other.name
                }
            }
            impl Eq for Node {}
            impl std::hash::Hash for Node {
                fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                    self.name.hash(state);
                }
            }
            is_shared::<Node>();
        }
    )+ };
}

recursive! {
    values: HashMap<String, Node>;
    values_in_arcs: Arc<HashMap<u64, Arc<Node>>>;
    keys: HashMap<Key, u64>;
    values_in_qsbr: HashMap<u64, Node, Hasher, qsbr::Global>;
    values_in_srcu: HashMap<u64, Node, Hasher, srcu::Domain>;
    values_in_hazard: HashMap<u64, Node, Hasher, hazard::Global>;
    members: HashSet<Key>;
    maps_of_numbers: HashMap<u64, (CopyMap<u64, u64>, Option<Arc<Node>>)>;
}
