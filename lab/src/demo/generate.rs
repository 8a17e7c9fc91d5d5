//! A table in the shape of the global IPv4 table, for those who have none at hand.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use super::routes::Routes;
use super::table::NextHop;

/// Prefixes of each length in the global IPv4 table when it had 895,537 entries, of which three longer than /25 are
/// left out: "Prefix Length Distributions" of <https://bgp.potaroo.net/as2.0/bgp-active.html> (G. Huston's BGP Table
/// Data, the source of the CIDR Report). 58 % are /24.
const LENGTHS: [(u8, usize); 18] = [
    (8, 16),
    (9, 13),
    (10, 41),
    (11, 102),
    (12, 306),
    (13, 596),
    (14, 1_215),
    (15, 2_090),
    (16, 13_647),
    (17, 8_391),
    (18, 14_216),
    (19, 25_741),
    (20, 43_665),
    (21, 53_098),
    (22, 109_281),
    (23, 97_781),
    (24, 523_876),
    (25, 1_459),
];

/// The largest table that [`routes`] makes: beyond it the short prefixes would crowd.
pub(super) const MOST: usize = 2_000_000;

/// As many next hops as a router may have neighbours.
const HOPS: NextHop = 64;

/// `count` distinct prefixes, the same for the same seed. Each is put into the unicast space at random, or, as
/// about half of the real ones are, inside another prefix of the table.
pub(super) fn routes(count: usize, seed: u64) -> Routes {
    let mut random = fastrand::Rng::with_seed(seed);
    let total: usize = LENGTHS.iter().map(|(_, prefixes)| prefixes).sum();
    let mut table: Vec<Ipv4Net> = Vec::with_capacity(count);
    let mut known = HashSet::with_capacity(count);
    let mut published = 0;
    for (len, prefixes) in LENGTHS {
        published += prefixes;
        while table.len() < published * count / total {
            let around = if random.bool() { random.choice(&table).copied() } else { None };
            let prefix = inside(around.unwrap_or_else(|| unicast(&mut random)), len, &mut random);
            if known.insert(prefix) {
                table.push(prefix);
            }
        }
    }
    Routes::new(table.into_iter().map(|prefix| (IpNet::V4(prefix), random.u32(..HOPS))), HOPS)
}

/// A random /8 of the unicast space without 10/8 and 127/8.
fn unicast(random: &mut fastrand::Rng) -> Ipv4Net {
    loop {
        let octet = random.u8(1..224);
        if octet != 10 && octet != 127 {
            return Ipv4Net::new_assert([octet, 0, 0, 0].into(), 8);
        }
    }
}

/// A random prefix of `len` bits in another that is no longer.
fn inside(around: Ipv4Net, len: u8, random: &mut fastrand::Rng) -> Ipv4Net {
    let address = around.network() | (around.hostmask() & Ipv4Addr::from_bits(random.u32(..)));
    Ipv4Net::new_assert(address, len).trunc()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_generated_table_has_the_published_shape_and_is_the_same_for_the_same_seed() {
        let routes = super::routes(100_000, 1);
        let share = |len| {
            let of_len = routes.prefixes().iter().filter(|(prefix, _)| prefix.prefix_len() == len);
            of_len.count() as f64 / routes.len() as f64
        };
        assert_eq!(routes.len(), 100_000);
        assert!((0.584..0.586).contains(&share(24)), "{}", share(24));
        assert!((0.108..0.110).contains(&share(23)), "{}", share(23));
        assert!((0.121..0.123).contains(&share(22)), "{}", share(22));
        assert!((0.015..0.016).contains(&share(16)), "{}", share(16));
        assert!(share(8) > 0.0 && share(7) == 0.0 && share(26) == 0.0);
        assert_eq!(routes.prefixes(), super::routes(100_000, 1).prefixes());
        assert_ne!(routes.prefixes(), super::routes(100_000, 2).prefixes());
    }

    #[test]
    fn every_size_can_be_generated() {
        for count in [1, 2, 17, 1000] {
            assert_eq!(super::routes(count, 1).len(), count);
        }
    }
}
