//! A model of the words of blocks that have no owner: a word has one owner at a time, which finds it as the last one left it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use stillpoint::percpu::free_words::{Block, FreeWords};
use support::model::{check, race_all};

/// The words of a block: their owners write to them.
type Words = [UnsafeCell<u64>; 2];

struct Shared {
    free: FreeWords,
    blocks: [(&'static Block, Words); 2],
}

impl Shared {
    /// Returns a block whose two words have owners, and one with a free word. Blocks are never freed.
    fn new() -> Arc<Self> {
        let blocks = [(); 2].map(|()| (&*Box::leak(Box::new(Block::new())), Words::default()));
        let this = Self { free: FreeWords::new(), blocks };
        this.free.add(this.blocks[1].0, 1);
        Arc::new(this)
    }

    fn word(&self, block: &Block, index: usize) -> &UnsafeCell<u64> {
        &self.blocks.iter().find(|(of, _)| std::ptr::eq(*of, block)).expect("one of both").1[index]
    }
}

/// Refutes: FreeWords::take:Acquire, FreeWords::take:Acquire#2, FreeWords::take:Release, FreeWords::give_back:Release,
/// FreeWords::give_back:Acquire, FreeWords::push:Release
#[test]
fn word_given_back_is_found_as_its_owner_left_it() {
    check(0, 3, || {
        let shared = Shared::new();
        race_all(
            &shared,
            |_| (),
            2,
            |shared, index| {
                shared.free.give_back(shared.blocks[0].0, 1 << index);
                if let Some((block, index)) = shared.free.take() {
                    shared.word(block, index).with_mut(|word| unsafe { *word += 1 });
                    shared.free.give_back(block, 1 << index);
                }
            },
        );
        let taken = std::iter::from_fn(|| shared.free.take());
        let uses =
            taken.map(|(block, index)| shared.word(block, index).with_mut(|word| 1 + unsafe { *word }));
        assert_eq!(uses.sum::<u64>(), 3 + 2, "a word is lost, or has two owners");
    });
}
