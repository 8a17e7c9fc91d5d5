//! Models of the records of slots: which thread owns one, and when a scan need not look there. A record of a model
//! has one slot.

use std::cell::Cell;
use std::ptr::without_provenance_mut;

use stillpoint::slots::record::{Record, Records};
use stillpoint::slots::slot::Slot;
use stillpoint::slots::thread::{SlotTable, ThreadSlots};
use support::model::*;

/// What a slot protects.
fn value() -> *mut () {
    without_provenance_mut(16)
}

/// Takes a slot of a shared record, in a thread that has taken one of `last`.
fn take_shared(records: &Records, last: &Cell<Option<&'static Record>>) -> &'static Slot {
    records.take_shared(last, || records.claim()).expect("memory")
}

fn protects(records: &Records) -> bool {
    records.slots().any(|slot| slot.protects(value()))
}

/// Two threads know the same record.
/// Refutes: Record::try_own:Acquire, Record::share:Release
#[test]
fn slot_of_a_shared_record_is_taken_once() {
    check(0, 3, || {
        let records = Arc::new(Records::new(u64::MAX));
        let last = Cell::new(None);
        take_shared(&records, &last).give_back();
        let (_, taken) = race_all(
            &records,
            |_| (),
            2,
            move |records, _| {
                let slot = take_shared(records, &last);
                slot.set(value());
                slot
            },
        );
        assert!(!std::ptr::eq(taken[0], taken[1]), "a slot with two owners");
        assert_eq!(records.slots().filter(|slot| slot.protects(value())).count(), 2);
    });
}

/// A scan, or a claim, gives a record back beside a thread that takes a slot there.
/// Refutes: unused-not-checked-again
#[test]
fn record_in_use_is_not_given_back() {
    check(0, 3, || {
        let records = Arc::new(Records::new(u64::MAX));
        let last = Cell::new(None);
        take_shared(&records, &last).give_back();
        let other = without_provenance_mut(32);
        let scan = |records: &Records| assert!(!records.slots().any(|slot| slot.protects(other)));
        race(&records, scan, move |records| take_shared(records, &last).set(value()));
        assert!(protects(&records), "a slot in use is not seen");
        let other = records.of(records.claim().unwrap());
        assert!(other.slots()[0].is_free(), "a record with two owners");
    });
}

/// A thread ends beside another one, which drops a guard of it, and beside a scan.
/// Refutes: end-not-noted, slot-kept-at-exit, record-kept-at-exit
#[test]
fn thread_that_ends_leaves_its_slots_in_use() {
    check(0, 2, || {
        let table: &'static SlotTable = Box::leak(Box::new(SlotTable::new()));
        let slots = ThreadSlots::new();
        let slot = slots.take(table).expect("memory");
        slot.set(value());
        // For more guards than a record has slots.
        let second = slots.take(table).expect("memory");
        assert!(!std::ptr::eq(slot, second), "a slot with two owners");
        let t = thread::spawn(move || second.give_back());
        slots.end(table);
        assert!(protects(table.records()), "a slot in use is not seen");
        slot.give_back();
        // After its end the thread has no slots of its own: a new one may have the record.
        let late = slots.take(table).expect("memory");
        let other = ThreadSlots::new();
        assert!(!std::ptr::eq(other.take(table).expect("memory"), late), "a slot with two owners");
        other.end(table);
        late.give_back();
        t.join().unwrap();
        assert!(!protects(table.records()));
        assert_eq!(table.records().claimed(), 0, "a record is lost");
    });
}
