//! The forwarding table of the demo: an array of buckets, one for each value of the first 16 address bits, each bucket
//! an immutable snapshot of the IPv4 routes that cover any of its addresses.
//!
//! An update copies the bucket, so a bucket is never changed in place: the [`stores`](super::stores) differ only in how
//! a reader gets hold of a bucket and how the updater replaces it. A lookup allocates nothing and touches no reference
//! count.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

/// A next hop: the number of a neighbour.
pub(super) type NextHop = u16;

/// Buckets of the table.
pub(super) const SLOTS: usize = 1 << 16;

/// Returns the bucket of an address.
#[inline]
pub(super) fn slot(address: u32) -> usize {
    (address >> 16) as usize
}

/// The addresses that agree with `first` in the first `len` bits. Sorted by first address, a prefix comes before those
/// inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Prefix {
    first: u32,
    len: u8,
}

impl Prefix {
    /// Returns the prefix of `len` bits around `address`.
    pub(super) fn around(address: u32, len: u8) -> Self {
        Self { first: address & Self::mask(len), len }
    }

    fn mask(len: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
    }

    #[inline]
    pub(super) fn contains(self, address: u32) -> bool {
        address & Self::mask(self.len) == self.first
    }

    #[cfg(test)]
    pub(super) fn len(self) -> u8 {
        self.len
    }

    /// Returns a random address.
    pub(super) fn address(self, random: &mut fastrand::Rng) -> u32 {
        self.first | random.u32(..) & !Self::mask(self.len)
    }

    /// Returns the buckets that hold its addresses.
    pub(super) fn slots(self) -> Range<usize> {
        let first = slot(self.first);
        first..first + (1 << 16_u8.saturating_sub(self.len))
    }
}

/// A prefix and where it leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) prefix: Prefix,
    pub(super) hop: NextHop,
}

/// A route that is announced, or withdrawn if it has no next hop.
pub(super) type Change = (Prefix, Option<NextHop>);

/// The routes for one value of the first 16 address bits: an immutable snapshot.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Sorted by prefix.
    routes: Box<[Route]>,
    gauge: &'static Gauge,
    superseded: AtomicBool,
}

impl Bucket {
    /// Makes a bucket of routes that are sorted by prefix.
    pub(super) fn new(routes: Vec<Route>, gauge: &'static Gauge) -> Self {
        Self { routes: routes.into_boxed_slice(), gauge, superseded: AtomicBool::new(false) }
    }

    /// Returns the next hop of the longest prefix that contains `address`.
    #[inline]
    pub(super) fn lookup(&self, address: u32) -> Option<NextHop> {
        let end = self.routes.partition_point(|route| route.prefix.first <= address);
        // The prefixes that contain an address are nested: the last is the longest.
        self.routes[..end].iter().rev().find(|route| route.prefix.contains(address)).map(|route| route.hop)
    }

    /// Returns the bucket after a change. From this call on, `self` counts as awaiting reclamation.
    pub(super) fn successor(&self, (prefix, hop): Change) -> Self {
        let before = self.routes.partition_point(|route| route.prefix < prefix);
        let after = self.routes.partition_point(|route| route.prefix <= prefix);
        let mut routes = Vec::with_capacity(before + 1 + self.routes.len() - after);
        routes.extend_from_slice(&self.routes[..before]);
        routes.extend(hop.map(|hop| Route { prefix, hop }));
        routes.extend_from_slice(&self.routes[after..]);
        // Relaxed: the store orders this before the drop, which reads it.
        self.superseded.store(true, Relaxed);
        self.gauge.retired.fetch_add(self.bytes(), Relaxed);
        Self::new(routes, self.gauge)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.routes)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if *self.superseded.get_mut() {
            self.gauge.freed.fetch_add(self.bytes(), Relaxed);
        }
    }
}

/// Bytes that have been replaced and bytes that have been freed, often by different threads: hence a cache line each.
/// All accesses are Relaxed: statistics only.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    retired: CachePadded<AtomicUsize>,
    freed: CachePadded<AtomicUsize>,
}

impl Gauge {
    /// Makes a gauge for the rest of the process: buckets may outlive the store they were in.
    pub(super) fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Returns the bytes awaiting reclamation.
    pub(super) fn awaiting(&self) -> usize {
        // A bucket may be retired and freed between the two loads; then the difference is below zero.
        let retired = self.retired.load(Relaxed);
        retired.saturating_sub(self.freed.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce(len: u8, hop: NextHop) -> Change {
        (Prefix::around(0xc000_0200, len), Some(hop))
    }

    #[test]
    fn replaced_bucket_counts_as_awaiting_until_it_is_dropped() {
        let gauge = Gauge::leaked();
        let first = Bucket::new(Vec::new(), gauge);
        let second = first.successor(announce(24, 7));
        assert_eq!(gauge.awaiting(), size_of::<Bucket>());
        let third = second.successor(announce(16, 8));
        drop(first);
        assert_eq!(gauge.awaiting(), size_of::<Bucket>() + size_of::<Route>());
        drop((second, third));
        assert_eq!(gauge.awaiting(), 0);
    }

    #[test]
    fn replaced_bucket_keeps_its_routes() {
        let first = Bucket::new(Vec::new(), Gauge::leaked());
        let second = first.successor(announce(24, 1));
        let third = second.successor(announce(32, 2));
        let fourth = third.successor(announce(24, 3));
        let fifth = fourth.successor((announce(24, 0).0, None));
        let found = [&first, &second, &third, &fourth, &fifth]
            .map(|bucket| [0xc000_0200, 0xc000_0201].map(|address| bucket.lookup(address)));
        let expected = [[None; 2], [Some(1); 2], [Some(2), Some(1)], [Some(2), Some(3)], [Some(2), None]];
        assert_eq!(found, expected);
    }

    #[test]
    fn prefix_lies_in_the_slots_of_its_addresses() {
        let slots = [0, 8, 16, 24].map(|len| Prefix::around(0x0a01_0203, len).slots());
        assert_eq!(slots, [0..SLOTS, 0x0a00..0x0b00, 0x0a01..0x0a02, 0x0a01..0x0a02]);
        assert_eq!(Prefix::around(0x0a01_0203, 24), Prefix { first: 0x0a01_0200, len: 24 });
    }
}
