//! What programs of [`grace`](crate::grace) must come to: which sections keep which waits from ending.

use std::sync::atomic::Ordering::*;

use crate::grace::{Flag, MOST, Op, Sections, Seen, may_enter, may_wait};
use crate::program::{Expect, Model, THREADS};

/// A section, by number.
type Section = usize;

/// What a thread waits for.
#[derive(Debug)]
enum Wait {
    /// Sections, by a grace period asked for at a time.
    Sections(Vec<Section>, usize),
    /// So many deferred things.
    Deferred(usize),
}

#[derive(Debug)]
struct Cookie {
    after: Vec<Section>,
    asked: usize,
    elapsed: bool,
}

#[derive(Debug)]
struct Deferred {
    after: Vec<Section>,
    done: Flag,
}

/// What is right.
#[derive(Debug)]
pub struct Rules {
    sections: Sections,
    renewable: bool,
    sections_so_far: Section,
    now: usize,
    held: [Vec<Section>; THREADS],
    given: Vec<Section>,
    waits: [Option<Wait>; THREADS],
    /// Is in the middle of a step that ends by itself.
    renews: [bool; THREADS],
    cookies: [Vec<Cookie>; THREADS],
    deferred: Vec<Deferred>,
}

impl Rules {
    pub fn new(sections: Sections) -> Self {
        Self {
            sections,
            renewable: sections != Sections::Many,
            sections_so_far: 0,
            now: 0,
            held: Default::default(),
            given: Vec::new(),
            waits: Default::default(),
            renews: Default::default(),
            cookies: Default::default(),
            deferred: Vec::new(),
        }
    }

    fn open(&self) -> impl Iterator<Item = Section> + '_ {
        self.held.iter().flatten().chain(&self.given).copied()
    }

    fn is_blocked(&self, after: &[Section]) -> bool {
        self.open().any(|section| after.contains(&section))
    }

    /// What is open now, as an operation begins.
    fn before(&self) -> Vec<Section> {
        self.open().collect()
    }

    fn section(&mut self, thread: usize) -> Section {
        match self.held[thread].last() {
            Some(&section) if self.sections == Sections::Nested => section,
            _ => {
                self.sections_so_far += 1;
                self.sections_so_far
            }
        }
    }

    fn cookie(&mut self, thread: usize, cookie: usize) -> Option<&mut Cookie> {
        let cookies = &mut self.cookies[thread];
        let count = cookies.len().max(1);
        cookies.get_mut(cookie % count)
    }

    /// A grace period is over that was asked for at that time.
    fn over(&mut self, asked: usize) {
        self.cookies
            .iter_mut()
            .flatten()
            .filter(|cookie| cookie.asked <= asked)
            .for_each(|cookie| cookie.elapsed = true);
    }
}

impl Model for Rules {
    type Op = Op;
    type Seen = Seen;

    fn begin(&mut self, thread: usize, op: &Op) -> bool {
        let count = self.held[thread].len();
        self.now += 1;
        match *op {
            Op::Enter => return may_enter(self.sections, count),
            // Sections end where the step begins, as it may be over at any time then.
            Op::Leave(guard) => {
                if count == 0 {
                    return false;
                }
                self.held[thread].remove(guard % count);
            }
            Op::Renew(_) | Op::Doze(_) => {
                self.renews[thread] = count == 1 && self.renewable;
                if self.renews[thread] {
                    self.held[thread].clear();
                }
            }
            Op::Give(guard) => {
                if count == 0 || self.sections != Sections::Many {
                    return false;
                }
                let section = self.held[thread].remove(guard % count);
                self.given.push(section);
            }
            Op::Take => return !self.given.is_empty() && count < MOST,
            Op::ReplaceAndWait(_) | Op::Synchronize | Op::Barrier | Op::Await(_) => {
                // Somebody must be left who takes what has been given.
                let last = self.waits.iter().flatten().count() == THREADS - 1;
                if !may_wait(self.sections, op, count) || last && !self.given.is_empty() {
                    return false;
                }
                if count != 0 {
                    self.renews[thread] = true;
                    self.held[thread].clear();
                }
                let (before, now) = (self.before(), self.now);
                let wait = match *op {
                    Op::Barrier => Wait::Deferred(self.deferred.len()),
                    Op::Await(cookie) => {
                        let Some(cookie) = self.cookie(thread, cookie) else { return false };
                        Wait::Sections(cookie.after.clone(), cookie.asked)
                    }
                    _ => Wait::Sections(before, now),
                };
                self.waits[thread] = Some(wait);
            }
            Op::AwaitBriefly(_) => return may_wait(self.sections, op, count),
            _ => {}
        }
        true
    }

