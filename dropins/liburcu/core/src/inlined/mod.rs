//! Readers whose critical sections are inlined in C programs that were compiled against liburcu's headers.
//!
//! The words of such a reader, and what it does with them, are liburcu's, and the same binary may mix inlined
//! sections with calls of functions. The packages in `dropins/liburcu/` define the words ([`Gp`], [`InlinedReader`])
//! under liburcu's names.
//!
//! | flavor | a section | the leader's fence |
//! |---|---|---|
//! | memb, bp | stores the counter, and takes it back; light fences | [`heavy`](stillpoint::fence::heavy) |
//! | mb | the same, with full fences | a full fence |
//! | qsbr | ends with a report: stores the counter between full fences | a full fence |
//!
//! # A grace period
//!
//! `Gp::ctr` has 1 in its low half, and the number of the grace period in its high half. A reader copies all of it on
//! entering the outermost section, and counts its open sections in the low half of the copy.
//!
//! ```text
//! fence A
//! number += 1
//! scan            wait until each reader has no open section or has the new number
//! ```
//!
//! The argument is the one in `stillpoint/src/readers/sections/scan.rs`: if the reader's fence precedes A, the scan
//! sees a number that was loaded before it was advanced; if it follows A, the section sees what was unpublished. The
//! end differs. An inlined reader leaves by a plain store. On x86-64 that is a Release, as stores stay behind earlier
//! loads, and the headers stop the compiler. On other machines it is not, so a *closing fence* follows the scan
//! ([`InlinedProtocol::CLOSING_FENCE`]).
//!
//! A number has 32 bits. A reader that is stopped between its load and its store may store a number that has become
//! the current one again, 2^32 grace periods later. Once the numbers are used up, each grace period makes two passes
//! with two numbers: the stale number equals one of them at most. Reports count by 2 in 64 bits, and are never used
//! up.
//!
//! # Sleeping
//!
//! An inlined reader knows one word, [`Gp::futex`]: when it leaves and finds [`ARMED`], it stores 0 and wakes the
//! leader, whether the leader waits for this reader or not. A reader that leaves by a function can do better. The
//! leader makes a request of each reader that blocks it (`InlinedReader::requests`), readers that take their request
//! count `awaited` down, and the last one wakes the leader by the same word. So the leader arms both, issues fence B,
//! checks the readers again, and sleeps on [`Gp::futex`]. It does so again after each sleep, also one that a timer
//! ended. Fence B is only needed while a reader blocks the pass.
//!
//! 1. Each request is taken exactly once, by the reader or by the leader, and then counted down. So `awaited` is the
//!    number of outstanding requests, of requests taken but not counted yet, and of the leader's own share.
//! 2. The leader has its share while it makes requests and takes them back. It returns the share before it sleeps,
//!    and sleeps only if others are left: a reader may have counted down just before. When it is woken, it takes the
//!    share again, unless `awaited` was 0.
//! 3. When `awaited` is 0, no request is outstanding and every reader that blocked has left: the pass is over.
//! 4. *No reader that has passed is checked again*, by the same argument: a reader that takes a
//!    request acquires it, so its next section follows A.
//! 5. `Gp::futex` becomes [`ARMED`] before fence B, and before the leader returns its share. So a reader that leaves
//!    later, inlined or not, wakes the leader, unless another reader is about to.
//! 6. In qsbr an inlined report clears the reader's `waiting`, and wakes the leader only if that was set. The counter
//!    that it reports may be old, and still block the pass. So the futex becomes [`ARMED`] before `waiting` is set.
//!    Functions leave `waiting` set: the leader may have set it again for a second request, which an inlined report
//!    must find.
//!
//! If readers outnumber CPUs, the leader asks those that leave by functions to yield too, whether they block it or
//! not: see "Crowds" in `stillpoint/src/readers/sections/scan.rs`.
//!
//! Inlined readers of bp wake no thread ([`InlinedProtocol::TIMED`]). There the leader sleeps for a bounded time and
//! checks the readers again. Fence B is not needed: a request that a reader misses costs a longer sleep.
//!
//! # The lists
//!
//! Readers lie in the program's thread-local memory, so a lock protects the lists of them, and a thread leaves the
//! list before its memory goes. A pass moves all readers from one list to the other. New readers join the second
//! list: they see what is unpublished, by the lock. The leader sleeps without the lock.

mod pass;
mod readers;
mod words;

pub use readers::{InlinedProtocol, InlinedReaders};
pub use words::{ARMED, Gp, InlinedReader};
