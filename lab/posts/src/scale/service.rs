//! From which load on a web service gains by data that threads do not share a word of: by calculation.
//!
//! A request on each CPU writes shared words: the count of a reader-writer lock or of an `Arc` twice, a counter once. A
//! write misses the word that another CPU has written to, and waits for half of the misses that are under way, which
//! follow one another (M/D/1). Reads in sections and per-CPU counts write no shared word.

use harness::report::Grid;

/// The part of the CPU time that is lost to the words where a change is worth the work.
const PART: f64 = 0.1;

/// Returns how often each CPU writes to the word in a second if a tenth of the time goes there; a miss takes `miss`
/// nanoseconds.
fn writes(cpus: usize, miss: f64) -> f64 {
    let lost = |busy: f64| busy / cpus as f64 * (1.0 + busy / (2.0 * (1.0 - busy)));
    let (mut least, mut most) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (least + most) / 2.0;
        *if lost(middle) < PART { &mut least } else { &mut most } = middle;
    }
    least / cpus as f64 / miss * 1e9
}

/// Returns the loads as a table, with the longest request that writes four times.
pub(super) fn grid(all: &[usize], miss: f64) -> Grid {
    let row = |&cpus: &usize| {
        let writes = writes(cpus, miss);
        vec![cpus.to_string(), format!("{:.0}", writes / 1000.0), format!("{:.0} us", 4e6 / writes)]
    };
    let head = ["CPUs", "thousand writes a second, by each CPU", "a request of four writes is shorter than"];
    Grid::new("A web service loses a tenth to a shared word", &head, all.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cpus_lose_a_tenth_at_nine_misses_of_a_hundred_and_many_where_the_word_is_busy() {
        let busy = |cpus| writes(cpus, 100.0) * 100e-9 * cpus as f64;
        assert!((0.15..0.2).contains(&busy(2)), "{}", busy(2));
        assert!((0.9..0.95).contains(&busy(64)), "{}", busy(64));
        assert!(busy(1024) < 1.0);
    }
}
