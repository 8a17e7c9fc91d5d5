//! The routing information base: which routes stand right now, and the stream of updates.
//!
//! It belongs to the updater. Its plain search by prefix length is what the tables are checked against.

use std::net::IpAddr;

use ipnet::IpNet;

use super::routes::Routes;
use super::table::{Change, FAMILY_SLOTS, NextHop, Place, ROOT_BITS};

/// The routes that stand, and which update comes next.
#[derive(Clone, Debug)]
pub(super) struct Rib<'a> {
    routes: &'a Routes,
    /// By number of the route; `None` is withdrawn.
    hops: Vec<Option<NextHop>>,
    /// For each slot, the lengths of the announced prefixes shorter than [`ROOT_BITS`] around it, a bit each.
    short: Vec<u16>,
    random: fastrand::Rng,
}

impl<'a> Rib<'a> {
    /// Nothing announced yet.
    pub(super) fn new(routes: &'a Routes, seed: u64) -> Rib<'a> {
        let random = fastrand::Rng::with_seed(seed);
        Rib { routes, hops: vec![None; routes.len()], short: vec![0; 2 * FAMILY_SLOTS], random }
    }

    /// Announces every route with the next hop it begins with. `replace` is told what becomes of which bucket.
    pub(super) fn announce_all(&mut self, mut replace: impl FnMut(usize, &Change)) {
        for (number, &(_, hop)) in self.routes.prefixes().iter().enumerate() {
            self.set(number, Some(hop), &mut replace);
        }
    }

    /// The next update: of a random route, one in ten withdrawn, the others announced with another next hop; a
    /// route that is withdrawn comes back. `replace` is told what becomes of which bucket.
    pub(super) fn update(&mut self, replace: impl FnMut(usize, &Change)) {
        let number = self.random.usize(..self.routes.len());
        let hop = match self.hops[number] {
            Some(_) if self.random.u8(..10) == 0 => None,
            Some(hop) => Some((hop + 1) % self.routes.hops().max(2)),
            None => Some(self.random.u32(..self.routes.hops())),
        };
        self.set(number, hop, replace);
    }

    fn set(&mut self, number: usize, hop: Option<NextHop>, mut replace: impl FnMut(usize, &Change)) {
        let (prefix, _) = self.routes.prefixes()[number];
        let Place { slot, rest } = Place::of(prefix.network());
        let len = prefix.prefix_len();
        self.hops[number] = hop;
        if len >= ROOT_BITS {
            return replace(slot, &Change::Route { rest, len: len - ROOT_BITS, hop });
        }
        // Slots that have a longer match than this prefix keep it; all others get the same.
        let best = Change::Fallback(self.longest(prefix.network(), len));
        for (slot, lengths) in (slot..).zip(&mut self.short[slot..slot + Place::span(prefix)]) {
            *lengths = *lengths & !(1 << len) | u16::from(hop.is_some()) << len;
            if *lengths >> len <= 1 {
                replace(slot, &best);
            }
        }
    }

    /// The next hop of the longest announced prefix around `address`.
    pub(super) fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        self.longest(address, IpNet::from(address).max_prefix_len())
    }

