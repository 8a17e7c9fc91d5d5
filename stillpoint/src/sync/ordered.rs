//! A map in the order of its keys, two numbers each.
//!
//! The tree is one type, whatever the values are, so it is compiled once: a tree for each kind of value would be a quarter of
//! the library's code.

use std::collections::BTreeMap;

pub type Key = (u64, u64);

/// See the [module](self).
#[derive(Debug)]
pub struct OrderedMap<V> {
    /// Indices of `values`.
    tree: BTreeMap<Key, usize>,
    values: Vec<Option<V>>,
    unused: Vec<usize>,
}

impl<V> OrderedMap<V> {
    pub const fn new() -> Self {
        Self { tree: BTreeMap::new(), values: Vec::new(), unused: Vec::new() }
    }

    /// Returns the value that it replaces.
    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        if let Some(&index) = self.tree.get(&key) {
            return self.values[index].replace(value);
        }
        let index = self.unused.pop().unwrap_or_else(|| {
            self.values.push(None);
            self.values.len() - 1
        });
        self.values[index] = Some(value);
        self.tree.insert(key, index);
        None
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        self.tree.get(&key).and_then(|&index| self.values[index].as_mut())
    }

    pub fn contains(&self, key: Key) -> bool {
        self.tree.contains_key(&key)
    }

    pub fn remove(&mut self, key: Key) -> Option<V> {
        let index = self.tree.remove(&key)?;
        let value = self.values[index].take();
        self.unused.push(index);
        if self.unused.len() > 3 * self.tree.len() {
            self.compact();
        }
        value
    }

    /// Gives memory back, at the price of a few instructions for each removal.
    fn compact(&mut self) {
        let mut values = Vec::with_capacity(self.tree.len());
        for index in self.tree.values_mut() {
            values.push(self.values[*index].take());
            *index = values.len() - 1;
        }
        (self.values, self.unused) = (values, Vec::new());
    }

    /// Returns the first key that is not smaller than `from`.
    pub fn first_from(&self, from: Key) -> Option<Key> {
        self.tree.range(from..).next().map(|(&key, _)| key)
    }

    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the values, in any order.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.values.into_iter().flatten()
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
        let mut left: Vec<_> = map.into_values().collect();
        left.sort();
        assert!(left.into_iter().eq(1..=50));
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
            assert_eq!(map.values.len(), 1000);
            (1..1000).for_each(|n| assert_eq!(map.remove((n, 1)), Some(n)));
            // One stays for long.
            assert!(map.values.capacity() + map.unused.capacity() < 10);
            assert_eq!(map.remove((0, 1)), Some(0));
            assert!(map.is_empty());
            assert_eq!(map.values.capacity() + map.unused.capacity(), 0);
        }
    }
}
