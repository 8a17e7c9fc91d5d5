//! What the page shows, as data: its sections with their plots.
//!
//! A quantity is a metric and the configuration in which it is shown: see
//! [`Report::select`](harness::Report::select). In titles, `{threads}` stands for that parameter.

use super::figures::Str;
use super::posts::RULE;

pub(super) const HOW_TO_READ: Str = "Medians over interleaved rounds. The ratio is formed within each round, and its \
     median stands beside its extremes. Below 1, stillpoint takes less time or memory; of a rate, above 1, it does \
     more. The best peer is the one with the best median of all that were measured.";

pub(super) const BEHIND: Str = "For each bench and metric: in how many of its configurations the best peer has the better \
     median, and the one where it is ahead by most.";

/// How a quantity is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// A row for each system, the best first.
    Dots,
    /// A row for each ratio of ours.
    Ratios,
    /// A curve for each system over a parameter.
    Lines(Str),
    /// The shares of latencies, for each system.
    Histograms,
    /// A course over time for each system.
    Courses,
    /// A dot for each system: the longest wait, and this metric of throughput, both as ratios.
    Frontier(Str),
}

/// Mark, title, metric, and configuration; with `*` in it, a plot for each value.
pub(super) struct Plot(pub(super) Mark, pub(super) Str, pub(super) Str, pub(super) Str);

