//! Models of `PublishedPtr`: each change publishes what its thread did before, each load and each previous pointer
//! acquires that, and a node that was unlinked outlives its readers.

use std::ptr::null_mut;

use stillpoint::rcu::published_ptr::PublishedPtr;
use support::domain::Domain;
use support::model::*;

/// The mark of a node that is to be unlinked, in a pointer.
const MARK: usize = 1;

/// A node of a list. A freed node has the value 0, and keeps its memory.
struct Node {
    value: UnsafeCell<u32>,
    next: PublishedPtr<Node>,
}

fn node(value: u32, next: *mut Node) -> *mut Node {
    let node = Box::new(Node { value: UnsafeCell::new(0), next: PublishedPtr::new(next) });
    node.value.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(node)
}

/// Returns the node without the mark.
fn at<'a>(node: *mut Node) -> &'a Node {
    // SAFETY: the memory of nodes is never freed.
    unsafe { &*node.map_addr(|address| address & !MARK) }
}

fn is_null(node: *mut Node) -> bool {
    node.addr() & !MARK == 0
}

fn read(node: *mut Node) {
    at(node).value.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
}

fn write(node: *mut Node, value: u32) {
    at(node).value.with_mut(|cell| unsafe { *cell = value });
}

fn is_marked(node: *mut Node) -> bool {
    node.addr() & MARK != 0
}

fn marked(node: *mut Node) -> *mut Node {
    node.map_addr(|address| address | MARK)
}

/// Explores `one` and `other` in parallel, with a pointer to `first`, marked or not.
fn explore(
    is_marked: bool,
    one: impl Fn(&PublishedPtr<Node>, *mut Node) + Copy + Send + Sync + 'static,
    other: impl Fn(&PublishedPtr<Node>, *mut Node) + Copy + Send + Sync + 'static,
) {
    check(0, 3, move || {
        let first = node(7, null_mut());
        let pointer = Arc::new(PublishedPtr::new(if is_marked { marked(first) } else { first }));
        race(&pointer, |pointer| other(pointer, first), move |pointer| one(pointer, first));
    });
}

type Exchange = fn(&PublishedPtr<Node>, *mut Node, *mut Node) -> Result<*mut Node, *mut Node>;

const EXCHANGES: [Exchange; 2] = [PublishedPtr::compare_exchange, PublishedPtr::compare_exchange_weak];

fn publish(pointer: &PublishedPtr<Node>, _first: *mut Node) {
    pointer.store(node(8, null_mut()));
}

fn load(pointer: &PublishedPtr<Node>, _first: *mut Node) {
    read(pointer.load());
}

/// Refutes: PublishedPtr::store:Release
#[test]
fn store_publishes_the_node() {
    explore(false, publish, load);
}

#[test]
fn swap_publishes_the_node() {
    explore(false, |pointer, _| _ = pointer.swap(node(8, null_mut())), load);
}

/// Refutes: PublishedPtr::compare_exchange:Release, PublishedPtr::compare_exchange_weak:Release
#[test]
fn exchange_publishes_the_node() {
    for exchange in EXCHANGES {
        let publish =
            move |pointer: &_, first| assert!(exchange(pointer, first, node(8, null_mut())).is_ok());
        explore(false, publish, load);
    }
}

#[test]
fn swap_acquires_the_previous_node() {
    explore(false, publish, |pointer, _| read(pointer.swap(null_mut())));
}

/// The other thread takes the node, changes it, and stores it again.
fn change_alone(pointer: &PublishedPtr<Node>, _first: *mut Node) {
    let taken = pointer.swap(null_mut());
    if !taken.is_null() {
        write(taken, 8);
        pointer.store(taken);
    }
}

/// Refutes: PublishedPtr::compare_exchange:Acquire, PublishedPtr::compare_exchange_weak:Acquire
#[test]
fn exchange_acquires_what_it_replaces_or_finds() {
    for exchange in EXCHANGES {
        explore(false, change_alone, move |pointer, first| {
            match exchange(pointer, first, node(9, null_mut())) {
                Ok(previous) => read(previous),
                Err(current) => assert!(current.is_null()),
            }
        });
    }
}

/// Refutes: PublishedPtr::compare_exchange:FailureAcquire, PublishedPtr::compare_exchange_weak:FailureAcquire
#[test]
fn failed_exchange_acquires_the_node() {
    for exchange in EXCHANGES {
        explore(false, publish, move |pointer, first| {
            if let Err(current) = exchange(pointer, first, null_mut()) {
                read(current);
            }
        });
    }
}

/// The thread that marks the node has changed it. Until then no other thread uses it.
/// Refutes: PublishedPtr::compare_exchange_weak:Release
#[test]
fn mark_publishes_what_came_before() {
    explore(
        false,
        |pointer, first| {
            write(first, 8);
            pointer.fetch_or(MARK);
        },
        |pointer, _| {
            let current = pointer.load();
            if is_marked(current) {
                read(current);
            }
        },
    );
}

/// Refutes: PublishedPtr::compare_exchange_weak:Release
#[test]
fn cleared_mark_publishes_what_came_before() {
    explore(
        true,
        |pointer, first| {
            write(first, 8);
            pointer.fetch_and(!MARK);
        },
        |pointer, _| {
            let current = pointer.load();
            if !is_marked(current) {
                read(current);
            }
        },
    );
}

/// Refutes: PublishedPtr::compare_exchange_weak:Acquire + PublishedPtr::compare_exchange_weak:FailureAcquire
#[test]
fn marking_acquires_the_node() {
    explore(false, publish, |pointer, _| {
        read(pointer.fetch_or(MARK));
    });
}

/// Refutes: PublishedPtr::compare_exchange_weak:Acquire + PublishedPtr::compare_exchange_weak:FailureAcquire
#[test]
fn clearing_a_mark_acquires_the_node() {
    explore(
        true,
        |pointer, _| pointer.store(marked(node(8, null_mut()))),
        |pointer, _| read(pointer.fetch_and(!MARK)),
    );
}

/// A reader walks a list of two nodes. A writer marks and unlinks the first one, then the second one, each by another
/// operation, and frees both after one grace period.
/// Refutes: no-wait
#[test]
fn reader_of_a_list_never_sees_a_freed_node() {
    check(1, 3, || {
        let domain = Domain::new();
        let own = domain.register();
        let second = node(8, null_mut());
        let first = node(7, second);
        let list = Arc::new((domain, PublishedPtr::new(first)));
        let empty = |(domain, head): &(Arc<Domain>, PublishedPtr<Node>)| {
            assert_eq!(at(first).next.fetch_or(MARK), second);
            assert_eq!(head.compare_exchange(first, second), Ok(first));
            assert_eq!(head.swap(null_mut()), second);
            domain.engine.synchronize(None);
            write(first, 0);
            write(second, 0);
        };
        race_reader(&list, empty, move |(domain, head)| {
            domain.enter(own);
            let mut next = head.load();
            while !is_null(next) {
                // Time may pass between loading the pointer and reading through it.
                poll();
                read(next);
                next = at(next).next.load();
            }
            domain.leave(own);
        });
    });
}
