/* A grace period, and readers that report quiescent states: stillpoint/src/readers/qsbr.rs, with the sleep of
 * readers/threads.rs.
 *
 *   grace_period()  ThreadReaders::try_drain, scan and wait_for_readers
 *   check()         Qsbr::blocks
 *   change()        ThreadReaders::quiescent_state, with take_request and count_down
 *
 * The leader publishes versions 1, 2, ... of a value, and frees the previous version after a grace period. Leaders
 * come one after another (shared_seq.pml), so there is one. A reader loads the version and uses it. Then it reports a
 * quiescent state, or goes offline and may come back online.
 *
 * Invariants:
 *   1. No reader uses a version that has been freed.
 *   2. When a grace period ends, no request is outstanding, and `awaited` is 0.
 *   3. All threads run to their end (invalid end state): no thread waits for a reader that keeps reporting, or has
 *      ended.
 *
 * A reader may be late with its wake-up, and end a sleep of the next grace period. The leader checks the count again.
 *
 * There are no fences here. Read-modify-writes are full fences, as on x86; loads take effect in program order. So of
 * the orderings only releases can be missed. For the acquires see docs/proof.md.
 *
 * Abstracted: threads that register late or exit online; spinning, which only delays the check of the scan; the
 * sleep's timer. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2            /* of each reader */
#endif
#define READERS 2

#define LEADER 2
#define THREADS 3
#define GP_SEEN(r) (r)
#define EXIT_FLAGS(r) (2 + (r))  /* WAKE_ON_EXIT, or 0 */
#define VALUE 4
#define GP_COUNTER 5                /* the counter */
#define AWAITED 6
#define VARIABLES 7
#define COUNTER(v) 0

#include "store_buffers.pml"
#include "invariant.pml"

bit asleep;                 /* the leader */
byte freed;                 /* versions below this */

active proctype memory() {
end:
    do
    :: drain(0, GP_SEEN(0))
    :: drain(1, GP_SEEN(1))
    :: drain(LEADER, VALUE)
    :: drain(LEADER, GP_COUNTER)
    od
}

inline count_down(r) {
    atomic {
        fenced(r) ->
        mem[AWAITED] = mem[AWAITED] - 1;
        last = (mem[AWAITED] == 0)
    }
    if
#ifndef NO_WAKE_UP
    :: last -> atomic { asleep = 0; last = 0 }
#endif
    :: else -> last = 0
    fi
}

inline take_request(r) {
#ifdef REQUEST_CHECKED_BY_LOAD
    /* The read-modify-write only if there seems to be a request. */
    if
    :: mem[EXIT_FLAGS(r)] -> atomic { fenced(r) -> taken = mem[EXIT_FLAGS(r)]; mem[EXIT_FLAGS(r)] = 0 }
    :: else
    fi;
#else
#ifdef REQUEST_TAKEN_TWICE
    atomic { fenced(r) -> taken = mem[EXIT_FLAGS(r)] }
    mem[EXIT_FLAGS(r)] = 0;
#else
    atomic { fenced(r) -> taken = mem[EXIT_FLAGS(r)]; mem[EXIT_FLAGS(r)] = 0 }
#endif
#endif
    if :: taken -> taken = 0; count_down(r) :: else fi
}

inline change(r, state) {
    store_release(r, GP_SEEN(r), state);
    take_request(r)
}

inline come_online(r) {
    seen = mem[GP_COUNTER];
#ifdef ONLINE_WITHOUT_RMW
    store_release(r, GP_SEEN(r), seen)
#else
    change(r, seen)
#endif
}

inline go_offline(r) {
#ifdef OFFLINE_DOES_NOT_ANSWER
    store_release(r, GP_SEEN(r), 0)
#else
    change(r, 0)
#endif
}

proctype reader(byte me) {
    byte seen, value, rounds;
    bit taken, last;
    come_online(me);
    do
    :: rounds < ROUNDS ->
       rounds++;
       value = mem[VALUE];
       atomic { invariant(1, value >= freed); value = 0 }
       if
       :: mem[GP_COUNTER] != seen -> seen = mem[GP_COUNTER]; change(me, seen)
       :: go_offline(me); come_online(me)
       :: mem[GP_COUNTER] == seen
       fi
    :: else -> break
    od;
    value = mem[VALUE];
    atomic { invariant(1, value >= freed); value = 0 }
    go_offline(me);
    seen = 0
}

/* Whether the reader blocks the grace period. */
inline check(r) {
    state = mem[GP_SEEN(r)];
#ifndef OFFLINE_SEEN_BY_LOAD
    if
    :: state == 0 -> fenced(LEADER); state = mem[GP_SEEN(r)]
    :: else
    fi;
#endif
    atomic { blocks = (state != 0 && state < counter); state = 0 }
}

inline request_wakeup(r) {
    atomic { fenced(LEADER) -> mem[EXIT_FLAGS(r)] = 1 }
}

inline recheck(r) {
    check(r);
    if
    :: !blocks ->
       atomic {
           fenced(LEADER) ->
           mem[AWAITED] = mem[AWAITED] - mem[EXIT_FLAGS(r)];
           mem[EXIT_FLAGS(r)] = 0
       }
    :: else
    fi
}

inline sleep() {
    atomic { fenced(LEADER) -> mem[AWAITED] = 1 }
    r = first;
    do
    :: r < READERS ->
       check(r);
       if
       :: blocks ->
          atomic { fenced(LEADER) -> mem[AWAITED] = mem[AWAITED] + 1 }
#ifdef REQUEST_AFTER_CHECK
          recheck(r);
          if :: blocks -> request_wakeup(r) :: else -> atomic { mem[AWAITED] = mem[AWAITED] - 1 } fi
#else
          request_wakeup(r)
#endif
       :: else
       fi;
       r++
    :: else -> r = first; break
    od;
#ifndef REQUEST_AFTER_CHECK
#ifndef NO_RESCAN
    do
    :: r < READERS -> recheck(r); r++
    :: else -> break
    od;
#endif
#endif
    r = 0;
    blocks = 0;
    atomic { fenced(LEADER) -> mem[AWAITED] = mem[AWAITED] - 1; left = mem[AWAITED] }
    do
    :: left != 0 ->
       /* futex_wait: the kernel compares under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
       asleep = 1;
#else
       asleep = (mem[AWAITED] == left);
#endif
       !asleep;
#ifdef WOKEN_IS_ENOUGH
       break
#endif
       left = mem[AWAITED]
    :: else -> break
    od;
    left = 0
}

inline grace_period() {
    counter = load(LEADER, GP_COUNTER) + 1;
#ifdef COUNTER_RELAXED
    store(LEADER, GP_COUNTER, counter);
#else
    store_release(LEADER, GP_COUNTER, counter);
#endif
    do
    :: first < READERS ->
       check(first);
       if
       :: !blocks -> first++
       :: else -> sleep(); break
       fi
    :: else -> break
    od;
    first = 0;
    blocks = 0;
    invariant(2, mem[AWAITED] == 0 && mem[EXIT_FLAGS(0)] == 0 && mem[EXIT_FLAGS(1)] == 0)
}

proctype leader() {
    byte counter, first, r, left, version, state;
    bit blocks;
    do
    :: version < GRACE_PERIODS ->
       version++;
       store(LEADER, VALUE, version);
       grace_period();
       freed = version
    :: else -> break
    od
}

init {
    atomic { mem[GP_COUNTER] = 1; run leader(); run reader(0); run reader(1) }
}
