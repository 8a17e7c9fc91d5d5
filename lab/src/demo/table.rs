//! The forwarding table that every contestant of the demo holds: an array of buckets, one for each value of the
//! first 16 address bits, each bucket an immutable snapshot of the routes behind those bits.
//!
//! Inside a bucket the routes of 16 bits and more are a tree bitmap (W. Eatherton, G. Varghese, Z. Dittia: "Tree
//! Bitmap: Hardware/Software IP Lookups with Incremental Updates", 2004) of stride 6. An update copies the nodes on
//! its path and shares the rest with the version before it, so a bucket is never changed in place: the
//! [`stores`](super::stores) differ only in how a reader gets hold of a bucket and how the updater replaces it.
//!
//! A lookup allocates nothing and touches no reference count: it follows plain references from the bucket down.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use ipnet::IpNet;

/// A next hop: an index into whatever the routes came from.
pub(super) type NextHop = u32;

/// How many leading address bits choose the bucket.
pub(super) const ROOT_BITS: u8 = 16;

/// Buckets of one address family. IPv4 has the first so many slots, IPv6 the next.
pub(super) const FAMILY_SLOTS: usize = 1 << ROOT_BITS;

/// How many address bits one node of the trie consumes.
const STRIDE: u8 = 6;

/// Where an address (or the first address of a prefix) lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The bucket.
    pub(super) slot: usize,
    /// The bits after the first [`ROOT_BITS`], at the top of the word.
    pub(super) rest: u128,
}

impl Place {
    #[inline]
    pub(super) fn of(address: IpAddr) -> Place {
        match address {
            IpAddr::V4(v4) => {
                let bits = v4.to_bits();
                Place { slot: (bits >> 16) as usize, rest: u128::from(bits << 16) << 96 }
            }
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                Place { slot: FAMILY_SLOTS + (bits >> 112) as usize, rest: bits << 16 }
            }
        }
    }

    /// How many slots lie behind a prefix, from the slot of its first address on.
    pub(super) fn span(prefix: IpNet) -> usize {
        1 << ROOT_BITS.saturating_sub(prefix.prefix_len())
    }
}

/// What becomes of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The route of the first `len` bits of `rest` leads to `hop` from now on, or is withdrawn.
    Route { rest: u128, len: u8, hop: Option<NextHop> },
    /// The best match among the prefixes shorter than [`ROOT_BITS`] is this one from now on.
    Fallback(Option<NextHop>),
}

/// The routes behind one value of the first 16 address bits: an immutable snapshot.
#[derive(Debug)]
pub(super) struct Bucket {
    fallback: Option<NextHop>,
    root: Node,
    gauge: &'static Gauge,
    /// Bytes that nobody needs once this version is gone; 0 while it is the current one.
    superseded: AtomicUsize,
}

impl Bucket {
    pub(super) fn new(gauge: &'static Gauge) -> Bucket {
        Bucket { fallback: None, root: Node::default(), gauge, superseded: AtomicUsize::new(0) }
    }

    /// The same routes in memory of their own, counted by another gauge.
    pub(super) fn duplicate(&self, gauge: &'static Gauge) -> Bucket {
        let superseded = AtomicUsize::new(0);
        Bucket { fallback: self.fallback, root: self.root.duplicate(), gauge, superseded }
    }

    /// The next hop of the longest prefix that matches.
    #[inline]
    pub(super) fn lookup(&self, rest: u128) -> Option<NextHop> {
        self.root.lookup(rest).or(self.fallback.as_ref()).copied()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.fallback.is_none() && self.root.is_empty()
    }

    /// The bucket after `change`. From this call on, what only `self` holds counts as awaiting reclamation.
    pub(super) fn successor(&self, change: &Change) -> Bucket {
        let (fallback, root, bytes) = match *change {
            Change::Route { rest, len, hop } => {
                (self.fallback, self.root.with(rest, len, hop), self.root.path_bytes(rest, len))
            }
            Change::Fallback(hop) => (hop, self.root.clone(), self.root.bytes()),
        };
        let bytes = bytes + (size_of::<Bucket>() - size_of::<Node>());
        // Relaxed: `drop` reads it after the last reference to this version is gone, whichever way the store knows.
        self.superseded.store(bytes, Ordering::Relaxed);
        self.gauge.retired(bytes);
        Bucket { fallback, root, gauge: self.gauge, superseded: AtomicUsize::new(0) }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        match *self.superseded.get_mut() {
            0 => {}
            bytes => self.gauge.freed(bytes),
        }
    }
}

