//! The routes a table is filled with: read from files, all or nothing.
//!
//! Two formats, told apart by the line: `CIDR next-hop`, and the address ranges of Debian's tor-geoipdb,
//! `start,end,tag` with IPv4 addresses in decimal or any address as text. A range becomes the fewest prefixes that
//! cover it. `#` begins a comment.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

use super::table::NextHop;

/// Distinct prefixes and the next hop each begins with.
#[derive(Debug)]
pub(super) struct Routes {
    prefixes: Vec<(IpNet, NextHop)>,
    numbers: HashMap<IpNet, usize>,
    hops: NextHop,
}

impl Routes {
    /// Next hops are numbers below `hops`. A prefix given twice keeps the last one.
    pub(super) fn new(routes: impl IntoIterator<Item = (IpNet, NextHop)>, hops: NextHop) -> Routes {
        let mut prefixes = Vec::new();
        let mut numbers = HashMap::new();
        for (prefix, hop) in routes {
            let number = *numbers.entry(prefix).or_insert(prefixes.len());
            match prefixes.get_mut(number) {
                None => prefixes.push((prefix, hop)),
                Some(known) => known.1 = hop,
            }
        }
        Routes { prefixes, numbers, hops }
    }

    /// Reads files of either format. An error names the file and the line.
    pub(super) fn read(files: &[impl AsRef<Path>]) -> Result<Routes> {
        let mut reader = Reader::default();
        for file in files {
            let file = file.as_ref();
            let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            reader.lines(&bytes, &file.display().to_string())?;
        }
        ensure!(!reader.routes.is_empty(), "no routes: the files hold nothing but comments");
        let hops = NextHop::try_from(reader.hops.len()).context("too many next hops")?;
        Ok(Routes::new(reader.routes, hops))
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// How many different next hops there are.
    pub(super) fn hops(&self) -> NextHop {
        self.hops
    }

    /// The prefixes in the order they were given, and their first next hops. A route's place is its number.
    pub(super) fn prefixes(&self) -> &[(IpNet, NextHop)] {
        &self.prefixes
    }

    /// The number of the route for exactly this prefix.
    pub(super) fn number(&self, prefix: IpNet) -> Option<usize> {
        self.numbers.get(&prefix).copied()
    }

    /// How many prefixes are IPv6.
    pub(super) fn v6(&self) -> usize {
        self.prefixes.iter().filter(|(prefix, _)| matches!(prefix, IpNet::V6(_))).count()
    }

    /// A random address of a random prefix.
    pub(super) fn address(&self, random: &mut fastrand::Rng) -> IpAddr {
        let (prefix, _) = self.prefixes[random.usize(..self.len())];
        match prefix {
            IpNet::V4(v4) => (v4.network() | (v4.hostmask() & Ipv4Addr::from_bits(random.u32(..)))).into(),
            IpNet::V6(v6) => (v6.network() | (v6.hostmask() & Ipv6Addr::from_bits(random.u128(..)))).into(),
        }
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    routes: Vec<(IpNet, NextHop)>,
    hops: HashMap<String, NextHop>,
}

impl Reader {
    fn lines(&mut self, bytes: &[u8], name: &str) -> Result<()> {
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let read =
                str::from_utf8(line).context("this is not UTF-8 text").and_then(|line| self.line(line));
            read.with_context(|| format!("{name}, line {number}"))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            return Ok(());
        }
        if line.contains(',') {
            let fields: Vec<_> = line.split(',').map(str::trim).collect();
            let [start, end, tag] = fields[..] else { bail!("{line:?} is not start,end,tag") };
            ensure!(!tag.is_empty(), "{line:?} has no tag after the addresses");
            let prefixes = range(address(start)?, address(end)?)?;
            let hop = self.intern(tag);
            self.routes.extend(prefixes.map(|prefix| (prefix, hop)));
        } else {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [prefix, hop] = fields[..] else {
                bail!("{line:?} is neither \"CIDR next-hop\" nor start,end,tag")
            };
            let prefix: IpNet =
                prefix.parse().with_context(|| format!("{prefix:?} is not a prefix in CIDR notation"))?;
            let first = prefix.trunc();
            ensure!(prefix == first, "{prefix} has address bits beyond its length; the prefix is {first}");
            let hop = self.intern(hop);
            self.routes.push((prefix, hop));
        }
        Ok(())
    }

    fn intern(&mut self, hop: &str) -> NextHop {
        let next = self.hops.len() as NextHop;
        *self.hops.entry(hop.to_owned()).or_insert(next)
    }
}

/// An address as text, or an IPv4 address as a decimal number.
fn address(text: &str) -> Result<IpAddr> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let bits: u32 =
            text.parse().with_context(|| format!("{text:?} is not an IPv4 address in decimal"))?;
        Ok(Ipv4Addr::from_bits(bits).into())
    } else {
        text.parse().with_context(|| format!("{text:?} is not an address"))
    }
}

