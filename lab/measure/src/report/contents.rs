//! What the page and the summary show, as data: the highlights, the sections with their plots, and what the posts say.
//!
//! A quantity is a metric and the configuration in which it is shown: see
//! [`Report::select`](harness::Report::select). In titles, `{threads}` stands for that parameter.

type Str = &'static str;

/// A line at the head: part, title, metric, and configuration. The peers are those that were measured, the best first.
pub(super) struct Highlight(pub(super) Str, pub(super) Str, pub(super) Str, pub(super) Str);

/// How the titles of the highlights begin that the README shows: with the targets that are missed, they are what
/// [`claims`](super::claims) measures.
#[rustfmt::skip]
pub(super) const README: [Str; 15] = [
    "RCU read (enter",
    "synchronize(), median, beside",
    "Allocate, publish",
    "Peak unreclaimed",
    "SRCU read",
    "Counter increment",
    "Hash map, 98 % gets, 1024",
    "Hash map, 98 % gets, 1,048,576 entries, one",
    "Longest wait for a lock, {threads} threads on",
    "RwLock throughput, 99",
    "Program: bank, {threads} threads (",
    "Program: work queue",
    "Program: pool of",
    "Program: transfers",
    "Program: cache",
];

/// Metrics of which more is better.
pub(super) const RATES: [Str; 2] = ["mops", "updates_per_s"];

pub(super) const HOW_TO_READ: Str = "Medians over interleaved rounds. The ratio is formed within each round, and its \
     median stands beside its extremes. Below 1, stillpoint takes less time or memory; of a rate, above 1, it does \
     more. The best peer is the one with the best median of all that were measured.";

pub(super) const BEHIND: &str = "For each bench and metric: in how many of its configurations the best peer has the better \
     median, and the one where it is ahead by most.";

