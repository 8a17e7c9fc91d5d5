//! The forwarding table of the demo: an array of buckets, one for each value of the first 16 address bits, each
//! bucket an immutable snapshot of its IPv4 routes. And what its updater knows: which routes stand, and which change
//! comes next.
//!
//! An update copies the bucket, so a bucket is never changed in place: the [`stores`](super::stores) differ only in
//! how a reader gets hold of a bucket and how the updater replaces it. A lookup allocates nothing and touches no
//! reference count.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

/// A next hop: the number of a neighbour.
pub(super) type NextHop = u16;

/// Buckets of the table.
const SLOTS: usize = 1 << 16;

/// As many next hops as a router may have neighbours.
const HOPS: NextHop = 64;

/// Prefixes of each length from /16 to /24 in the global IPv4 table when it had 895,537 entries: "Prefix Length
/// Distributions" of <https://bgp.potaroo.net/as2.0/bgp-active.html> (G. Huston's BGP Table Data, the source of the
/// CIDR Report). Each lies in one bucket; the few shorter ones are left out.
const LENGTHS: [usize; 9] = [13_647, 8_391, 14_216, 25_741, 43_665, 53_098, 109_281, 97_781, 523_876];

/// Returns the bucket of an address.
#[inline]
pub(super) fn slot(address: u32) -> usize {
    (address >> 16) as usize
}

/// The addresses that agree with `first` in the first `len` bits, of which there are 16 at least. Sorted by first
/// address, a prefix comes before those inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Prefix {
    first: u32,
    len: u8,
}

impl Prefix {
    fn around(address: u32, len: u8) -> Self {
        Self { first: address & Self::mask(len), len }
    }

    fn mask(len: u8) -> u32 {
        !(u32::MAX >> len)
    }

    #[inline]
    fn contains(self, address: u32) -> bool {
        address & Self::mask(self.len) == self.first
    }

    /// Returns a random address.
    fn address(self, random: &mut fastrand::Rng) -> u32 {
        self.first | random.u32(..) & !Self::mask(self.len)
    }
}

/// A route that is announced, or withdrawn if it has no next hop.
pub(super) type Change = (Prefix, Option<NextHop>);

/// The routes for one value of the first 16 address bits: an immutable snapshot.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Sorted by prefix.
    routes: Box<[(Prefix, NextHop)]>,
    gauge: &'static Gauge,
    superseded: AtomicBool,
}

impl Bucket {
    fn new(routes: Vec<(Prefix, NextHop)>, gauge: &'static Gauge) -> Self {
        Self { routes: routes.into_boxed_slice(), gauge, superseded: AtomicBool::new(false) }
    }

    /// Returns the next hop of the longest prefix that contains `address`.
    #[inline]
    pub(super) fn lookup(&self, address: u32) -> Option<NextHop> {
        let end = self.routes.partition_point(|route| route.0.first <= address);
        // The prefixes that contain an address are nested: the last is the longest.
        self.routes[..end].iter().rev().find(|route| route.0.contains(address)).map(|route| route.1)
    }

