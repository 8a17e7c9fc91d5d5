//! Models of the text that one thread publishes in two slots: a reader copies a complete text or begins again.

use stillpoint::sync::fence;
use stillpoint::sync::two_slots::TwoSlots;
use support::model::*;

/// Words of a text: all contain its number.
const WORDS: usize = 2;

struct Page {
    number: AtomicU64,
    slots: [[AtomicU64; 1 + WORDS]; 2],
}

impl Page {
    fn new() -> Arc<Self> {
        let slot = || std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { number: AtomicU64::new(0), slots: [slot(), slot()] })
    }

    fn publish(&self, number: u64) {
        let text: Vec<u8> = [number; WORDS].into_iter().flat_map(u64::to_ne_bytes).collect();
        let slots = TwoSlots::new(&self.number, [&self.slots[0], &self.slots[1]]);
        assert!(slots.publish(number, &text));
    }

    /// What `stillpoint top` does. Returns the number of the text that it has copied, unless that has changed.
    fn read(&self) -> Option<u64> {
        let number = self.number.load(Acquire);
        let slot = &self.slots[(number % 2) as usize];
        let copy: Vec<_> = slot.iter().map(|word| word.load(Relaxed)).collect();
        fence(Acquire);
        if number == 0 || self.number.load(Relaxed) != number {
            return None;
        }
        assert_eq!(copy, [&[8 * WORDS as u64][..], &[number; WORDS]].concat(), "torn");
        Some(number)
    }
}

/// Refutes: TwoSlots::publish:Release, TwoSlots::publish:Release#2
#[test]
fn reader_copies_a_complete_text_or_begins_again() {
    check(0, 3, || {
        let page = Page::new();
        let (read, ()) = race(&page, Page::read, |page| (1..=3).for_each(|number| page.publish(number)));
        assert!(read.is_none_or(|number| number <= 3));
        assert_eq!(page.read(), Some(3));
    });
}