#[rustfmt::skip]
pub(super) const HIGHLIGHTS: [Highlight; 46] = [
    Highlight("read", "RCU read (enter, load, exit)", "pair_ns", "threads=1, nesting=1"),
    Highlight("read", "RCU read, {threads} threads", "pair_ns", "threads=max, nesting=1"),
    Highlight("read-no-membarrier", "RCU read without membarrier", "pair_ns", "threads=1, nesting=1"),
    Highlight("read-no-membarrier", "RCU read without membarrier, {threads} threads", "pair_ns", "threads=max, nesting=1"),
    Highlight("sync", "synchronize(), median, beside a reader", "p50_ns", "readers=1, section_us=0, callers=1"),
    Highlight("sync", "synchronize(), median, 4 readers in sections of 1 ms", "p50_ns", "readers=4, section_us=1000"),
    Highlight("sync", "synchronize(), p99.9, 32 callers", "p999_ns", "callers=32"),
    Highlight("sync", "synchronize(), median, 1000 idle threads", "p50_ns", "readers=0, idle_threads=1000"),
    Highlight("callback", "Latency of a callback, median, beside a reader", "latency_p50_ns", "readers=1"),
    Highlight("callback", "Allocate, publish and retire, beside a reader", "retire_ns",
        "threads=1, readers=1, payload=[u64; 8]"),
    Highlight("callback", "Peak unreclaimed memory with a stalled reader", "peak_bytes", ""),
    Highlight("qsbr", "QSBR read", "read_ns", "threads=1"),
    Highlight("qsbr", "QSBR updates per second, 16 readers", "updates_per_s", "readers=16, asked_per_s=0"),
    Highlight("srcu", "SRCU read (enter, load, exit)", "pair_ns", "threads=1"),
    Highlight("arc", "Atomic Arc, load and drop of a guard", "pair_ns", "by=guard, threads=1, held=0"),
    Highlight("arc", "Atomic Arc, the same beside {held} guards", "pair_ns", "by=guard, threads=1, held=64"),
    Highlight("arc", "Atomic Arc, a deferred store beside {idle_threads} idle threads", "store_ns",
        "strategy=deferred, idle_threads=1000"),
    Highlight("hazard", "Hazard pointer, protect a value and let it go", "protect_ns", "threads=1, held=1"),
    Highlight("hazard", "Hazard pointers, allocate, publish and retire", "retire_ns", "threads=1"),
    Highlight("hazard", "Hazard pointers, list of 256 nodes, {gets} % gets, {threads} threads", "op_ns",
        "structure=list, gets=90, threads=max"),
    Highlight("hazard", "Hazard pointers, hash table, {gets} % gets, {threads} threads", "op_ns",
        "structure=hash table, gets=90, threads=max"),
    Highlight("hazard", "Hazard pointers, search of {nodes} nodes beside a writer", "traversal_ns", ""),
    Highlight("percpu", "Counter increment, one thread per CPU", "op_ns", "op=add, threads_per_cpu=1, threads=max"),
    Highlight("map", "Hash map, {reads} % gets, 1024 entries, {threads} threads (CPU time)", "op_ns",
        "reads=98, threads=4, keys=uniform, size=1024"),
    Highlight("map", "Hash map, {reads} % gets, 1,048,576 entries, one thread (CPU time)", "op_ns",
        "reads=98, threads=1, keys=uniform, size=1048576"),
    Highlight("map", "Hash map, {reads} % gets, 1,048,576 entries, {threads} threads (CPU time)", "op_ns",
        "reads=98, threads=4, keys=uniform, size=1048576"),
    Highlight("lock", "Lock throughput, {threads} threads (acquisitions/µs)", "mops", "threads=max"),
    Highlight("lock", "Longest wait for a lock, {threads} threads", "max_wait_ns", "threads=max"),
    Highlight("lock", "Longest wait for a lock, {threads} threads on one CPU", "max_wait_ns", "profile=one, threads=max"),
    Highlight("rwlock", "RwLock, read without writers, {threads} threads", "pair_ns", "threads=max"),
    Highlight("rwlock", "RwLock throughput, {reads_percent} % reads, {threads} threads (acquisitions/µs)", "mops",
        "threads=2, reads_percent=90"),
    Highlight("rwlock", "RwLock throughput, {reads_percent} % reads, {threads} threads (acquisitions/µs)", "mops",
        "threads=max, reads_percent=99"),
    Highlight("rwlock", "RwLock, longest wait of a reader, {reads_percent} % reads, {threads} threads", "read_max_ns",
        "threads=max, reads_percent=99"),
    Highlight("programs", "Program: bank, {threads} threads (operations/µs)", "mops", "program=bank, threads=max"),
    Highlight("programs", "Program: work queue, {threads} threads (operations/µs)", "mops", "program=queue, threads=max"),
    Highlight("programs", "Program: bounded channel, {threads} threads (operations/µs)", "mops", "program=channel, threads=max"),
    Highlight("programs", "Program: pool of connections, {threads} threads (operations/µs)", "mops", "program=pool, threads=max"),
    Highlight("programs", "Program: actors, {threads} threads (operations/µs)", "mops", "program=actors, threads=max"),
    Highlight("programs", "Program: log, {threads} threads (operations/µs)", "mops", "program=log, threads=max"),
    Highlight("programs", "Program: transfers, {threads} threads (operations/µs)", "mops", "program=transfers, threads=max"),
    Highlight("programs", "Program: attempts with a limit, {threads} threads (operations/µs)", "mops", "program=attempts, threads=max"),
    Highlight("programs", "Program: cache behind a mutex, {threads} threads (operations/µs)", "mops", "program=cache, threads=max"),
    Highlight("programs", "Program: thread pool that steals, {threads} threads (operations/µs)", "mops", "program=stealing, threads=max"),
    Highlight("programs", "Program: memo table, {threads} threads (operations/µs)", "mops", "program=memo, threads=max"),
    Highlight("programs", "Program: RwLock, 95 % reads, {threads} threads (operations/µs)", "mops", "program=reads-95, threads=max"),
    Highlight("programs", "Program: bank, {threads} threads, longest step", "longest_step", "program=bank, threads=max"),
];

/// What was aimed at: part, title, metric, configuration, the system that ours is compared with (`best` is the best peer,
/// and no name our own value), and the greatest value that meets it; of a rate, the least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target(
    pub(super) Str,
    pub(super) Str,
    pub(super) Str,
    pub(super) Str,
    pub(super) Str,
    pub(super) f64,
);

