//! A map in the order of its keys, two numbers each.
//!
//! It is a treap (Seidel and Aragon, 1996): a search tree by the keys, and a heap by pseudo-random priorities, so
//! that paths are short on average, in whatever order keys come. Priorities depend on a seed of the map, which other
//! code does not know: so no order can be made that turns the tree into a list. The tree is one type, whatever the
//! values are, and compiled once. With the standard library's tree, this was a tenth of the library's code, and of the
//! time to compile it.

use core::{mem, ptr};

use super::now;

pub type Key = (u64, u64);

/// See the [module](self).
#[derive(Debug)]
pub struct OrderedMap<V> {
    tree: Tree,
    /// By node.
    values: Vec<Option<V>>,
}

/// Node 0 is no node: its left child is the root, once there are nodes.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    /// Nodes that are not linked.
    unused: Vec<u32>,
    /// What priorities depend on; 0 before the first node.
    seed: u32,
}

#[derive(Debug)]
struct Node {
    key: Key,
    /// The left and the right one.
    children: [u32; 2],
}

/// The place of a node: its parent, and which of the children it is.
type Place = (u32, usize);

const ROOT: Place = (0, LEFT);
const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Mixes the bits of a number (Murmur3).
fn mix(number: u32) -> u32 {
    let mixed = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

impl Tree {
    /// Returns a seed that is hard to guess, of the time and an address that the system has chosen. Not 0.
    fn new_seed(&self) -> u32 {
        if cfg!(loom) {
            return 1;
        }
        let address = ptr::from_ref(self).addr() as u64;
        [address >> 32, address, now()].into_iter().fold(1, |seed, part| mix(seed ^ part as u32)).max(1)
    }

    /// Returns the priority of a node.
    fn priority(&self, node: u32) -> u32 {
        mix(node ^ self.seed)
    }

    fn key(&self, node: u32) -> Key {
        self.nodes[node as usize].key
    }

    fn at(&self, (parent, side): Place) -> u32 {
        self.nodes.get(parent as usize).map_or(0, |node| node.children[side])
    }

    fn set(&mut self, (parent, side): Place, node: u32) {
        self.nodes[parent as usize].children[side] = node;
    }

    /// Returns the node of the key and its place; of a key that is not there, 0.
    fn find(&self, key: Key) -> (u32, Place) {
        let mut place = ROOT;
        loop {
            let node = self.at(place);
            if node == 0 || self.key(node) == key {
                return (node, place);
            }
            place = (node, if self.key(node) < key { RIGHT } else { LEFT });
        }
    }

    /// Returns the node of the first key that is not smaller than `from`.
    fn first_from(&self, from: Key) -> u32 {
        let (mut first, mut node) = (0, self.at(ROOT));
        while node != 0 {
            let is_smaller = self.key(node) < from;
            first = if is_smaller { first } else { node };
            node = self.at((node, usize::from(is_smaller)));
        }
        first
    }

    /// Returns a node of this key, which is not there.
    fn insert(&mut self, key: Key) -> u32 {
        if self.seed == 0 {
            self.seed = self.new_seed();
        }
        let node = self.unused.pop().unwrap_or(self.nodes.len().max(1) as u32);
        while self.nodes.len() <= node as usize {
            self.nodes.push(Node { key, children: [0; 2] });
        }
        self.nodes[node as usize].key = key;
        let mut place = ROOT;
        let mut below = self.at(place);
        while below != 0 && self.priority(below) >= self.priority(node) {
            place = (below, usize::from(self.key(below) < key));
            below = self.at(place);
        }
        self.set(place, node);
        // Those below have a lower priority. Where the next smaller and the next greater ones go:
        let mut places = [(node, LEFT), (node, RIGHT)];
        while below != 0 {
            let is_greater = usize::from(self.key(below) > key);
            self.set(places[is_greater], below);
            places[is_greater] = (below, 1 - is_greater);
            below = self.at(places[is_greater]);
        }
        self.set(places[LEFT], 0);
        self.set(places[RIGHT], 0);
        node
    }

    /// Returns the node that the key had; if it is not there, 0.
    fn remove(&mut self, key: Key) -> u32 {
        let (node, mut place) = self.find(key);
        if node == 0 {
            return 0;
        }
        let [mut left, mut right] = self.nodes[node as usize].children;
        while left != 0 && right != 0 {
            if self.priority(left) >= self.priority(right) {
                self.set(place, left);
                place = (left, RIGHT);
                left = self.at(place);
            } else {
                self.set(place, right);
                place = (right, LEFT);
                right = self.at(place);
            }
        }
        self.set(place, left | right);
        self.unused.push(node);
        node
    }

    /// Returns `true` if most nodes are not used.
    fn is_sparse(&self) -> bool {
        self.unused.len() > 3 * (self.nodes.len() - self.unused.len() - 1)
    }
}

impl<V> OrderedMap<V> {
    pub const fn new() -> Self {
        Self { tree: Tree { nodes: Vec::new(), unused: Vec::new(), seed: 0 }, values: Vec::new() }
    }

    /// Returns the value that it replaces.
    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        let node = match self.tree.find(key).0 {
            0 => self.tree.insert(key),
            found => found,
        };
        while self.values.len() <= node as usize {
            self.values.push(None);
        }
        self.values[node as usize].replace(value)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        self.values.get_mut(self.tree.find(key).0 as usize)?.as_mut()
    }

    pub fn contains(&self, key: Key) -> bool {
        self.tree.find(key).0 != 0
    }

    pub fn remove(&mut self, key: Key) -> Option<V> {
        let node = self.tree.remove(key);
        let value = self.values.get_mut(node as usize)?.take();
        if self.tree.is_sparse() {
            self.compact();
        }
        value
    }

    /// Gives memory back, at the price of some instructions for each removal.
    fn compact(&mut self) {
        let old = mem::replace(self, Self::new());
        self.tree.seed = old.tree.seed;
        for (node, value) in old.tree.nodes.iter().zip(old.values) {
            if let Some(value) = value {
                self.insert(node.key, value);
            }
        }
    }

    /// Returns the first key that is not smaller than `from`.
    pub fn first_from(&self, from: Key) -> Option<Key> {
        let node = self.tree.first_from(from);
        (node != 0).then(|| self.tree.key(node))
    }

    pub fn len(&self) -> usize {
        self.tree.nodes.len().saturating_sub(1) - self.tree.unused.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tree.at(ROOT) == 0
    }

    /// Returns the values, in any order.
    pub fn into_values(self) -> Vec<V> {
        let mut values = Vec::new();
        for value in self.values.into_iter().flatten() {
            values.push(value);
        }
        values
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys_in_order() {
        let mut map = OrderedMap::new();
        let keys = |step: u64| (0..100).map(move |n| (n * step % 100 / 10, n * step % 10));
        for (value, key) in keys(37).enumerate() {
            assert_eq!(map.insert(key, value), None);
        }
        for (value, key) in keys(37).enumerate() {
            assert_eq!(map.insert(key, value + 1), Some(value));
            assert_eq!(map.get_mut(key), Some(&mut (value + 1)));
        }
        let mut from = (0, 0);
        for key in keys(1) {
            assert_eq!(map.first_from(from), Some(key));
            from = (key.0, key.1 + 1);
        }
        assert_eq!(map.first_from(from), None);
        for (value, key) in keys(37).enumerate().skip(50) {
            assert_eq!(map.remove(key), Some(value + 1));
            assert!(!map.contains(key) && map.remove(key).is_none());
        }
        let mut left = map.into_values();
        left.sort();
        assert!(left.into_iter().eq(1..=50));
    }

    /// Returns how long the longest path is below a place.
    fn height<V>(map: &OrderedMap<V>, place: Place) -> usize {
        match map.tree.at(place) {
            0 => 0,
            node => 1 + height(map, (node, LEFT)).max(height(map, (node, RIGHT))),
        }
    }

    #[test]
    fn paths_are_short_in_whatever_order_keys_come() {
        const KEYS: u64 = 1 << 14;
        let orders: [fn(u64) -> u64; 3] = [|n| n, |n| KEYS - n, |n| n * 5 % KEYS];
        for order in orders {
            let mut map = OrderedMap::new();
            (0..KEYS).for_each(|n| _ = map.insert((order(n), 0), n));
            assert!(height(&map, ROOT) < 45, "{}", height(&map, ROOT));
            // The first ones leave, and others come at the end.
            (0..KEYS).for_each(|n| {
                map.remove(map.first_from((0, 0)).expect("some are left"));
                map.insert((KEYS + n, 1), n);
            });
            assert!(height(&map, ROOT) < 45, "{}", height(&map, ROOT));
        }
    }

    #[test]
    fn paths_are_short_in_an_order_made_for_another_seed() {
        const KEYS: u32 = 1 << 12;
        let fill = |map: &mut OrderedMap<()>, seed: u32| {
            (1..=KEYS).for_each(|node| _ = map.insert((u64::from(mix(node ^ seed)), 0), ()));
        };
        let mut list = OrderedMap::new();
        list.tree.seed = 7;
        fill(&mut list, 7);
        assert_eq!(height(&list, ROOT), KEYS as usize);
        let mut map = OrderedMap::new();
        fill(&mut map, 7);
        assert!(height(&map, ROOT) < 60, "{}", height(&map, ROOT));
    }

    #[test]
    fn waves_of_values_leave_no_memory() {
        let mut map = OrderedMap::new();
        for _ in 0..3 {
            (0..1000).for_each(|n| _ = map.insert((n, 0), n));
            // Some leave while others come.
            (0..1000).for_each(|n| {
                assert_eq!(map.remove((n, 0)), Some(n));
                map.insert((n, 1), n);
            });
            assert_eq!(map.values.len(), 1001);
            (1..1000).for_each(|n| assert_eq!(map.remove((n, 1)), Some(n)));
            // One stays for long.
            assert!(map.values.capacity() + map.tree.unused.capacity() < 10);
            assert_eq!(map.remove((0, 1)), Some(0));
            assert!(map.is_empty());
            assert_eq!(map.tree.nodes.capacity() + map.values.capacity() + map.tree.unused.capacity(), 0);
        }
    }
}