/// The prefixes that cover exactly the addresses from `start` to `end`.
fn range(start: IpAddr, end: IpAddr) -> Result<IpSubnets> {
    ensure!(start <= end, "the range ends at {end}, before it starts at {start}");
    match (start, end) {
        (IpAddr::V4(start), IpAddr::V4(end)) => Ok(IpSubnets::V4(Ipv4Subnets::new(start, end, 0))),
        (IpAddr::V6(start), IpAddr::V6(end)) => Ok(IpSubnets::V6(Ipv6Subnets::new(start, end, 0))),
        _ => bail!("the range starts at {start} and ends at {end}, of another family"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Routes> {
        let mut reader = Reader::default();
        reader.lines(text.as_bytes(), "table")?;
        let hops = reader.hops.len() as NextHop;
        Ok(Routes::new(reader.routes, hops))
    }

    fn prefixes(text: &str) -> Vec<String> {
        parse(text).unwrap().prefixes.iter().map(|(prefix, _)| prefix.to_string()).collect()
    }

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn lines_of_cidr_and_next_hop_with_comments_and_blank_lines_are_read() {
        let text =
            "# a table\n\n0.0.0.0/0 gw\n10.0.0.0/8\t192.0.2.1 # inside\r\n::/0 gw\n2001:db8::/32 fe80::1\n";
        let routes = parse(text).unwrap();
        let hops: Vec<_> = routes.prefixes.iter().map(|&(_, hop)| hop).collect();
        assert_eq!(prefixes(text), ["0.0.0.0/0", "10.0.0.0/8", "::/0", "2001:db8::/32"]);
        assert_eq!(hops, [0, 1, 0, 2]);
        assert_eq!((routes.hops(), routes.v6()), (3, 2));
    }

    #[test]
    fn a_prefix_given_twice_keeps_the_last_next_hop() {
        let routes = parse("10.0.0.0/8 a\n11.0.0.0/8 b\n10.0.0.0/8 c\n").unwrap();
        assert_eq!(
            routes.prefixes(),
            [("10.0.0.0/8".parse().unwrap(), 2), ("11.0.0.0/8".parse().unwrap(), 1)]
        );
        assert_eq!(routes.number("11.0.0.0/8".parse().unwrap()), Some(1));
    }

    #[test]
    fn ranges_as_tor_geoipdb_ships_them_are_split_into_prefixes() {
        assert_eq!(prefixes("15726992,15726999,??"), ["0.239.249.144/29"]);
        assert_eq!(prefixes("16777472,16778239,CN"), ["1.0.1.0/24", "1.0.2.0/23"]);
        assert_eq!(
            prefixes("16777217,16777222,AU"),
            ["1.0.0.1/32", "1.0.0.2/31", "1.0.0.4/31", "1.0.0.6/32"]
        );
        assert_eq!(prefixes("2001::,2001:0:ffff:ffff:ffff:ffff:ffff:ffff,??"), ["2001::/32"]);
        assert_eq!(
            prefixes("2001:200:136::,2001:200:179:ffff:ffff:ffff:ffff:ffff,JP"),
            [
                "2001:200:136::/47",
                "2001:200:138::/45",
                "2001:200:140::/43",
                "2001:200:160::/44",
                "2001:200:170::/45",
                "2001:200:178::/47",
            ]
        );
    }

    #[test]
    fn a_range_may_be_one_address_or_all_of_them() {
        assert_eq!(prefixes("7,7,x"), ["0.0.0.7/32"]);
        assert_eq!(prefixes("0,4294967295,x"), ["0.0.0.0/0"]);
        assert_eq!(prefixes("1,4294967294,x").len(), 62);
        assert_eq!(prefixes("::,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,x"), ["::/0"]);
        assert_eq!(prefixes("::1,ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe,x").len(), 254);
    }

    #[test]
    fn a_bad_line_is_an_error_with_file_and_line_number() {
        let good = "10.0.0.0/8 a\n\n";
        for (line, cause) in [
            ("10.0.0.0/8", "neither"),
            ("10.0.0.0/8 a b", "neither"),
            ("10.0.0.0 a", "not a prefix"),
            ("10.0.0.0/33 a", "not a prefix"),
            ("2001:db8::/129 a", "not a prefix"),
            ("10.0.0.1/8 a", "the prefix is 10.0.0.0/8"),
            ("2001:db8::1/32 a", "the prefix is 2001:db8::/32"),
            ("1,2", "not start,end,tag"),
            ("1,2,", "no tag"),
            ("1,2,a,b", "not start,end,tag"),
            ("2,1,a", "ends at 0.0.0.1, before it starts at 0.0.0.2"),
            ("2001::2,2001::1,a", "before it starts"),
            ("1,4294967296,a", "not an IPv4 address in decimal"),
            (",1,a", "not an IPv4 address in decimal"),
            ("x,1,a", "not an address"),
            ("1,::2,a", "another family"),
            ("::1,2,a", "before it starts"),
        ] {
            let error = error(&format!("{good}{line}\n"));
            assert!(
                error.starts_with("table, line 3: ") && error.contains(cause),
                "{line:?} gives {error:?}"
            );
        }
        let mut reader = Reader::default();
        let error = reader.lines(b"10.0.0.0/8 a\n\xff\n", "table").unwrap_err();
        assert_eq!(error.to_string(), "table, line 2");
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_with_its_name() {
        let error = Routes::read(&["/nonexistent/table"]).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot read /nonexistent/table: No such file"));
    }
}