    /// Returns the bucket after a change, for the caller to replace `self` with, once: from this call on, `self`
    /// counts as awaiting reclamation.
    pub(super) fn successor(&self, (prefix, hop): Change) -> Self {
        let before = self.routes.partition_point(|route| route.0 < prefix);
        let after = self.routes.partition_point(|route| route.0 <= prefix);
        let mut routes = Vec::with_capacity(before + 1 + self.routes.len() - after);
        routes.extend_from_slice(&self.routes[..before]);
        routes.extend(hop.map(|hop| (prefix, hop)));
        routes.extend_from_slice(&self.routes[after..]);
        // Relaxed: replacing the bucket orders this before its drop.
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

/// The routing information base: the routes that stand, and which update comes next. It belongs to the updater. Its
/// plain search by prefix length is what the forwarding tables are checked against.
#[derive(Clone, Debug)]
pub(super) struct Rib {
    /// Sorted. A route's place is its number.
    prefixes: Arc<[Prefix]>,
    /// By number of the route; `None` is withdrawn.
    hops: Vec<Option<NextHop>>,
    random: fastrand::Rng,
}

impl Rib {
    /// Generates `count` distinct prefixes, the same for the same seed, and announces them. Each is put into the
    /// unicast space at random, or, as about half of the real ones are, inside another prefix of the table.
    pub(super) fn generate(count: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let total: usize = LENGTHS.iter().sum();
        let mut prefixes: Vec<Prefix> = Vec::with_capacity(count);
        let mut known = HashSet::with_capacity(count);
        let mut published = 0;
        // After each length, the table has as large a share of its prefixes as the published one.
        for (len, of_len) in (16..).zip(LENGTHS) {
            published += of_len;
            while prefixes.len() < published * count / total {
                let around = if random.bool() { random.choice(&prefixes).copied() } else { None };
                let anywhere = random.u32(1 << 24..224 << 24);
                let prefix =
                    Prefix::around(around.map_or(anywhere, |around| around.address(&mut random)), len);
                if known.insert(prefix) {
                    prefixes.push(prefix);
                }
            }
        }
        prefixes.sort_unstable();
        let hops = prefixes.iter().map(|_| Some(random.u16(..HOPS))).collect();
        Self { prefixes: prefixes.into(), hops, random }
    }

    /// Returns a random address of a random prefix.
    pub(super) fn address(&self, random: &mut fastrand::Rng) -> u32 {
        self.prefixes[random.usize(..self.prefixes.len())].address(random)
    }

    /// Makes the forwarding table of the routes that stand.
    pub(super) fn buckets(&self, gauge: &'static Gauge) -> Vec<Bucket> {
        let mut routes = vec![Vec::new(); SLOTS];
        for (&prefix, hop) in self.prefixes.iter().zip(&self.hops) {
            routes[slot(prefix.first)].extend(hop.map(|hop| (prefix, hop)));
        }
        routes.into_iter().map(|routes| Bucket::new(routes, gauge)).collect()
    }

    /// Makes the next update: withdraws one random route in ten, announces the others with another next hop. A
    /// withdrawn route comes back. Returns the bucket that changes, and the change.
    pub(super) fn update(&mut self) -> (usize, Change) {
        let number = self.random.usize(..self.prefixes.len());
        let hop = match self.hops[number] {
            Some(_) if self.random.u8(..10) == 0 => None,
            Some(hop) => Some((hop + 1) % HOPS),
            None => Some(self.random.u16(..HOPS)),
        };
        self.hops[number] = hop;
        (slot(self.prefixes[number].first), (self.prefixes[number], hop))
    }

    /// Returns the next hop of the longest announced prefix around `address`.
    pub(super) fn lookup(&self, address: u32) -> Option<NextHop> {
        (16..=24).rev().find_map(|len| {
            let number = self.prefixes.binary_search(&Prefix::around(address, len)).ok()?;
            self.hops[number]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest match by a look at every announced route, which shares nothing with what is tested.
    fn naive(rib: &Rib, address: u32) -> Option<NextHop> {
        let announced = rib.prefixes.iter().zip(&rib.hops).filter(|(prefix, _)| prefix.contains(address));
        announced.filter_map(|(prefix, hop)| Some((prefix.len, (*hop)?))).max().map(|(_, hop)| hop)
    }

    #[test]
    fn lookups_equal_a_linear_search_under_random_updates() {
        for seed in 0..3 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut rib = Rib::generate(300, seed);
            let mut buckets = rib.buckets(Gauge::leaked());
            for _ in 0..600 {
                for address in [rib.address(&mut random), random.u32(..)] {
                    let expected = naive(&rib, address);
                    assert_eq!(buckets[slot(address)].lookup(address), expected, "table, for {address:#x}");
                    assert_eq!(rib.lookup(address), expected, "RIB, for {address:#x}");
                }
                let (slot, change) = rib.update();
                buckets[slot] = buckets[slot].successor(change);
            }
        }
    }

    #[test]
    fn replaced_bucket_counts_as_awaiting_until_it_is_dropped() {
        let gauge = Gauge::leaked();
        let announce = |len, hop| (Prefix::around(0xc000_0200, len), Some(hop));
        let first = Bucket::new(Vec::new(), gauge);
        let second = first.successor(announce(24, 7));
        assert_eq!(gauge.awaiting(), size_of::<Bucket>());
        let third = second.successor(announce(16, 8));
        drop(first);
        assert_eq!(gauge.awaiting(), size_of::<Bucket>() + size_of::<(Prefix, NextHop)>());
        drop((second, third));
        assert_eq!(gauge.awaiting(), 0);
    }
}
