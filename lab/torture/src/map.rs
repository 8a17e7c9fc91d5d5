//! `torture map`: threads change, read and walk a hash map that grows and shrinks all the time.
//!
//! Each key has one owner, which changes it and knows its state. The value says which change made it, and is marked
//! when it is dropped. Checked: no entry is lost, found after its removal, returned twice by a walk, goes back in
//! time, or is used after its drop; everything is dropped in the end.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};
use std::time::Duration;

use stillpoint::Domain as _;
use stillpoint::rcu::{self, Global, Guard};
use stillpoint_collections::HashMap;

use super::canary;
use super::common::{Common, Kind, check, fail, require};
use super::intervals::{quiet_interval, repeat};

pub(super) const NAME: &str = "map";

/// Time until all threads stop. Each interval has another map.
const INTERVAL: Duration = Duration::from_millis(250);
/// Changes per second that a conclusive run needs.
const LEAST: u64 = 1000;

/// Owners of keys that change, readers of single keys, and threads that walk over all.
const OWNERS: usize = 2;
const READERS: usize = 2;
const WALKER: usize = OWNERS + READERS;
const BREATHER: usize = WALKER + 1;
/// Keys of all owners, those that stay, and the most of those that come and go, so that the table grows and shrinks.
const CHANGING: u64 = 256;
const STAYING: u64 = 512;
const GROWTH: u64 = 1 << 15;

const ALIVE: u64 = 0x616C_6976_6521_2121;
static EXISTING: AtomicI64 = AtomicI64::new(0);

/// A value: the number of the change that made it.
#[derive(Debug)]
struct Value {
    state: AtomicU64,
    number: u64,
}

impl Value {
    fn new(number: u64) -> Self {
        EXISTING.fetch_add(1, Relaxed);
        Self { state: AtomicU64::new(ALIVE), number }
    }

    fn get(&self) -> u64 {
        if self.state.load(Relaxed) != ALIVE {
            fail(NAME, Kind::Early, "a value is used after its drop");
        }
        self.number
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // A store: an exchange would be slower, and drops run in one thread.
        if self.state.load(Relaxed) != ALIVE {
            fail(NAME, Kind::Early, "a value is dropped twice");
        }
        self.state.store(0, Relaxed);
        EXISTING.fetch_sub(1, Relaxed);
    }
}

/// The map of an interval, and what is known of it.
struct Test {
    map: HashMap<u64, Value>,
    /// The newest change of each key that has been made: twice its number, plus one if the key is present. Stored
    /// after the change, so that a map that is read later shows this change, or a later one.
    made: Vec<AtomicU64>,
    /// The number of the newest change that has begun.
    begun: Vec<AtomicU64>,
    changes: AtomicU64,
    stop: AtomicBool,
}

fn expect(holds: bool, kind: Kind, why: impl FnOnce() -> String) {
    if !holds {
        fail(NAME, kind, &why());
    }
}

