//! Types that mention pointers to themselves compile: whether one is `Send` is not asked to find that out.

use stillpoint::arc::{ArcCell, Cache, Deferred};
use stillpoint::hazard;
use stillpoint::lock::{Mutex, RwLock};
use stillpoint::percpu::{self, ArcOwner, Pool};
use stillpoint::rcu::{Atomic, RcuOption, Ref, Retired};
use support::prelude::*;

fn is_sent<T: Send>() {}
fn is_shared<T: Send + Sync>() {}

/// For each pointer a test that a type with such a pointer to itself has what `is_shared` or `is_sent` asks for.
macro_rules! recursive {
    ($($test:ident: $check:ident, $pointer:ty;)+) => { $(
        #[test]
        fn $test() {
            #[expect(dead_code, reason = "only its type matters")]
            struct Node {
                next: $pointer,
                name: String,
            }
            $check::<Node>();
        }
    )+ };
}

recursive! {
    rcu_pointer: is_shared, Rcu<Vec<Node>>;
    rcu_option: is_shared, RcuOption<Node>;
    rcu_atomic: is_shared, Atomic<Node>;
    rcu_owned: is_shared, Option<rcu::Owned<Node>>;
    rcu_retired: is_sent, Option<Retired<Node>>;
    rcu_of_arc: is_shared, Rcu<Vec<Arc<Node>>>;
    qsbr_option: is_shared, RcuOption<Node, qsbr::Global>;
    srcu_option: is_shared, RcuOption<Node, srcu::Domain>;
    srcu_reference: is_sent, Option<Ref<'static, Node, srcu::Domain>>;
    hazard_option: is_shared, RcuOption<Node, hazard::Global>;
    hazard_atomic: is_shared, Atomic<Node, hazard::Global>;
    arc_cell: is_shared, ArcCell<Option<Arc<Node>>>;
    arc_cell_deferred: is_shared, ArcCell<Option<Arc<Node>>, Deferred>;
    arc_cache: is_sent, Option<Cache<Arc<ArcCell<Option<Arc<Node>>>>, Option<Arc<Node>>>>;
    percpu_arc: is_shared, Option<percpu::Arc<Node>>;
    percpu_owner: is_shared, Option<ArcOwner<Node>>;
    percpu_pool: is_shared, Pool<Node>;
    mutex: is_shared, Mutex<Option<Box<Node>>>;
    rwlock: is_shared, RwLock<Option<Box<Node>>>;
}