    /// The same among the prefixes of at most `len` bits.
    fn longest(&self, address: IpAddr, len: u8) -> Option<NextHop> {
        (0..=len).rev().find_map(|len| {
            let prefix = IpNet::new_assert(address, len).trunc();
            self.hops[self.routes.number(prefix)?]
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::super::table::{Bucket, Gauge};
    use super::*;

    /// The buckets that hold what a RIB says.
    struct Table(Vec<Bucket>);

    impl Table {
        fn new() -> Table {
            let gauge = Gauge::leaked();
            Table((0..2 * FAMILY_SLOTS).map(|_| Bucket::new(gauge)).collect())
        }

        fn change(&mut self, slot: usize, change: &Change) {
            self.0[slot] = self.0[slot].successor(change);
        }

        fn lookup(&self, address: IpAddr) -> Option<NextHop> {
            let place = Place::of(address);
            self.0[place.slot].lookup(place.rest)
        }
    }

    /// The longest match by looking at every announced route, which shares nothing with what is tested.
    fn naive(rib: &Rib, address: IpAddr) -> Option<NextHop> {
        let announced = rib
            .routes
            .prefixes()
            .iter()
            .zip(&rib.hops)
            .filter_map(|((prefix, _), hop)| Some((prefix, (*hop)?)));
        announced
            .filter(|(prefix, _)| prefix.contains(&address))
            .max_by_key(|(prefix, _)| prefix.prefix_len())
            .map(|(_, hop)| hop)
    }

    fn check(rib: &Rib, table: &Table, address: IpAddr) {
        let expected = naive(rib, address);
        assert_eq!(table.lookup(address), expected, "the table, for {address}");
        assert_eq!(rib.lookup(address), expected, "the RIB, for {address}");
    }

    /// First and last address of a prefix and their neighbours outside.
    fn edges(prefix: IpNet) -> Vec<IpAddr> {
        match prefix {
            IpNet::V4(v4) => {
                let (first, last) = (v4.network().to_bits(), v4.broadcast().to_bits());
                let edges = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
                edges.map(|bits| Ipv4Addr::from_bits(bits).into()).to_vec()
            }
            IpNet::V6(v6) => {
                let (first, last) = (v6.network().to_bits(), v6.broadcast().to_bits());
                let edges = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
                edges.map(|bits| Ipv6Addr::from_bits(bits).into()).to_vec()
            }
        }
    }

    fn follows_the_rib(prefixes: Vec<IpNet>, updates: usize) {
        let routes = Routes::new((0..).zip(prefixes).map(|(hop, prefix)| (prefix, hop)), 1000);
        let mut rib = Rib::new(&routes, 7);
        let mut table = Table::new();
        rib.announce_all(|slot, change| table.change(slot, change));
        let mut random = fastrand::Rng::with_seed(3);
        for (prefix, _) in routes.prefixes() {
            edges(*prefix).into_iter().for_each(|address| check(&rib, &table, address));
        }
        for _ in 0..updates {
            rib.update(|slot, change| table.change(slot, change));
            check(&rib, &table, routes.address(&mut random));
            check(&rib, &table, Ipv4Addr::from_bits(random.u32(..)).into());
            check(&rib, &table, Ipv6Addr::from_bits(random.u128(..)).into());
        }
        for (prefix, _) in routes.prefixes() {
            edges(*prefix).into_iter().for_each(|address| check(&rib, &table, address));
        }
    }

    /// Prefixes around few addresses, so that they nest deeply.
    fn nested(random: &mut fastrand::Rng, count: usize, v6: bool) -> Vec<IpNet> {
        let bits = if v6 { 128 } else { 32 };
        let roots: Vec<u128> = (0..4).map(|_| random.u128(..)).collect();
        let prefix = |random: &mut fastrand::Rng| {
            let kept = random.u32(..=bits);
            let noise = random.u128(..).checked_shr(kept).unwrap_or(0);
            let address = roots[random.usize(..4)] ^ noise;
            let len = random.u8(..=bits as u8);
            let address: IpAddr = if v6 {
                Ipv6Addr::from_bits(address).into()
            } else {
                Ipv4Addr::from_bits((address >> 96) as u32).into()
            };
            IpNet::new_assert(address, len).trunc()
        };
        (0..count).map(|_| prefix(random)).collect()
    }

    #[test]
    fn lookups_equal_a_linear_search_on_random_tables_under_random_updates() {
        for seed in 0..4 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut prefixes = nested(&mut random, 100, false);
            prefixes.extend(nested(&mut random, 100, true));
            follows_the_rib(prefixes, 1000);
        }
    }

    #[test]
    fn prefixes_of_every_length_are_found() {
        let address = Ipv4Addr::new(203, 0, 113, 85);
        let v4 = (0..=32).map(|len| IpNet::new_assert(address.into(), len).trunc());
        let address = Ipv6Addr::from_bits(0x2001_0db8_5555_aaaa_0123_4567_89ab_cdef);
        let v6 = (0..=128).map(|len| IpNet::new_assert(address.into(), len).trunc());
        follows_the_rib(v4.chain(v6).collect(), 1000);
    }

    #[test]
    fn a_default_route_is_found_wherever_nothing_longer_stands() {
        follows_the_rib(vec!["0.0.0.0/0".parse().unwrap(), "10.1.0.0/16".parse().unwrap()], 50);
        follows_the_rib(vec!["::/0".parse().unwrap(), "2001:db8::/32".parse().unwrap()], 50);
    }

    #[test]
    fn a_withdrawn_table_is_empty_again() {
        let mut random = fastrand::Rng::with_seed(5);
        let routes = Routes::new(nested(&mut random, 200, true).into_iter().map(|prefix| (prefix, 1)), 2);
        let mut rib = Rib::new(&routes, 7);
        let mut table = Table::new();
        rib.announce_all(|slot, change| table.change(slot, change));
        assert!(table.0.iter().any(|bucket| !bucket.is_empty()));
        for number in 0..routes.len() {
            rib.set(number, None, |slot, change| table.change(slot, change));
        }
        assert!(table.0.iter().all(Bucket::is_empty));
    }
}