/// A section of the page: its part, its title, a text, and plots.
pub(super) struct Section(pub(super) Str, pub(super) Str, pub(super) Str, pub(super) &'static [Plot]);

use Mark::{Courses, Dots, Frontier, Histograms, Lines, Ratios};

const THREADS: Mark = Lines("threads");

#[rustfmt::skip]
pub(super) const SECTIONS: [Section; 21] = [
    Section("read", "Reads",
        "What a reader pays to enter a read-side critical section, follow a pointer, and leave the section. A dot is \
         the median over the rounds, the line behind it reaches from the least to the greatest. The bare load protects \
         nothing. A cache keeps its value until its thread reads again.",
        &[Plot(Dots, "Enter, load, exit; threads: {threads}", "pair_ns", "threads=*, nesting=1")]),
    Section("read-no-membarrier", "Reads without membarrier",
        "The same in a process to which membarrier is denied: each section of stillpoint executes a fence.",
        &[Plot(Dots, "Enter, load, exit; threads: {threads}", "pair_ns", "threads=*, nesting=1")]),
    Section("sync", "Grace periods",
        "How long synchronize() takes: the share of the calls that took up to twice as long.", &[
        Plot(Histograms, "1 reader, short sections", "p50_ns", "readers=1, section_us=0"),
        Plot(Histograms, "4 readers, short sections", "p50_ns", "readers=4, section_us=0"),
        Plot(Histograms, "4 readers, sections of 1 ms", "p50_ns", "readers=4, section_us=1000"),
        Plot(Histograms, "2 readers, 8 callers", "p50_ns", "readers=2, callers=8"),
        Plot(Histograms, "2 readers, 32 callers", "p50_ns", "readers=2, callers=32"),
        Plot(Histograms, "No reader, 1000 idle threads", "p50_ns", "readers=0, idle_threads=1000"),
    ]),
    Section("fence", "The fence below them",
        "The time of a heavy fence by the number of running threads of the process: on each backend, and as the \
         bare system call, which callers do not share.",
        &[Plot(Lines("running"), "A process-wide fence; callers at a time: {callers}", "heavy_ns", "callers=*")]),
    Section("callback", "Callbacks and memory",
        "What happens after a grace period: how soon, at what cost, and how much memory waits for it. A writer floods, \
         and a reader stays in its section for the first half of the time. stillpoint is limited to 8 MiB, and \
         throttles the writer.", &[
        Plot(Courses, "Unreclaimed memory with a stalled reader", "peak_bytes", ""),
        Plot(Dots, "Peak unreclaimed memory", "peak_bytes", ""),
        Plot(Dots, "Latency of a callback, median, beside a reader", "latency_p50_ns", "readers=1"),
        Plot(Dots, "Allocate, publish, retire and free 64 bytes", "retire_ns", "threads=1, readers=1, payload=[u64; 8]"),
    ]),
    Section("qsbr", "QSBR",
        "Threads that report quiescent states read for the price of a load. run-queue is no library: it shows how \
         often all readers are scheduled if none of them yields. Each grace period must wait for that if there are \
         more readers than CPUs.", &[
        Plot(Dots, "Read, 1 thread", "read_ns", "threads=1"),
        Plot(Dots, "Quiescent state, nothing changed, 1 thread", "quiescent_ns", "threads=1"),
        Plot(Dots, "Updates per second, 2 readers", "updates_per_s", "readers=2, asked_per_s=0"),
        Plot(Dots, "Updates per second, 16 readers", "updates_per_s", "readers=16, asked_per_s=0"),
    ]),
    Section("srcu", "SRCU",
        "Guards that may be sent to other threads and held over .await, beside what asynchronous readers use; and a \
         grace period that waits for more and more of them.", &[
        Plot(Dots, "Enter, load, exit; threads: {threads}", "pair_ns", "threads=*"),
        Plot(Lines("guards"), "From the last drop to the return of the waiter", "gp_ns", ""),
        Plot(Lines("guards"), "CPU time of the waiter", "gp_cpu_ns", ""),
    ]),
    Section("arc", "Atomic Arcs",
        "What a thread pays to load the pointer to an Arc, follow it, and drop the guard: by guards that may be kept, by \
         sections, and by caches, which keep their value until they are next used. And what a store costs: with exact \
         counts when it returns, or with a worker that releases the value later.", &[
        Plot(Dots, "A guard; threads: {threads}, guards held: {held}", "pair_ns", "by=guard, threads=1, held=*"),
        Plot(Dots, "A section of rcu; threads: {threads}", "pair_ns", "by=rcu, threads=1"),
        Plot(Dots, "A section of srcu; threads: {threads}", "pair_ns", "by=srcu, threads=1"),
        Plot(Dots, "A cache; threads: {threads}", "pair_ns", "by=cache, threads=1"),
        Plot(Dots, "A store, {strategy}; idle threads: {idle_threads}", "store_ns", "strategy=*, idle_threads=1000"),
    ]),
    Section("hazard", "Hazard pointers",
        "What a thread pays to protect values and let them go, by hazard pointers that it has, and to retire a value. Then a \
         list and a hash table whose removed nodes are retired, by hazard pointers and by sections: an operation, and a \
         search of a long list to its end, while another thread changes the beginning.", &[
        Plot(Dots, "Protect and let go; threads: {threads}, values: {held}", "protect_ns", "threads=*, held=*"),
        Plot(Dots, "Allocate, publish, retire; threads: {threads}", "retire_ns", "threads=*"),
        Plot(Dots, "A list of 256 nodes, {gets} % gets; threads: {threads}", "op_ns", "structure=list, gets=*, threads=*"),
        Plot(Dots, "A hash table of 8192 nodes, {gets} % gets; threads: {threads}", "op_ns",
            "structure=hash table, gets=*, threads=*"),
        Plot(Dots, "A search of {nodes} nodes", "traversal_ns", ""),
        Plot(Dots, "A change at the beginning of the list", "change_ns", ""),
    ]),
    Section("percpu", "Per-CPU data",
        "CPU time of an operation. thread-local is the floor: its numbers cannot be summed up.", &[
        Plot(Dots, "Counter increment, {threads_per_cpu} threads per CPU", "op_ns", "op=add, threads_per_cpu=*, threads=max"),
        Plot(Dots, "Pop and push of a pool, 1 thread per CPU", "op_ns", "op=pool, threads_per_cpu=1, threads=max"),
        Plot(Dots, "Value recorded in a histogram, 1 thread per CPU", "op_ns", "op=histogram, threads_per_cpu=1, threads=max"),
    ]),
    Section("map", "Hash maps",
        "CPU time of an operation by the number of threads, with keys of 8 bytes and the same hasher. What is not a get \
         inserts or removes a random key. The latency is measured for a get beside a thread that inserts keys until the \
         table has grown four times, and removes them again.", &[
        Plot(THREADS, "{reads} % gets, {size} entries, {keys} keys", "op_ns", "reads=*, keys=*, size=*"),
        Plot(Dots, "Gets while the table is resized (1) and not (0): {resizes}; p99.9", "p999_ns", "resizes=*"),
        Plot(Dots, "Memory of an entry", "bytes", ""),
    ]),
    Section("lock", "The lock",
        "Mutexes by the number of threads, on all CPUs and on one: with work under the lock and without it. A wait cannot be \
         longer than a measurement, which ends it.", &[
        Plot(THREADS, "Throughput (acquisitions/µs), {cs_ns} ns under the lock, {ncs_ns} ns without", "mops", "cs_ns=*, ncs_ns=*"),
        Plot(THREADS, "Longest wait, {cs_ns} ns under the lock, {ncs_ns} ns without", "max_wait_ns", "cs_ns=*, ncs_ns=*"),
        Plot(Dots, "Throughput (acquisitions/µs), {threads} threads on one CPU, {cs_ns} ns under the lock", "mops",
            "profile=one, threads=max, cs_ns=*, ncs_ns=*"),
        Plot(Dots, "Longest wait, {threads} threads on one CPU, {cs_ns} ns under the lock", "max_wait_ns",
            "profile=one, threads=max, cs_ns=*, ncs_ns=*"),
    ]),
    Section("lock-ablation", "What each mechanism of the lock is worth",
        "The frontier has a dot for the lock that ships, for each of its variants (blue) and for each peer: the \
         longest wait / that of std, and the throughput / that of the best peer. Both are formed within a round; a \
         dot is the geometric mean of the medians of the cells. Shorter waits are to the left, more throughput is \
         above. No lock has both more throughput and shorter waits than a lock on the line. The other plots compare the \
         lock that ships with each variant and peer: a rate above 1, and a wait below 1, favour it. Blue is where all \
         rounds agree.", &[
        Plot(Frontier("mops_to_best_peer"), "Throughput and longest wait, in cells with as much work under the lock as without",
            "max_wait_to_std", "ncs_ns=cs_ns"),
        Plot(Ratios, "Rate: {cs_ns} ns under the lock, {ncs_ns} ns without, threads: {threads}, CPUs: {profile}",
            "mops", "threads=*, profile=*, cs_ns=*, ncs_ns=*"),
        Plot(Ratios, "Longest wait: {cs_ns} ns under the lock, {ncs_ns} ns without, threads: {threads}, CPUs: {profile}",
            "max_wait_ns", "threads=*, profile=*, cs_ns=*, ncs_ns=*"),
    ]),
    Section("rwlock", "Reader-writer locks",
        "A read is a lock and its release. Beside writers, 100 ns of work under the lock, and 100 ns without it.", &[
        Plot(Dots, "Read, {threads} threads", "pair_ns", "threads=max"),
        Plot(THREADS, "Throughput (acquisitions/µs), {reads_percent} % reads", "mops", "reads_percent=*"),
        Plot(THREADS, "Longest wait of a writer, {reads_percent} % reads", "write_max_ns", "reads_percent=*"),
        Plot(THREADS, "Longest wait of a reader, {reads_percent} % reads", "read_max_ns", "reads_percent=*"),
    ]),
    Section("programs", "Programs of locks",
        "What people write with mutexes, condition variables and reader-writer locks, all of one library. A step is \
         what a thread does between two looks at the clock.", &[
        Plot(THREADS, "Throughput (operations/µs): {program}", "mops", "program=*, busy=0"),
        Plot(THREADS, "Longest step: {program}", "longest_step", "program=*, busy=0"),
    ]),
    Section("e1", "E1: The process-wide fence", RULE, &[]),
    Section("e2", "E2: Fences and membarrier in readers and grace periods", "", &[]),
    Section("e3", "E3: synchronize() on its own track", "",
        &[Plot(Histograms, "Latency of {threads} threads' waits beside {callbacks} callbacks", "loops_ns", "loops=*, callbacks=*")]),
    Section("e4", "E4: QSBR grace periods, a flag for each reader", "", &[]),
    Section("e5", "E5: Per-CPU critical sections", "", &[]),
    Section("e6", "E6: The queued lock", "", &[]),
];
