//! The model of programs of [`grace`](crate::grace): which sections delay which waits.

use std::sync::atomic::Ordering::*;

use crate::grace::{Flag, MOST, Op, Sections, Seen, may_enter, may_wait};
use crate::program::{Expect, Model, THREADS};

/// A section, by number.
type Section = usize;

/// What a thread waits for.
#[derive(Debug)]
enum Wait {
    /// These sections, in a grace period that was requested at this time.
    Sections(Vec<Section>, usize),
    /// The first callbacks, as many.
    Deferred(usize),
}

#[derive(Debug)]
struct Cookie {
    after: Vec<Section>,
    taken_at: usize,
    elapsed: bool,
}

#[derive(Debug)]
struct Deferred {
    after: Vec<Section>,
    done: Flag,
}

/// See the [module](self).
#[derive(Debug)]
pub struct GpModel {
    sections: Sections,
    last_section: Section,
    now: usize,
    held: [Vec<Section>; THREADS],
    given: Vec<Section>,
    waits: [Option<Wait>; THREADS],
    /// The thread begins a new section when its step ends.
    renews: [bool; THREADS],
    cookies: [Vec<Cookie>; THREADS],
    deferred: Vec<Deferred>,
}

impl GpModel {
    pub fn new(sections: Sections) -> Self {
        Self {
            sections,
            last_section: 0,
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

    fn enter(&mut self, thread: usize) {
        let section = match self.held[thread].last() {
            Some(&section) if self.sections == Sections::Nested => section,
            _ => {
                self.last_section += 1;
                self.last_section
            }
        };
        self.held[thread].push(section);
    }

    fn cookie(&mut self, thread: usize, cookie: usize) -> Option<&mut Cookie> {
        let cookies = &mut self.cookies[thread];
        let count = cookies.len().max(1);
        cookies.get_mut(cookie % count)
    }

    /// A grace period that was requested at this time has ended.
    fn end_grace_period(&mut self, requested_at: usize) {
        let cookies = self.cookies.iter_mut().flatten();
        cookies.filter(|cookie| cookie.taken_at <= requested_at).for_each(|cookie| cookie.elapsed = true);
    }
}

impl Model for GpModel {
    type Op = Op;
    type Seen = Seen;

    fn begin(&mut self, thread: usize, op: &Op) -> bool {
        let count = self.held[thread].len();
        self.now += 1;
        match *op {
            Op::Enter => return may_enter(self.sections, count),
            // Sections end at the beginning of the step, which may end at any time afterwards.
            Op::Leave(guard) => {
                if count == 0 {
                    return false;
                }
                self.held[thread].remove(guard % count);
            }
            Op::Renew(_) | Op::Offline(_) => {
                self.renews[thread] = count == 1 && self.sections != Sections::Many;
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
            Op::ReplaceAndWait(_) | Op::Synchronize | Op::Barrier | Op::Wait(_) => {
                // One thread must remain to take the guards that have been given.
                let last = self.waits.iter().flatten().count() == THREADS - 1;
                if !may_wait(self.sections, op, count) || last && !self.given.is_empty() {
                    return false;
                }
                if count != 0 {
                    self.renews[thread] = true;
                    self.held[thread].clear();
                }
                let wait = match *op {
                    Op::Barrier => Wait::Deferred(self.deferred.len()),
                    Op::Wait(cookie) => {
                        let Some(cookie) = self.cookie(thread, cookie) else { return false };
                        Wait::Sections(cookie.after.clone(), cookie.taken_at)
                    }
                    _ => Wait::Sections(self.open().collect(), self.now),
                };
                self.waits[thread] = Some(wait);
            }
            Op::WaitTimeout(_) => return may_wait(self.sections, op, count),
            _ => {}
        }
        true
    }

    fn expect(&self, thread: usize) -> Expect {
        let blocked = match &self.waits[thread] {
            None => return Expect::Now,
            Some(Wait::Sections(after, _)) => self.is_blocked(after),
            Some(Wait::Deferred(count)) => {
                self.deferred[..*count].iter().any(|callback| self.is_blocked(&callback.after))
            }
        };
        let free = self.open().next().is_none();
        // A thread that was online is so again when its wait is over, and the other threads may wait for it.
        let others = self.renews.contains(&true);
        match (blocked, free) {
            (true, _) => Expect::Never,
            // The grace period may be one that begins later, and waits for later sections too.
            (false, false) => Expect::Perhaps,
            (false, true) if others => Expect::OneOf,
            (false, true) => Expect::Now,
        }
    }

    fn end(&mut self, thread: usize, op: &Op, seen: Seen) -> Result<(), String> {
        let wait = self.waits[thread].take();
        if let Some(Wait::Sections(_, requested_at)) = wait {
            self.end_grace_period(requested_at);
        }
        if let Some(Wait::Deferred(count)) = wait {
            if self.deferred[..count].iter().any(|callback| !callback.done.load(Acquire)) {
                return Err("a barrier has ended before a callback that was deferred earlier".into());
            }
        }
        if std::mem::take(&mut self.renews[thread]) {
            self.enter(thread);
        }
        match *op {
            Op::Enter => self.enter(thread),
            Op::Take => {
                let section = self.given.remove(0);
                self.held[thread].push(section);
            }
            Op::TakeCookie | Op::Start if self.cookies[thread].len() < MOST => {
                let cookie = Cookie { after: self.open().collect(), taken_at: self.now, elapsed: false };
                self.cookies[thread].push(cookie);
            }
            Op::Poll(cookie) | Op::Wait(cookie) | Op::WaitTimeout(cookie) => {
                let Seen::Elapsed(elapsed) = seen else { return Ok(()) };
                let Some(cookie) = self.cookie(thread, cookie) else { return Ok(()) };
                let (after, taken_at) = (cookie.after.clone(), cookie.taken_at);
                if cookie.elapsed && !elapsed {
                    return Err(
                        "a grace period has not ended that had, or that a thread has waited for".into()
                    );
                }
                if elapsed && self.is_blocked(&after) {
                    return Err("a grace period has ended before a section that it waits for".into());
                }
                if elapsed {
                    self.end_grace_period(taken_at);
                }
            }
            _ => {
                if let Seen::Deferred(done) = seen {
                    // If the step waited, its grace period is over.
                    let after = if wait.is_some() { Vec::new() } else { self.open().collect() };
                    self.deferred.push(Deferred { after, done });
                }
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let early = |callback: &&Deferred| self.is_blocked(&callback.after) && callback.done.load(Acquire);
        match self.deferred.iter().find(early) {
            Some(_) => Err("a callback has run too early".into()),
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
