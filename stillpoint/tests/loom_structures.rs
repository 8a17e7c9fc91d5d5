//! A program's own structures: a Treiber stack and Michael's list, each with sections and with hazard pointers. The
//! same source runs under loom, in Miri and on the machine: see `docs/model-checking.md`. As in a program, it uses
//! the public interface only.

use std::sync::Arc;

#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::thread;

use stillpoint::rcu::{self, Atomic, DeferOptions, Owned};
use stillpoint::{Domain, hazard};

#[allow(dead_code, unused_imports, reason = "an example, which has a `main`")]
#[path = "../examples/hazard_list.rs"]
mod hazard_list;
#[allow(dead_code, unused_imports, reason = "as above")]
#[path = "../examples/sorted_list.rs"]
mod sorted_list;

/// Explores `model` with so many preemptions: one more takes ten times as long.
#[cfg(loom)]
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Runs `model`, often on the machine. In Miri, each seed is another schedule.
#[cfg(not(loom))]
fn explore(_preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    (0..if cfg!(miri) { 1 } else { 1000 }).for_each(|_| model());
}

/// Runs `one` and `other` in parallel on a structure. Returns it, and both results.
fn race<S: Send + Sync + 'static, R: Send + 'static>(
    structure: S,
    one: impl FnOnce(&S) -> R,
    other: impl FnOnce(&S) -> R + Send + 'static,
) -> (S, R, R) {
    let structure = Arc::new(structure);
    let theirs = Arc::clone(&structure);
    let thread = thread::spawn(move || {
        let result = other(&theirs);
        drop(theirs);
        result
    });
    let result = one(&structure);
    let others = thread.join().unwrap();
    (Arc::into_inner(structure).expect("the other thread has ended"), result, others)
}

struct Stack<D: Domain> {
    head: Atomic<Node<D>, D>,
}

struct Node<D: Domain> {
    value: u32,
    next: Atomic<Node<D>, D>,
}

impl<D: Domain> Stack<D> {
    fn of(values: impl IntoIterator<Item = u32>) -> Self {
        let stack = Self { head: Atomic::null() };
        values.into_iter().for_each(|value| stack.push(value));
        stack
    }

    fn push(&self, value: u32) {
        let mut node = Owned::new(Node { value, next: Atomic::null() });
        loop {
            // SAFETY: compared and stored only.
            let head = unsafe { self.head.load_unprotected() };
            node.next.store(head);
            match self.head.try_store(head, node) {
                Ok(_) => return,
                Err(back) => node = back,
            }
        }
    }
}

impl Stack<rcu::Global> {
    fn pop(&self) -> Option<u32> {
        let guard = rcu::enter();
        loop {
            let head = self.head.load(&guard);
            let &Node { value, ref next } = head.as_ref()?;
            if self.head.compare_exchange(head, next.load(&guard), &guard).is_ok() {
                // SAFETY: the node is no longer in the stack, and does not return to it.
                unsafe { rcu::Global.retire_shared(head, DeferOptions::new()) };
                return Some(value);
            }
        }
    }
}

impl Stack<hazard::Global> {
    /// Returns the value that would be popped.
    fn peek_protected(&self) -> Option<u32> {
        let mut pointer = hazard::HazardPointer::new();
        pointer.protect(&self.head).as_ref().map(|node| node.value)
    }

    fn pop_protected(&self) -> Option<u32> {
        let mut pointer = hazard::HazardPointer::new();
        loop {
            let head = pointer.protect(&self.head);
            let &Node { value, ref next } = head.as_ref()?;
            // SAFETY: stored only.
            let next = unsafe { next.load_unprotected() };
            if self.head.try_store(head, next).is_ok() {
                // SAFETY: as above.
                unsafe { hazard::Global.retire_shared(head, DeferOptions::new()) };
                return Some(value);
            }
        }
    }
}

/// Refutes: stack-freed-at-once
#[test]
fn stack_gives_each_value_once() {
    explore(1, || {
        let pop_and_push = |stack: &Stack<_>| {
            let popped = stack.pop();
            stack.push(3);
            popped
        };
        let (mut stack, one, other) = race(Stack::of([1, 2]), Stack::pop, pop_and_push);
        // SAFETY: no other thread has the stack.
        let last = unsafe { stack.head.take() }.map(|node| node.value);
        let mut values = [one, other, last].map(|value| value.expect("there were three values"));
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3]);
    });
}

/// Refutes: stack-not-protected
#[test]
fn stack_of_hazard_pointers_is_read_beside_a_pop() {
    explore(2, || {
        let stack = Stack::of([1, 2]);
        let (mut stack, popped, seen) = race(stack, Stack::pop_protected, Stack::peek_protected);
        assert!(popped == Some(2) && seen.is_some());
        // SAFETY: no other thread has the stack.
        assert_eq!(unsafe { stack.head.take() }.map(|node| node.value), Some(1));
    });
}

/// Refutes: list-freed-at-once, list-not-marked
#[test]
fn list_loses_no_key_beside_a_removal() {
    explore(2, || {
        let list = sorted_list::SortedList::new();
        assert!(list.insert(1) && list.insert(3));
        let (list, removed, inserted) = race(list, |list| list.remove(&1), |list| list.insert(2));
        assert!(removed && inserted);
        assert_eq!([1, 2, 3].map(|key| list.contains(&key)), [false, true, true]);
    });
}

/// Refutes: hazard-list-freed-at-once
#[test]
fn list_of_hazard_pointers_is_read_beside_a_removal() {
    explore(1, || {
        let list = hazard_list::List::default();
        assert!(list.insert(1) && list.insert(2));
        let remove = |list: &hazard_list::List| assert!(list.remove(1));
        race(list, remove, |list| list.for_each(|key| assert!(key == 1 || key == 2)));
    });
}
