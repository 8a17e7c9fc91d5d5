//! Models of heavy fences that callers share: each is ordered against the light fence of a reader, whichever thread
//! issued it.

use loom::sync::Arc;
use loom::thread;
use stillpoint::fence::{heavy, light_compiler_only};
use stillpoint::sync::model::reader;
use stillpoint::sync::shared_seq::SharedSeq;
use stillpoint::sync::{AtomicU64, Ordering::*};
use support::model::check;

const CALLERS: usize = 2;

/// Each caller, and the reader, writes a word of its own and then reads the other side's.
struct Litmus {
    fences: SharedSeq,
    called: [AtomicU64; CALLERS],
    read: AtomicU64,
}

impl Litmus {
    /// Returns `true` if the caller sees the reader.
    fn call(&self, caller: usize) -> bool {
        self.called[caller].store(1, Relaxed);
        self.fences.run_or_wait(heavy);
        self.read.load(Relaxed) != 0
    }

    /// Returns for each caller whether the reader sees it.
    fn read(&self) -> [bool; CALLERS] {
        self.read.store(1, Relaxed);
        light_compiler_only();
        [0, 1].map(|caller| self.called[caller].load(Relaxed) != 0)
    }
}

/// Store buffering: no caller and the reader may miss each other.
fn both_see() {
    let litmus = Arc::new(Litmus {
        fences: SharedSeq::new(),
        called: std::array::from_fn(|_| AtomicU64::new(0)),
        read: AtomicU64::new(0),
    });
    let (w, v) = (litmus.clone(), litmus.clone());
    let reads = thread::spawn(move || reader(0, || w.read()));
    let other = thread::spawn(move || v.call(1));
    let sees = [litmus.call(0), other.join().unwrap()];
    let seen = reads.join().unwrap();
    for caller in 0..CALLERS {
        assert!(sees[caller] || seen[caller], "caller {caller} and the reader miss each other");
    }
    let issued = litmus.fences.completed();
    assert!((1..=CALLERS as u64).contains(&issued), "{issued} fences for {CALLERS} calls");
}

/// Refutes: snapshot-joins-current-round, SharedSeq::snapshot:Acquire + SharedSeq::snapshot:Release
#[test]
fn shared_fence_orders_each_caller_against_a_reader() {
    check(0, 2, both_see);
}
