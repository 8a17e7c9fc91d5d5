//! Signal handlers that load at any moment of the interrupted thread.

use stillpoint::arc::ArcCell;
use support::prelude::*;
use support::signals::{expect, handled, interrupt};

static CELL: ArcCell<Option<Arc<[usize; 2]>>> = ArcCell::empty();

fn check(value: &Option<Arc<[usize; 2]>>) {
    expect(value.as_ref().is_none_or(|value| value[0].wrapping_add(value[1]) == 0));
}

fn load() {
    let first = CELL.load();
    let second = CELL.load();
    check(&first);
    drop(first);
    check(&second);
}

#[test]
#[cfg_attr(miri, ignore = "no signals")]
fn signal_handlers_may_load_at_any_moment() {
    let _running = deadline();
    let mut kept = Vec::with_capacity(16);
    let read = |_| {
        let guard = CELL.load();
        check(&guard);
        kept.push(guard);
        if kept.len() == 12 {
            kept.clear();
        }
    };
    // A handler must not free.
    let mut values = Vec::new();
    let write = |_| {
        let number = values.len();
        if number <= handled() {
            values.push(Arc::new([number, number.wrapping_neg()]));
            CELL.store(values.last().cloned());
        }
    };
    // Registers the thread.
    let prepare = || drop([(); 20].map(|()| CELL.load()));
    interrupt(load, prepare, read, write, || true);
    drop(kept);
    CELL.store(None);
    assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
}
