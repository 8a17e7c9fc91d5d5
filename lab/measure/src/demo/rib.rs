//! The routing information base: a generated table, which of its routes stand right now, and the stream of updates.
//!
//! It belongs to the updater. Its plain search by prefix length is what the forwarding tables are checked against.

use std::collections::HashSet;
use std::sync::Arc;

use super::table::{Bucket, Change, Gauge, NextHop, Prefix, Route, SLOTS};

/// Prefixes of each length from /8 on in the global IPv4 table when it had 895,537 entries, of which three longer than
/// /25 are left out: "Prefix Length Distributions" of <https://bgp.potaroo.net/as2.0/bgp-active.html> (G. Huston's BGP
/// Table Data, the source of the CIDR Report). 58 % are /24.
const LENGTHS: [usize; 18] = [
    16, 13, 41, 102, 306, 596, 1_215, 2_090, 13_647, 8_391, 14_216, 25_741, 43_665, 53_098, 109_281, 97_781,
    523_876, 1_459,
];

/// The largest table that is generated: there are not enough short prefixes for larger ones.
pub(super) const MAX_PREFIXES: i64 = 2_000_000;

/// As many next hops as a router may have neighbours.
pub(super) const HOPS: NextHop = 64;

/// The routes that stand, and which update comes next.
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
        for (len, of_len) in (8..).zip(LENGTHS) {
            published += of_len;
            while prefixes.len() < published * count / total {
                let around = if random.bool() { random.choice(&prefixes).copied() } else { None };
                let address = around.unwrap_or_else(|| unicast(&mut random)).address(&mut random);
                let prefix = Prefix::around(address, len);
                if known.insert(prefix) {
                    prefixes.push(prefix);
                }
            }
        }
        Self::of(prefixes, seed)
    }

    fn of(mut prefixes: Vec<Prefix>, seed: u64) -> Self {
        prefixes.sort_unstable();
        let mut random = fastrand::Rng::with_seed(seed);
        let hops = prefixes.iter().map(|_| Some(random.u16(..HOPS))).collect();
        Self { prefixes: prefixes.into(), hops, random }
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns a random address of a random prefix.
    pub(super) fn address(&self, random: &mut fastrand::Rng) -> u32 {
        self.prefixes[random.usize(..self.len())].address(random)
    }

    /// Makes the forwarding table of the routes that stand.
    pub(super) fn buckets(&self, gauge: &'static Gauge) -> Vec<Bucket> {
        let mut routes = vec![Vec::new(); SLOTS];
        for (&prefix, hop) in self.prefixes.iter().zip(&self.hops) {
            let Some(hop) = *hop else { continue };
            routes[prefix.slots()].iter_mut().for_each(|routes| routes.push(Route { prefix, hop }));
        }
        routes.into_iter().map(|routes| Bucket::new(routes, gauge)).collect()
    }

    /// Makes the next update: withdraws one random route in ten, announces the others with another next hop. A
    /// withdrawn route comes back. Calls `replace` for each bucket that changes.
    pub(super) fn update(&mut self, mut replace: impl FnMut(usize, Change)) {
        let number = self.random.usize(..self.len());
        let hop = match self.hops[number] {
            Some(_) if self.random.u8(..10) == 0 => None,
            Some(hop) => Some((hop + 1) % HOPS),
            None => Some(self.random.u16(..HOPS)),
        };
        self.hops[number] = hop;
        let prefix = self.prefixes[number];
        prefix.slots().for_each(|slot| replace(slot, (prefix, hop)));
    }

    /// Returns the next hop of the longest announced prefix around `address`.
    pub(super) fn lookup(&self, address: u32) -> Option<NextHop> {
        (0..=32).rev().find_map(|len| {
            let number = self.prefixes.binary_search(&Prefix::around(address, len)).ok()?;
            self.hops[number]
        })
    }
}

/// Returns a random /8 of the unicast space without 10/8 and 127/8.
fn unicast(random: &mut fastrand::Rng) -> Prefix {
    loop {
        let octet = random.u32(1..224);
        if octet != 10 && octet != 127 {
            return Prefix::around(octet << 24, 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::slot;
    use super::*;

    /// The longest match by a look at every announced route, which shares nothing with what is tested.
    fn naive(rib: &Rib, address: u32) -> Option<NextHop> {
        let announced = rib.prefixes.iter().zip(&rib.hops).filter(|(prefix, _)| prefix.contains(address));
        announced.filter_map(|(prefix, hop)| Some((prefix.len(), (*hop)?))).max().map(|(_, hop)| hop)
    }

    #[test]
    fn lookups_equal_a_linear_search_under_random_updates() {
        for seed in 0..3 {
            // Prefixes of all lengths around few addresses nest deeply.
            let mut random = fastrand::Rng::with_seed(seed);
            let roots: [u32; 4] = std::array::from_fn(|_| random.u32(..));
            let near = |random: &mut fastrand::Rng| {
                roots[random.usize(..4)] ^ random.u32(..).checked_shr(random.u32(..=32)).unwrap_or(0)
            };
            let prefixes: HashSet<_> =
                (0..100).map(|_| Prefix::around(near(&mut random), random.u8(..=32))).collect();
            let mut rib = Rib::of(prefixes.into_iter().collect(), seed);
            let mut buckets = rib.buckets(Gauge::leaked());
            for _ in 0..300 {
                for address in [near(&mut random), rib.address(&mut random), random.u32(..)] {
                    let expected = naive(&rib, address);
                    assert_eq!(buckets[slot(address)].lookup(address), expected, "table, for {address:#x}");
                    assert_eq!(rib.lookup(address), expected, "RIB, for {address:#x}");
                }
                rib.update(|slot, change| buckets[slot] = buckets[slot].successor(change));
            }
        }
    }

    #[test]
    fn generated_table_has_published_shape_and_follows_its_seed() {
        let rib = Rib::generate(100_000, 1);
        let share = |len| {
            let of_len = rib.prefixes.iter().filter(|prefix| prefix.len() == len);
            of_len.count() as f64 / rib.len() as f64
        };
        assert_eq!(rib.len(), 100_000);
        assert!((0.584..0.586).contains(&share(24)), "{}", share(24));
        assert!((0.121..0.123).contains(&share(22)), "{}", share(22));
        assert!((0.015..0.016).contains(&share(16)), "{}", share(16));
        assert!(share(8) > 0.0 && share(7) == 0.0 && share(26) == 0.0);
        assert_eq!(rib.prefixes, Rib::generate(100_000, 1).prefixes);
        assert_ne!(rib.prefixes, Rib::generate(100_000, 2).prefixes);
        assert_eq!([1, 2, 17].map(|count| Rib::generate(count, 1).len()), [1, 2, 17]);
    }
}
