//! Relations between at most 64 events.

/// A set of events, as bits.
pub type Set = u64;

/// A binary relation: for each event, the set of its successors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation(Vec<Set>);

impl Relation {
    /// Returns the empty relation between `events` events.
    pub fn new(events: usize) -> Self {
        assert!(events <= 64, "an execution has at most 64 events");
        Self(vec![0; events])
    }

    /// Returns the pairs for which `holds` returns `true`.
    pub fn of(events: usize, holds: impl Fn(usize, usize) -> bool) -> Self {
        let mut relation = Self::new(events);
        for a in 0..events {
            for b in 0..events {
                if holds(a, b) {
                    relation.insert(a, b);
                }
            }
        }
        relation
    }

    pub fn insert(&mut self, a: usize, b: usize) {
        self.0[a] |= 1 << b;
    }

    pub fn contains(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 != 0
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|row| *row == 0)
    }

    /// Iterates over the pairs.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let len = self.0.len();
        (0..len).flat_map(move |a| (0..len).filter(move |&b| self.contains(a, b)).map(move |b| (a, b)))
    }

    /// Returns the union.
    pub fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(row, more)| *row |= more);
        self
    }

    /// Returns the intersection.
    pub fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(row, keep)| *row &= keep);
        self
    }

    /// Returns the pairs whose first event is in the set.
    pub fn from(mut self, set: Set) -> Self {
        for (a, row) in self.0.iter_mut().enumerate() {
            if set >> a & 1 == 0 {
                *row = 0;
            }
        }
        self
    }

    /// Returns the pairs whose second event is in the set.
    pub fn to(mut self, set: Set) -> Self {
        self.0.iter_mut().for_each(|row| *row &= set);
        self
    }

    /// Returns the sequential composition: a pair of `self`, then a pair of `next`.
    pub fn then(&self, next: &Self) -> Self {
        let step = |row: Set| {
            let reached = next.0.iter().enumerate().filter(|(b, _)| row >> b & 1 != 0);
            reached.fold(0, |all, (_, more)| all | more)
        };
        Self(self.0.iter().map(|&row| step(row)).collect())
    }

    /// Returns `true` if there is no cycle.
    pub fn is_acyclic(&self) -> bool {
        // Removes events without successors until none is left.
        let mut left: Set = if self.0.len() == 64 { !0 } else { (1 << self.0.len()) - 1 };
        loop {
            let inner = (0..self.0.len()).filter(|&a| left >> a & 1 != 0 && self.0[a] & left != 0);
            let next = inner.fold(0, |set, a| set | 1 << a);
            if next == left {
                return left == 0;
            }
            left = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycle_is_found_through_composition() {
        let mut chain = Relation::new(4);
        chain.insert(0, 1);
        chain.insert(1, 2);
        assert!(chain.is_acyclic());
        assert_eq!(chain.then(&chain).pairs().collect::<Vec<_>>(), [(0, 2)]);
        chain.insert(2, 0);
        assert!(!chain.is_acyclic());
    }
}