    fn expect(&self, thread: usize) -> Expect {
        let blocked = match &self.waits[thread] {
            None => return Expect::Now,
            Some(Wait::Sections(after, _)) => self.is_blocked(after),
            Some(Wait::Deferred(count)) => {
                self.deferred[..*count].iter().any(|entry| self.is_blocked(&entry.after))
            }
        };
        let free = self.open().next().is_none();
        // Who was online is so again when his wait is over, and the others may wait for him.
        let others = self.renews.contains(&true);
        match (blocked, free) {
            (true, _) => Expect::Never,
            // The grace period may be one that begins later, and waits for others too.
            (false, false) => Expect::Perhaps,
            (false, true) if others => Expect::OneOf,
            (false, true) => Expect::Now,
        }
    }

    fn end(&mut self, thread: usize, op: &Op, seen: Seen) -> Result<(), String> {
        let wait = self.waits[thread].take();
        if let Some(Wait::Sections(_, asked)) = wait {
            self.over(asked);
        }
        if let Some(Wait::Deferred(count)) = wait
            && self.deferred[..count].iter().any(|entry| !entry.done.load(Acquire))
        {
            return Err("a barrier is over, and not all is done that came before".into());
        }
        if std::mem::take(&mut self.renews[thread]) {
            let section = self.section(thread);
            self.held[thread].push(section);
        }
        match *op {
            Op::Enter => {
                let section = self.section(thread);
                self.held[thread].push(section);
            }
            Op::Take => {
                let section = self.given.remove(0);
                self.held[thread].push(section);
            }
            Op::Ask | Op::Start if self.cookies[thread].len() < MOST => {
                let cookie = Cookie { after: self.before(), asked: self.now, elapsed: false };
                self.cookies[thread].push(cookie);
            }
            Op::Look(cookie) | Op::Await(cookie) | Op::AwaitBriefly(cookie) => {
                let Seen::Elapsed(elapsed) = seen else { return Ok(()) };
                let Some(cookie) = self.cookie(thread, cookie) else { return Ok(()) };
                let (after, before) = (cookie.after.clone(), cookie.elapsed);
                let asked = cookie.asked;
                if before && !elapsed {
                    return Err("a grace period is not over that was, or that somebody has waited for".into());
                }
                if elapsed && self.is_blocked(&after) {
                    return Err("a grace period is over, and a section is open that it waits for".into());
                }
                if elapsed {
                    self.over(asked);
                }
            }
            _ => {
                if let Seen::Deferred(done) = seen {
                    // What was waited for is over.
                    let after = if wait.is_some() { Vec::new() } else { self.before() };
                    self.deferred.push(Deferred { after, done });
                }
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        let early = |entry: &&Deferred| self.is_blocked(&entry.after) && entry.done.load(Acquire);
        match self.deferred.iter().find(early) {
            Some(_) => Err("what was deferred is done too early".into()),
            None => Ok(()),
        }
    }

    fn last(&self, thread: usize) -> Option<Op> {
        match (self.held[thread].len(), self.given.len()) {
            (0, 0) => None,
            (0, _) => Some(Op::Take),
            _ => Some(Op::Leave(0)),
        }
    }
}