#[rustfmt::skip]
pub(super) const TARGETS: [Target; 64] = [
    Target("read", "A section", "pair_ns", "threads=1, nesting=1", "liburcu-memb", 0.7),
    Target("read", "A section", "pair_ns", "threads=1, nesting=1", "crossbeam-epoch", 0.15),
    Target("read", "A section", "pair_ns", "threads=1, nesting=1", "seize", 0.15),
    Target("read-no-membarrier", "A section without membarrier", "pair_ns", "threads=1, nesting=1", "crossbeam-epoch", 1.2),
    Target("read-no-membarrier", "The same, {threads} threads", "pair_ns", "threads=max, nesting=1", "crossbeam-epoch", 1.2),
    Target("sync", "`synchronize`, median, 1 reader", "p50_ns", "readers=1, section_us=0", "liburcu-memb", 0.6),
    Target("sync", "The same, 4 readers", "p50_ns", "readers=4, section_us=0", "liburcu-memb", 0.35),
    Target("sync", "The same, 1000 idle threads", "p50_ns", "idle_threads=1000", "liburcu-memb", 0.5),
    Target("sync", "p99.9, 32 callers", "p999_ns", "callers=32", "liburcu-memb", 0.1),
    Target("sync", "The longest, 32 callers", "max_ns", "callers=32", "liburcu-memb", 0.2),
    Target("sync", "`replace` and `synchronize` to `synchronize`, p90, 1 reader", "p90_to_alone",
        "readers=1, call=replace + synchronize", "", 1.1),
    Target("sync", "The same, 4 readers", "p90_to_alone", "readers=4, call=replace + synchronize", "", 1.1),
    Target("callback", "Latency from idle", "latency_p50_ns", "readers=0", "liburcu-memb", 0.02),
    Target("callback", "Allocate and retire", "retire_ns", "threads=1, readers=0, payload=[u64; 8]", "best", 0.8),
    Target("callback", "The same beside a reader", "retire_ns", "threads=1, readers=1, payload=[u64; 8]", "best", 0.8),
    Target("callback", "A push and a pop of {node}s, {threads} threads", "op_ns", "threads=max, node=String",
        "crossbeam-epoch", 1.0),
    Target("qsbr", "A read", "read_ns", "threads=1", "bare-load", 1.05),
    Target("qsbr", "A report", "quiescent_ns", "threads=1", "liburcu-qsbr", 1.0),
    Target("qsbr", "Updates, 16 readers, 1000 a second asked for", "updates_per_s", "asked_per_s=1000",
        "liburcu-qsbr", 5.0),
    Target("srcu", "A section", "pair_ns", "threads=1", "crossbeam-epoch", 0.4),
    Target("srcu", "The same, {threads} threads", "pair_ns", "threads=max", "crossbeam-epoch", 0.4),
    Target("arc", "Load and drop, by `rcu`", "pair_ns", "by=rcu, threads=1", "arc-swap", 0.35),
    Target("arc", "Load and drop, by `srcu`", "pair_ns", "by=srcu, threads=1", "arc-swap", 0.9),
    Target("arc", "A load beside {held} guards, to one beside none", "held_to_none", "by=guard, threads=1", "", 1.2),
    Target("arc", "A store beside {idle_threads} idle threads, to one beside none", "idle_to_none", "strategy=exact",
        "", 2.0),
    Target("arc", "The same, deferred", "idle_to_none", "strategy=deferred", "", 2.0),
    Target("arc", "A cache", "pair_ns", "by=cache, threads=1", "arc-swap-cache", 1.0),
    Target("hazard", "Protect a value and let it go", "protect_ns", "threads=1, held=1", "haphazard", 0.8),
    Target("hazard", "The same", "protect_ns", "threads=1, held=1", "kovan", 0.8),
    Target("hazard", "The same, {held} values", "protect_ns", "threads=1, held=8", "haphazard", 0.8),
    Target("hazard", "The same, {held} values", "protect_ns", "threads=1, held=8", "kovan", 0.8),
    Target("hazard", "A value, {threads} threads", "protect_ns", "threads=max, held=1", "haphazard", 0.8),
    Target("hazard", "A value, {threads} threads", "protect_ns", "threads=max, held=1", "kovan", 0.8),
    Target("hazard", "{held} values, {threads} threads", "protect_ns", "threads=max, held=8", "haphazard", 0.8),
    Target("hazard", "{held} values, {threads} threads", "protect_ns", "threads=max, held=8", "kovan", 0.8),
    Target("hazard", "Allocate, publish and retire", "retire_ns", "threads=1", "best", 1.0),
    Target("hazard", "The same, {threads} threads", "retire_ns", "threads=max", "best", 1.0),
    Target("percpu", "`add`", "op_ns", "op=add, threads_per_cpu=1, threads=max", "best", 0.12),
    Target("percpu", "`add`", "op_ns", "op=add, threads_per_cpu=1, threads=max", "thread-local", 2.0),
    Target("percpu", "Pop and push of a pool", "op_ns", "op=pool, threads_per_cpu=1, threads=max", "mutex-per-cpu",
        0.15),
    Target("percpu", "CPU number", "op_ns", "op=cpu_number, threads_per_cpu=1, threads=max", "sched_getcpu", 0.3),
    Target("map", "{reads} % gets, {size} entries, {threads} threads", "op_ns",
        "reads=98, threads=4, keys=uniform, size=1024", "best", 1.0),
    Target("map", "{reads} % gets, {size} entries, {threads} threads", "op_ns",
        "reads=98, threads=4, keys=uniform, size=1048576", "papaya", 0.75),
    Target("map", "{reads} % gets, {size} entries, {threads} threads", "op_ns",
        "reads=98, threads=4, keys=uniform, size=1048576", "best", 1.0),
    Target("map", "{reads} % gets, {size} entries, one thread", "op_ns",
        "reads=98, threads=1, keys=uniform, size=1048576", "best", 1.0),
    Target("map", "Memory of an entry", "bytes", "", "papaya", 1.2),
    Target("lock", "Throughput, {threads} threads", "mops", "threads=max", "best", 1.0),
    Target("lock", "Longest wait, {threads} threads", "max_wait_ns", "threads=max", "std", 0.125),
    Target("lock", "Longest wait, {threads} threads on one CPU", "max_wait_ns", "profile=one, threads=max", "std", 0.067),
    Target("rwlock", "A read, to a section of `rcu`", "pair_ns", "threads=max", "stillpoint-rcu", 3.0),
    Target("rwlock", "Throughput, {reads_percent} % reads, {threads} threads", "mops",
        "threads=max, reads_percent=99", "best", 0.9),
    Target("rwlock", "Throughput, {reads_percent} % reads, {threads} threads", "mops",
        "threads=max, reads_percent=90", "best", 0.9),
    Target("programs", "Bank, {threads} threads", "mops", "program=bank, threads=max", "best", 1.0),
    Target("programs", "Work queue, {threads} threads", "mops", "program=queue, threads=max", "best", 1.0),
    Target("programs", "Bounded channel, {threads} threads", "mops", "program=channel, threads=max", "best", 1.0),
    Target("programs", "Pool of connections, {threads} threads", "mops", "program=pool, threads=max", "best", 1.0),
    Target("programs", "Actors, {threads} threads", "mops", "program=actors, threads=max", "best", 1.0),
    Target("programs", "Log, {threads} threads", "mops", "program=log, threads=max", "best", 1.0),
    Target("programs", "Transfers, {threads} threads", "mops", "program=transfers, threads=max", "best", 1.0),
    Target("programs", "Attempts with a limit, {threads} threads", "mops", "program=attempts, threads=max", "best", 1.0),
    Target("programs", "Cache behind a mutex, {threads} threads", "mops", "program=cache, threads=max", "best", 1.0),
    Target("programs", "Thread pool that steals, {threads} threads", "mops", "program=stealing, threads=max", "best", 1.0),
    Target("programs", "Memo table, {threads} threads", "mops", "program=memo, threads=max", "best", 1.0),
    Target("programs", "RwLock, 95 % reads, {threads} threads", "mops", "program=reads-95, threads=max", "best", 1.0),
];