impl Test {
    fn new() -> Self {
        let map = HashMap::new();
        let guard = rcu::enter();
        (CHANGING..CHANGING + STAYING).for_each(|key| {
            map.insert(key, Value::new(key), &guard);
        });
        let numbers = || (0..CHANGING).map(|_| AtomicU64::new(0)).collect();
        let (changes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { map, made: numbers(), begun: numbers(), changes, stop }
    }

    fn stops(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Changes a key, and checks what the map says of its last state.
    fn change(&self, key: u64, guard: &Guard) {
        let last = self.made[key as usize].load(Relaxed);
        let (number, was) = (last / 2 + 1, (last % 2 == 1).then_some(last / 2));
        // A reader that sees the change sees this too.
        self.begun[key as usize].store(number, Release);
        let (found, expected, is_there) = match fastrand::u8(..4) {
            0 => (self.map.insert(key, Value::new(number), guard), was, true),
            1 => (self.map.remove(&key, guard), was, false),
            2 => {
                let new = self.map.update(&key, |_| Value::new(number), guard);
                (new, was.map(|_| number), was.is_some())
            }
            _ => {
                let value = self.map.get_or_insert_with(&key, || Value::new(number), guard);
                expect(value.get() == was.unwrap_or(number), Kind::Lost, || {
                    format!("key {key} had {was:?}, but has {value:?}")
                });
                if was.is_some() {
                    return;
                }
                (None, None, true)
            }
        };
        let found = found.map(Value::get);
        expect(found == expected, Kind::Lost, || format!("key {key}: {found:?}, not {expected:?}"));
        self.made[key as usize].store(2 * number + u64::from(is_there), Release);
        self.changes.fetch_add(1, Relaxed);
    }

    fn own(&self, owner: u64) {
        while !self.stops() {
            let guard = rcu::enter();
            for _ in 0..20 {
                self.change(fastrand::u64(0..CHANGING / OWNERS as u64) * OWNERS as u64 + owner, &guard);
            }
        }
    }

    /// Makes the table grow and shrink.
    fn breathe(&self) {
        while !self.stops() {
            let count = GROWTH >> fastrand::u32(..4);
            let from = CHANGING + STAYING;
            let keys = from..from + count;
            for key in keys.clone() {
                let old = self.map.insert(key, Value::new(key), &rcu::enter()).is_some();
                expect(!old, Kind::Lost, || format!("key {key} is in the map before its insertion"));
            }
            if fastrand::u8(..4) == 0 {
                self.map.retain(|&key, _| key < from, &rcu::enter());
            } else {
                for key in keys {
                    let old = self.map.remove(&key, &rcu::enter()).map(Value::get);
                    expect(old == Some(key), Kind::Lost, || format!("key {key} is lost: {old:?}"));
                }
            }
            self.changes.fetch_add(2 * count, Relaxed);
        }
    }

    /// Looks single keys up.
    fn read(&self) {
        let mut last = vec![0; CHANGING as usize];
        while !self.stops() {
            let guard = rcu::enter();
            for _ in 0..20 {
                self.look_up(fastrand::u64(0..CHANGING + STAYING), &mut last, &guard);
            }
        }
    }

    fn look_up(&self, key: u64, last: &mut [u64], guard: &Guard) {
        let made = self.made.get(key as usize).map(|made| made.load(Acquire));
        let found = self.map.get(&key, guard).map(Value::get);
        let Some(made) = made else {
            return expect(found == Some(key), Kind::Lost, || format!("key {key} stays, but is {found:?}"));
        };
        let last = &mut last[key as usize];
        match found {
            Some(number) => {
                // The last change, if it inserted it, or a later one.
                let least = (made / 2 + u64::from(made % 2 == 0 && made > 0)).max(*last);
                expect(number >= least, Kind::Order, || format!("key {key}: {number} after {least}"));
                *last = number;
            }
            None if made % 2 == 1 => {
                let begun = self.begun[key as usize].load(Acquire);
                expect(begun > made / 2, Kind::Lost, || format!("key {key} is missing after change {begun}"));
            }
            None => {}
        }
    }

    /// Walks over all entries.
    fn walk(&self) {
        let staying = CHANGING..CHANGING + STAYING;
        while !self.stops() {
            let guard = rcu::enter();
            let mut times = vec![0_u8; (CHANGING + STAYING + GROWTH) as usize];
            for (&key, value) in self.map.iter(&guard) {
                value.get();
                times[key as usize] += 1;
            }
            let twice = times.iter().position(|&times| times > 1);
            expect(twice.is_none(), Kind::Lost, || format!("a walk returns key {twice:?} twice"));
            let missed = staying.clone().find(|&key| times[key as usize] == 0);
            expect(missed.is_none(), Kind::Lost, || format!("a walk misses key {missed:?}, which stays"));
        }
    }

    /// Checks the map once all threads have ended.
    fn check(&self) -> anyhow::Result<()> {
        let present = self.made.iter().filter(|made| made.load(Relaxed) % 2 == 1).count() + STAYING as usize;
        let guard = rcu::enter();
        let (len, count) = (self.map.len(), self.map.iter(&guard).count());
        let kept = self.map.keys(&guard).filter(|&&key| key >= CHANGING + STAYING).count();
        // The thread that makes it grow may have been stopped in between: it is not.
        check(kept == 0 && (len, count) == (present, present), Kind::Lost, || {
            format!(
                "{present} keys are present, but {len} are counted, {count} are there, {kept} of them removed"
            )
        })
    }
}

/// Runs an interval. Returns the number of changes.
fn interval() -> anyhow::Result<u64> {
    let test = Test::new();
    quiet_interval(NAME, OWNERS + READERS + 2, INTERVAL, &test.stop, |number| match number {
        WALKER => test.walk(),
        BREATHER => test.breathe(),
        0..OWNERS => test.own(number as u64),
        _ => test.read(),
    })?;
    test.check()?;
    let changes = test.changes.into_inner();
    drop(test.map);
    Global.barrier();
    let left = EXISTING.load(Relaxed);
    check(left == 0, Kind::Leak, || format!("{left} values are left"))?;
    Ok(changes)
}

/// Runs the torture. Returns what passed.
pub(super) fn run(args: &Common) -> anyhow::Result<String> {
    canary::start(|| ())?;
    let mut changes = 0;
    let intervals = repeat(args.seconds, |_| {
        changes += interval()?;
        Ok(())
    })?;
    require(NAME, "changes", changes, LEAST, args.seconds);
    Ok(format!("{changes} changes in {intervals} intervals"))
}