/// Bytes that have been replaced and bytes that have been freed. The two sides are different threads for some
/// contestants, hence a cache line each.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    retired: CachePadded<AtomicUsize>,
    freed: CachePadded<AtomicUsize>,
}

impl Gauge {
    /// A gauge for the rest of the process: buckets may outlive the store they were in.
    pub(super) fn leaked() -> &'static Gauge {
        Box::leak(Box::default())
    }

    // All accesses are Relaxed: the gauge is a statistic and orders nothing.

    fn retired(&self, bytes: usize) {
        self.retired.fetch_add(bytes, Ordering::Relaxed);
    }

    fn freed(&self, bytes: usize) {
        self.freed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes awaiting reclamation.
    pub(super) fn awaiting(&self) -> usize {
        // A bucket may be retired and freed between the two loads, then the difference is below zero.
        let retired = self.retired.load(Ordering::Relaxed);
        retired.saturating_sub(self.freed.load(Ordering::Relaxed))
    }
}

/// A node of the trie: the prefixes that end within its six bits, and its children.
#[derive(Clone, Debug, Default)]
struct Node {
    /// By [`prefix_index`].
    routes: Sparse<NextHop>,
    /// By the six bits.
    children: Sparse<Arc<Node>>,
}

impl Node {
    #[inline]
    fn lookup(&self, mut rest: u128) -> Option<&NextHop> {
        let mut node = self;
        let mut best = None;
        loop {
            let chunk = chunk(rest);
            let matching = node.routes.bitmap & MATCHING[chunk as usize >> 1];
            if matching != 0 {
                // A longer prefix has a higher index.
                best = node.routes.get(matching.ilog2());
            }
            match node.children.get(chunk) {
                Some(child) => node = child,
                None => return best,
            }
            rest <<= STRIDE;
        }
    }

    /// This node after the prefix of `len` bits of `rest` got another hop or none. Nodes left empty are cut off.
    fn with(&self, rest: u128, len: u8, hop: Option<NextHop>) -> Node {
        let chunk = chunk(rest);
        if len < STRIDE {
            let routes = self.routes.with(prefix_index(chunk, len), hop);
            return Node { routes, children: self.children.clone() };
        }
        let (below, len_below) = (rest << STRIDE, len - STRIDE);
        let child = match self.children.get(chunk) {
            Some(child) => child.with(below, len_below, hop),
            None => Node::default().with(below, len_below, hop),
        };
        let child = (!child.is_empty()).then(|| Arc::new(child));
        Node { routes: self.routes.clone(), children: self.children.with(chunk, child) }
    }

    fn is_empty(&self) -> bool {
        self.routes.bitmap == 0 && self.children.bitmap == 0
    }

    fn duplicate(&self) -> Node {
        let children = self.children.items.iter().map(|child| Arc::new(child.duplicate())).collect();
        let children = Sparse { bitmap: self.children.bitmap, items: children };
        Node { routes: self.routes.clone(), children }
    }

    /// Bytes of this node without its children.
    fn bytes(&self) -> usize {
        size_of::<Node>() + size_of_val(&*self.routes.items) + size_of_val(&*self.children.items)
    }

    /// Bytes of the nodes that [`with`](Node::with) replaces.
    fn path_bytes(&self, mut rest: u128, mut len: u8) -> usize {
        const ARC_COUNTS: usize = 2 * size_of::<usize>();
        let mut node = self;
        let mut bytes = self.bytes();
        while len >= STRIDE
            && let Some(child) = node.children.get(chunk(rest))
        {
            (node, rest, len) = (child, rest << STRIDE, len - STRIDE);
            bytes += ARC_COUNTS + node.bytes();
        }
        bytes
    }
}

/// The first six bits.
#[inline]
fn chunk(rest: u128) -> u32 {
    (rest >> (u128::BITS - u32::from(STRIDE))) as u32
}