/// What a post leads one to expect of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expected {
    /// This ratio.
    Like(f64),
    Below,
    Above,
    Same,
}

/// What the ratio of a claim is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Versus {
    /// Of ours to this system.
    System(Str),
    /// Of ours to ours in this configuration.
    Config(Str),
    /// The row of this system itself, which is a ratio.
    Itself(Str),
}

/// Something that a post says: experiment, what is compared, what to expect, and our metric, configuration, and
/// partner.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostClaim(
    pub(super) Str,
    pub(super) Str,
    pub(super) Expected,
    pub(super) Str,
    pub(super) Str,
    pub(super) Versus,
);

pub(super) const RULE: Str = "Times belong to machines, the shape does not. It holds if at least half of the posted \
     effect is there, on a logarithmic scale, and is weaker if less is. Where a post says only which costs more, that \
     is what is compared; what costs the same may differ by a quarter. \u{201c}In doubt\u{201d} means that the rounds \
     disagree.";

use Expected::{Above, Below, Like, Same};
use Versus::{Config, Itself, System};

// Three threads on two CPUs are the 48 virtual CPUs on 32 of the post.
#[rustfmt::skip]
pub(super) const POST_CLAIMS: [PostClaim; 23] = [
    PostClaim("e1", "heavy() beside two busy threads per CPU / beside one", Same,
        "heavy_ns", "running=max, callers=1, backend=membarrier",
        Config("running=cpus, callers=1, backend=membarrier")),
    PostClaim("e1", "Time of another process beside a caller / beside a running thread (posted then: 2.11\u{d7})", Same,
        "slowdown", "running=1, callers=1, backend=membarrier", Itself("stillpoint")),
    PostClaim("e2", "Section / section with a full fence", Below, "section_ns", "readers=1", System("stillpoint-seqcst")),
    PostClaim("e2", "Grace period / beside readers with full fences", Above,
        "p50_ns", "readers=1", System("stillpoint-seqcst")),
    PostClaim("e3", "1000 loops of {threads} threads (posted: 10,000) on their own track / on callbacks that wake; \
        extrapolated from the rate in a shorter time", Like(35.0 / 54.0),
        "loops_ns", "callbacks=0", System("callback-track")),
    PostClaim("e3", "The same beside a flood of {callbacks} callbacks", Like(35.0 / 54.0),
        "loops_ns", "callbacks=3600", System("callback-track")),
    PostClaim("e3", "Wait behind 3,600 callbacks, on its own track / before", Same, "delay", "", Itself("stillpoint")),
    PostClaim("e3", "The same on the callbacks' track", Above, "delay", "", Itself("callback-track")),
    PostClaim("e4", "Updates per second with a flag for each reader / with one flag, otherwise the same code",
        Like(408.0 / 292.0), "updates_gain", "readers=10", Itself("reader-flags")),
    PostClaim("e4", "Wake-ups by readers for each update, likewise", Below,
        "wakes_to_one_flag", "readers=10", Itself("reader-flags")),
    PostClaim("e5", "Overhead of load and store in a section / of lock; cmpxchg", Like(5.7 / 18.3),
        "overhead_ns", "threads_per_cpu=1, threads=max", System("lock-cmpxchg")),
    PostClaim("e5", "The same / of lock; cmpxchg with the vdso's CPU number", Like(1.0 / 5.4),
        "overhead_ns", "threads_per_cpu=1, threads=max", System("lock-cmpxchg-vdso")),
    PostClaim("e5", "The same / of cmpxchg in a section", Like(5.7 / 7.4),
        "overhead_ns", "threads_per_cpu=1, threads=max", System("cmpxchg-restart")),
    PostClaim("e5", "CPU number from memory / from the vdso", Like(0.3 / 12.7),
        "cpu_number_ns", "threads_per_cpu=1, threads=max", System("vdso-getcpu")),
    PostClaim("e6", "pvq: lock rate of two threads with the pending bit / without (same socket)", Like(7.08 / 6.52),
        "gain", "threads=2, cs_ns=0", Itself("pvq+pending-bit")),
    PostClaim("e6", "pvq: rate with kick-ahead / without, 1 thread per CPU (Westmere, 32 on 32)", Same,
        "gain", "cs_ns=1000, threads=#0", Itself("pvq+kick-ahead")),
    PostClaim("e6", "The same, 2 threads per CPU (Westmere, 48 on 32)", Same,
        "gain", "cs_ns=1000, threads=#1", Itself("pvq+kick-ahead")),
    PostClaim("e6", "pvq: rate with deferred kicks / without, 1 thread per CPU (Westmere, 32 on 32)", Like(207.4 / 181.3),
        "gain", "cs_ns=1000, threads=#0", Itself("pvq+deferred-kick")),
    PostClaim("e6", "The same, 2 threads per CPU (Westmere, 48 on 32)", Like(632.0 / 590.9),
        "gain", "cs_ns=1000, threads=#1", Itself("pvq+deferred-kick")),
    PostClaim("e6", "The same, 32 threads per CPU (Haswell, 48 on 32)", Like(892.5 / 808.1),
        "gain", "cs_ns=1000, threads=max", Itself("pvq+deferred-kick")),
    PostClaim("e6", "pvq: rate with adaptive spinning / without, 1 thread per CPU (Haswell, 32 on 32)", Same,
        "gain", "cs_ns=1000, threads=#0", Itself("pvq")),
    PostClaim("e6", "The same, 2 threads per CPU (Haswell, 48 on 32)", Like(808.1 / 546.9),
        "gain", "cs_ns=1000, threads=#1", Itself("pvq")),
    PostClaim("e6", "The same, 32 threads per CPU (Haswell, 48 on 32)", Like(808.1 / 546.9),
        "gain", "cs_ns=1000, threads=max", Itself("pvq")),
];

