//! Operations whose runs can be counted, on each kind of container.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use super::Operation;
use stillpoint::percpu::{Counter, Histogram, Pool, RefCount};

struct Add(Counter);

impl Operation for Add {
    fn run(&self) {
        self.0.add(3);
    }
    fn check(&self, times: u64) {
        assert_eq!(self.0.get(), 3 * times);
    }
}

struct Record(Histogram);

impl Operation for Record {
    fn run(&self) {
        self.0.record(1000);
    }
    fn check(&self, times: u64) {
        let seen = self.0.snapshot();
        assert_eq!((seen.count(), seen.sum()), (times, 1000 * times));
    }
}

/// An object that knows whether it has an owner.
#[derive(Debug, Default)]
pub struct Token(AtomicBool);

impl Token {
    pub fn take(&self) {
        assert!(!self.0.swap(true, AcqRel), "a token has two owners");
    }
    pub fn give(&self) {
        assert!(self.0.swap(false, AcqRel), "a token is given back twice");
    }
}

/// Pops and pushes some tokens.
struct Exchange {
    pool: Pool<Token>,
    made: AtomicUsize,
    count: usize,
}

impl Exchange {
    fn new(count: usize) -> Self {
        Self { pool: Pool::new(8), made: AtomicUsize::new(0), count }
    }

    fn take(&self) -> Box<Token> {
        let token = self.pool.pop();
        let token = token.inspect(|token| token.take());
        token.unwrap_or_else(|| {
            self.made.fetch_add(1, Relaxed);
            Box::new(Token(AtomicBool::new(true)))
        })
    }

    fn refuse(&self, token: Box<Token>) {
        token.take();
        drop(token);
        self.made.fetch_sub(1, Relaxed);
    }
}

impl Operation for Exchange {
    fn run(&self) {
        let mut tokens = Vec::new();
        while tokens.len() < self.count {
            tokens.push(self.take());
        }
        tokens.iter().for_each(|token| token.give());
        let refused = tokens.into_iter().filter_map(|token| self.pool.push(token).err());
        refused.for_each(|token| self.refuse(token));
    }

    fn check(&self, _times: u64) {
        let mut found = Vec::new();
        while let Some(token) = self.pool.pop() {
            token.take();
            found.push(token);
        }
        assert_eq!(found.len(), self.made.load(Relaxed), "tokens were lost or doubled");
    }
}

/// Gets references, of which it puts one less.
struct References(RefCount);

impl Operation for References {
    fn run(&self) {
        self.0.get();
        self.0.get();
        self.0.put();
    }
    fn check(&self, times: u64) {
        assert!(self.0.kill());
        for _ in 0..times {
            assert!(!self.0.is_zero(), "gets were lost");
            self.0.put();
        }
        assert!(self.0.is_zero(), "puts were lost");
    }
}

pub fn operations() -> [Box<dyn Operation>; 5] {
    [
        Box::new(References(RefCount::new())),
        Box::new(Add(Counter::new())),
        Box::new(Record(Histogram::new())),
        Box::new(Exchange::new(1)),
        Box::new(Exchange::new(12)),
    ]
}