/// The number of a prefix within a node, 1 to 63: a one, then the prefix's bits, as in a binary heap.
fn prefix_index(chunk: u32, len: u8) -> u32 {
    (chunk | 1 << STRIDE) >> (STRIDE - len)
}

/// For the first five bits of a chunk (no prefix within a node has six): the indices of all prefixes that match.
const MATCHING: [u64; 32] = {
    let mut table = [0; 32];
    let mut bits = 0;
    while bits < table.len() {
        let mut index = bits | 1 << 5;
        while index > 0 {
            table[bits] |= 1 << index;
            index >>= 1;
        }
        bits += 1;
    }
    table
};

/// A map from 0..64 to `T`: a bitmap of the keys and the values in the order of their keys.
#[derive(Clone, Debug)]
struct Sparse<T> {
    bitmap: u64,
    items: Box<[T]>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Sparse<T> {
        Sparse { bitmap: 0, items: Box::default() }
    }
}

impl<T> Sparse<T> {
    #[inline]
    fn position(&self, key: u32) -> usize {
        (self.bitmap & ((1 << key) - 1)).count_ones() as usize
    }

    #[inline]
    fn get(&self, key: u32) -> Option<&T> {
        if self.bitmap >> key & 1 == 0 { None } else { self.items.get(self.position(key)) }
    }
}

impl<T: Clone> Sparse<T> {
    /// A copy in which `key` has `value`, or nothing.
    fn with(&self, key: u32, value: Option<T>) -> Sparse<T> {
        let bit = 1 << key;
        let bitmap = if value.is_some() { self.bitmap | bit } else { self.bitmap & !bit };
        let (before, after) = self.items.split_at(self.position(key));
        let after = if self.bitmap & bit == 0 { after } else { &after[1..] };
        let mut items = Vec::with_capacity(bitmap.count_ones() as usize);
        items.extend_from_slice(before);
        items.extend(value);
        items.extend_from_slice(after);
        Sparse { bitmap, items: items.into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_counts_a_replaced_version_until_it_is_dropped() {
        let gauge = Gauge::leaked();
        let first = Bucket::new(gauge);
        let announce = |hop| Change::Route { rest: 0x1234 << 112, len: 13, hop };
        let second = first.successor(&announce(Some(7)));
        let empty = gauge.awaiting();
        assert!(empty >= size_of::<Bucket>());
        let third = second.successor(&announce(None));
        let deep = gauge.awaiting() - empty;
        assert!(deep > empty + 2 * size_of::<Node>(), "the path of a /29 has three nodes, not {deep} bytes");
        drop(first);
        assert_eq!(gauge.awaiting(), deep);
        drop(second);
        assert_eq!(gauge.awaiting(), 0);
        drop(third);
        assert_eq!(gauge.awaiting(), 0);
    }

    #[test]
    fn a_version_keeps_its_routes_after_it_has_been_replaced() {
        let first = Bucket::new(Gauge::leaked());
        let second = first.successor(&Change::Route { rest: 0, len: 8, hop: Some(1) });
        let third = second.successor(&Change::Route { rest: 0, len: 16, hop: Some(2) });
        let copy = third.duplicate(Gauge::leaked());
        let fourth = third.successor(&Change::Route { rest: 0, len: 8, hop: None });
        let versions = [&first, &second, &third, &copy, &fourth];
        assert_eq!(versions.map(|bucket| bucket.lookup(0)), [None, Some(1), Some(2), Some(2), Some(2)]);
        assert_eq!(versions.map(|bucket| bucket.lookup(1 << 112)), [None, Some(1), Some(1), Some(1), None]);
    }

    #[test]
    fn an_address_lies_in_the_slot_of_its_first_16_bits() {
        let place = Place::of("192.0.2.1".parse().unwrap());
        assert_eq!(place, Place { slot: 0xc000, rest: 0x0201 << 112 });
        let place = Place::of("2001:db8::1".parse().unwrap());
        assert_eq!(place, Place { slot: FAMILY_SLOTS + 0x2001, rest: 0x0db8 << 112 | 1 << 16 });
        let spans =
            ["10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/24", "::/0"].map(|net| Place::span(net.parse().unwrap()));
        assert_eq!(spans, [256, 1, 1, 65536]);
    }
}