/// How a quantity is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// A row for each system, the best first.
    Dots,
    /// A row for each ratio of ours.
    Ratios,
    /// A curve for each system over a parameter, named so on its axis; if it doubles, with a label for each point.
    Lines { over: Str, axis: Str, doubles: bool },
    /// A histogram for each system.
    Histograms,
    /// A course over time for each system.
    Courses,
    /// A dot for each system: the longest wait, and this metric of throughput, both as ratios.
    Frontier(Str),
}

/// Mark, title, metric, and configuration; with `*` in it, a plot for each value.
pub(super) struct Plot(pub(super) Mark, pub(super) Str, pub(super) Str, pub(super) Str);

/// What a section says of a part: its name, a heading, a text, and plots.
pub(super) struct Topic(pub(super) Str, pub(super) Str, pub(super) Str, pub(super) &'static [Plot]);

/// A section of the page: its address within the page, its title, a text, and its topics.
pub(super) struct Section(pub(super) Str, pub(super) Str, pub(super) Str, pub(super) &'static [Topic]);

use Mark::{Courses, Dots, Frontier, Histograms, Lines, Ratios};

const RUNNING: Mark = Lines { over: "running", axis: "running threads", doubles: false };
const GUARDS: Mark = Lines { over: "guards", axis: "open guards", doubles: true };
const THREADS: Mark = Lines { over: "threads", axis: "threads", doubles: true };

#[rustfmt::skip]
pub(super) const SECTIONS: [Section; 11] = [
    Section("reads", "Reads", "", &[Topic("read", "",
        "What a reader pays to enter a read-side critical section, follow a pointer, and leave the section. A dot is \
         the median over the rounds, the line behind it reaches from the least to the greatest. The bare load protects \
         nothing. A cache keeps its value until its thread reads again.",
        &[Plot(Dots, "Enter, load, exit; threads: {threads}", "pair_ns", "threads=*, nesting=1")]),
        Topic("read-no-membarrier", "Without membarrier",
            "The same in a process to which membarrier is denied: each section of stillpoint executes a fence.",
            &[Plot(Dots, "Enter, load, exit; threads: {threads}", "pair_ns", "threads=*, nesting=1")])]),
    Section("grace-periods", "Grace periods", "", &[
        Topic("sync", "",
            "How long synchronize() takes, in power-of-two buckets: the height is the share of the calls.", &[
            Plot(Histograms, "1 reader, short sections", "p50_ns", "readers=1, section_us=0"),
            Plot(Histograms, "4 readers, short sections", "p50_ns", "readers=4, section_us=0"),
            Plot(Histograms, "4 readers, sections of 1 ms", "p50_ns", "readers=4, section_us=1000"),
            Plot(Histograms, "2 readers, 8 callers", "p50_ns", "readers=2, callers=8"),
            Plot(Histograms, "2 readers, 32 callers", "p50_ns", "readers=2, callers=32"),
            Plot(Histograms, "No reader, 1000 idle threads", "p50_ns", "readers=0, idle_threads=1000"),
        ]),
        Topic("fence", "The fence below them",
            "The time of a heavy fence by the number of running threads of the process: on each backend, and as the \
             bare system call, which callers do not share.",
            &[Plot(RUNNING, "A process-wide fence; callers at a time: {callers}", "heavy_ns", "callers=*")]),
    ]),
    Section("callbacks", "Callbacks and memory", "", &[Topic("callback", "",
        "What happens after a grace period: how soon, at what cost, and how much memory waits for it. A writer floods, \
         and a reader stays in its section for the first half of the time. stillpoint is limited to 8 MiB, and \
         throttles the writer.",
        &[
            Plot(Courses, "Unreclaimed memory with a stalled reader", "peak_bytes", ""),
            Plot(Dots, "Peak unreclaimed memory", "peak_bytes", ""),
            Plot(Dots, "Latency of a callback, median, beside a reader", "latency_p50_ns", "readers=1"),
            Plot(Dots, "Allocate, publish, retire and free 64 bytes", "retire_ns",
                "threads=1, readers=1, payload=[u64; 8]"),
        ])]),
    Section("qsbr", "QSBR", "", &[Topic("qsbr", "",
        "Threads that report quiescent states read for the price of a load. run-queue is no library: it shows how \
         often all readers are scheduled if none of them yields. Each grace period must wait for that if there are \
         more readers than CPUs.",
        &[
            Plot(Dots, "Read, 1 thread", "read_ns", "threads=1"),
            Plot(Dots, "Quiescent state, nothing changed, 1 thread", "quiescent_ns", "threads=1"),
            Plot(Dots, "Updates per second, 2 readers", "updates_per_s", "readers=2, asked_per_s=0"),
            Plot(Dots, "Updates per second, 16 readers", "updates_per_s", "readers=16, asked_per_s=0"),
        ])]),
    Section("srcu", "SRCU", "", &[Topic("srcu", "",
        "Guards that may be sent to other threads and held over .await, beside what asynchronous readers use; and a \
         grace period that waits for more and more of them.",
        &[
            Plot(Dots, "Enter, load, exit; threads: {threads}", "pair_ns", "threads=*"),
            Plot(GUARDS, "From the last drop to the return of the waiter", "gp_ns", ""),
            Plot(GUARDS, "CPU time of the waiter", "gp_cpu_ns", ""),
        ])]),
    Section("arc", "Atomic Arcs", "", &[Topic("arc", "",
        "What a thread pays to load the pointer to an Arc, follow it, and drop the guard: by guards that may be kept, by \
         sections, and by caches, which keep their value until they are next used. And what a store costs: with exact \
         counts when it returns, or with a worker that releases the value later.",
        &[
            Plot(Dots, "A guard; threads: {threads}, guards held: {held}", "pair_ns", "by=guard, threads=1, held=*"),
            Plot(Dots, "A section of rcu; threads: {threads}", "pair_ns", "by=rcu, threads=1"),
            Plot(Dots, "A section of srcu; threads: {threads}", "pair_ns", "by=srcu, threads=1"),
            Plot(Dots, "A cache; threads: {threads}", "pair_ns", "by=cache, threads=1"),
            Plot(Dots, "A store, {strategy}; idle threads: {idle_threads}", "store_ns", "strategy=*, idle_threads=1000"),
        ])]),
    Section("hazard", "Hazard pointers", "", &[Topic("hazard", "",
        "What a thread pays to protect values and let them go, by hazard pointers that it has, and to retire a value. Then a \
         list and a hash table whose removed nodes are retired, by hazard pointers and by sections: an operation, and a \
         search of a long list to its end, while another thread changes the beginning.",
        &[
            Plot(Dots, "Protect and let go; threads: {threads}, values: {held}", "protect_ns", "threads=*, held=*"),
            Plot(Dots, "Allocate, publish, retire; threads: {threads}", "retire_ns", "threads=*"),
            Plot(Dots, "A list of 256 nodes, {gets} % gets; threads: {threads}", "op_ns",
                "structure=list, gets=*, threads=*"),
            Plot(Dots, "A hash table of 8192 nodes, {gets} % gets; threads: {threads}", "op_ns",
                "structure=hash table, gets=*, threads=*"),
            Plot(Dots, "A search of {nodes} nodes", "traversal_ns", ""),
            Plot(Dots, "A change at the beginning of the list", "change_ns", ""),
        ])]),
    Section("percpu", "Per-CPU data", "", &[Topic("percpu", "",
        "CPU time of an operation. thread-local is the floor: its numbers cannot be summed up.",
        &[
            Plot(Dots, "Counter increment, 1 thread per CPU", "op_ns", "op=add, threads_per_cpu=1, threads=max"),
            Plot(Dots, "Counter increment, 16 threads per CPU", "op_ns", "op=add, threads_per_cpu=16, threads=max"),
            Plot(Dots, "Pop and push of a pool, 1 thread per CPU", "op_ns", "op=pool, threads_per_cpu=1, threads=max"),
            Plot(Dots, "Value recorded in a histogram, 1 thread per CPU", "op_ns",
                "op=histogram, threads_per_cpu=1, threads=max"),
        ])]),
    Section("map", "Hash maps", "", &[Topic("map", "",
        "CPU time of an operation by the number of threads, with keys of 8 bytes and the same hasher. What is not a get \
         inserts or removes a random key. The latency is measured for a get beside a thread that inserts keys until the \
         table has grown four times, and removes them again.",
        &[
            Plot(THREADS, "{reads} % gets, {size} entries, {keys} keys", "op_ns", "reads=*, keys=*, size=*"),
            Plot(Dots, "Gets while the table is resized (1) and not (0): {resizes}; p99.9", "p999_ns", "resizes=*"),
            Plot(Dots, "Memory of an entry", "bytes", ""),
        ])]),
    Section("lock", "The lock", "", &[
        Topic("lock", "",
            "Mutexes by the number of threads, on all CPUs: with work under the lock and without it. A \
             wait cannot be longer than a measurement, which ends it.",
            &[
                Plot(THREADS, "Lock throughput (acquisitions/µs), {cs_ns} ns under the lock, {ncs_ns} ns without", "mops",
                    "cs_ns=*, ncs_ns=*"),
                Plot(THREADS, "Longest wait, {cs_ns} ns under the lock, {ncs_ns} ns without", "max_wait_ns",
                    "cs_ns=*, ncs_ns=*"),
                Plot(Dots, "Lock throughput (acquisitions/µs), {threads} threads on one CPU, {cs_ns} ns under the lock",
                    "mops", "profile=one, threads=max, cs_ns=*, ncs_ns=*"),
                Plot(Dots, "Longest wait, {threads} threads on one CPU, {cs_ns} ns under the lock", "max_wait_ns",
                    "profile=one, threads=max, cs_ns=*, ncs_ns=*"),
            ]),
        Topic("lock-ablation", "What each mechanism is worth",
            "The frontier has a dot for the lock that ships, for each of its variants (blue) and for each peer: the \
             longest wait / that of std, and the throughput / that of the best peer. Both are formed within a round; a \
             dot is the geometric mean of the medians of the cells. Shorter waits are to the left, more throughput is \
             above. Locks with less than half of the best throughput are at the lower edge, with their value. No lock \
             has both more throughput and shorter waits than a lock on the line. The other plots compare the lock that \
             ships with each variant and peer: a rate above 1, and a wait below 1, favour it. Blue is where all rounds \
             agree.",
            &[
                Plot(Frontier("mops_to_best_peer"),
                    "Frontier of throughput and longest wait: geometric mean of {cells} cells (threads: {threads}; \
                     {cs_ns} ns under the lock, as many without)",
                    "max_wait_to_std", "ncs_ns=cs_ns"),
                Plot(Ratios, "Rate: {cs_ns} ns under the lock, {ncs_ns} ns without, threads: {threads}, CPUs: {profile}",
                    "mops", "threads=*, profile=*, cs_ns=*, ncs_ns=*"),
                Plot(Ratios,
                    "Longest wait: {cs_ns} ns under the lock, {ncs_ns} ns without, threads: {threads}, CPUs: {profile}",
                    "max_wait_ns", "threads=*, profile=*, cs_ns=*, ncs_ns=*"),
            ]),
        Topic("rwlock", "Reader-writer locks",
            "A read is a lock and its release. Beside writers, 100 ns of work under the lock, and 100 ns without it.",
            &[
                Plot(Dots, "Read, {threads} threads", "pair_ns", "threads=max"),
                Plot(THREADS, "Throughput (acquisitions/µs), {reads_percent} % reads", "mops", "reads_percent=*"),
                Plot(THREADS, "Longest wait of a writer, {reads_percent} % reads", "write_max_ns", "reads_percent=*"),
                Plot(THREADS, "Longest wait of a reader, {reads_percent} % reads", "read_max_ns", "reads_percent=*"),
            ]),
        Topic("programs", "Programs of locks",
            "What people write with mutexes, condition variables and reader-writer locks, all of one library. A step is \
             what a thread does between two looks at the clock.",
            &[
                Plot(THREADS, "Throughput (operations/µs): {program}", "mops", "program=*, busy=0"),
                Plot(THREADS, "Longest step: {program}", "longest_step", "program=*, busy=0"),
            ]),
    ]),
    Section("experiments", "Experiments of the posts", RULE, &[
        Topic("e1", "E1: The process-wide fence", "", &[]),
        Topic("e2", "E2: Fences and membarrier in readers and grace periods", "", &[]),
        Topic("e3", "E3: synchronize() on its own track", "", &[
            Plot(Histograms, "Latency of {threads} threads' waits beside {callbacks} callbacks", "loops_ns",
                "loops=*, callbacks=*"),
        ]),
        Topic("e4", "E4: QSBR grace periods, a flag for each reader", "", &[]),
        Topic("e5", "E5: Per-CPU critical sections", "", &[]),
        Topic("e6", "E6: The queued lock", "", &[]),
    ]),
];
