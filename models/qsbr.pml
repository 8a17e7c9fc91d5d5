/* A grace period, between readers that report quiescent states: stillpoint/src/readers/qsbr.rs, and the sleep of readers/threads.rs.
 *
 *   grace_period()  ThreadReaders::try_drain, scan and sleep
 *   look()          Qsbr::blocks
 *   change()        ThreadReaders::quiescent_state, with take_request and count_down
 *
 * The leader publishes versions 1, 2.. of a value, and frees the one before after a grace period. Leaders come one after
 * another (shared_seq.pml), so there is one. A reader loads the version, uses it, and then reports, or goes offline and perhaps
 * comes back.
 *
 * Invariants:
 *   1. No reader uses a version that has been freed.
 *   2. A grace period ends with no request out, and `awaited` 0.
 *   3. Everybody gets to the end (invalid end state): a reader that goes on reporting, or ends, is waited for by nobody.
 *
 * A reader may be late with its wake-up, and end a sleep of the next grace period: the leader looks at the count again.
 *
 * There are no fences here. Read-modify-writes are full ones, as on x86; loads take effect in program order. So of the orderings
 * only releases can be missed: for the acquires see docs/proof.md.
 *
 * Abstracted: threads that register late or end online; spinning, which only delays the scan's look; the sleep's timer. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2            /* of each reader */
#endif
#define READERS 2

#define LEADER 2
#define THREADS 3
#define STATE(r) (r)
#define ATTENTION(r) (2 + (r))  /* WAKE_ON_EXIT, or 0 */
#define VALUE 4
#define RAISED 5                /* the counter */
#define WAKE_ON_EXIT 6
#define VARIABLES 7
#define COUNTER(v) 0

#include "store_buffers.pml"
#include "invariant.pml"

bit asleep;                 /* the leader */
byte freed;                 /* versions below this */

active proctype memory() {
end:
    do
    :: drain(0, STATE(0))
    :: drain(1, STATE(1))
    :: drain(LEADER, VALUE)
    :: drain(LEADER, RAISED)
    od
}

inline count_down(r) {
    atomic {
        fenced(r) ->
        mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] - 1;
        last = (mem[WAKE_ON_EXIT] == 0)
    }
    if
#ifndef NO_WAKE_UP
    :: last -> atomic { asleep = 0; last = 0 }
#endif
    :: else -> last = 0
    fi
}

inline take_request(r) {
#ifdef LOOKS_BY_LOAD
    /* The read-modify-write only where there seems to be a request. */
    if
    :: mem[ATTENTION(r)] -> atomic { fenced(r) -> taken = mem[ATTENTION(r)]; mem[ATTENTION(r)] = 0 }
    :: else
    fi;
#else
#ifdef AWAITED_TAKEN_TWICE
    atomic { fenced(r) -> taken = mem[ATTENTION(r)] }
    mem[ATTENTION(r)] = 0;
#else
    atomic { fenced(r) -> taken = mem[ATTENTION(r)]; mem[ATTENTION(r)] = 0 }
#endif
#endif
    if :: taken -> taken = 0; count_down(r) :: else fi
}

inline change(r, state) {
    store_release(r, STATE(r), state);
    take_request(r)
}

inline come_online(r) {
    seen = mem[RAISED];
#ifdef ONLINE_WITHOUT_RMW
    store_release(r, STATE(r), seen)
#else
    change(r, seen)
#endif
}

inline go_offline(r) {
#ifdef OFFLINE_DOES_NOT_ANSWER
    store_release(r, STATE(r), 0)
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
       :: mem[RAISED] != seen -> seen = mem[RAISED]; change(me, seen)
       :: go_offline(me); come_online(me)
       :: mem[RAISED] == seen
       fi
    :: else -> break
    od;
    value = mem[VALUE];
    atomic { invariant(1, value >= freed); value = 0 }
    go_offline(me);
    seen = 0
}

/* Whether the reader blocks the grace period. */
inline look(r) {
    state = mem[STATE(r)];
#ifndef OFFLINE_SEEN_BY_LOAD
    if
    :: state == 0 -> fenced(LEADER); state = mem[STATE(r)]
    :: else
    fi;
#endif
    atomic { blocks = (state != 0 && state < raised); state = 0 }
}

inline request(r) {
    atomic { fenced(LEADER) -> mem[ATTENTION(r)] = 1 }
}

inline look_again(r) {
    look(r);
    if
    :: !blocks ->
       atomic {
           fenced(LEADER) ->
           mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] - mem[ATTENTION(r)];
           mem[ATTENTION(r)] = 0
       }
    :: else
    fi
}

inline sleep() {
    atomic { fenced(LEADER) -> mem[WAKE_ON_EXIT] = 1 }
    r = first;
    do
    :: r < READERS ->
       look(r);
       if
       :: blocks ->
          atomic { fenced(LEADER) -> mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] + 1 }
#ifdef REQUEST_AFTER_LOOK
          look_again(r);
          if :: blocks -> request(r) :: else -> atomic { mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] - 1 } fi
#else
          request(r)
#endif
       :: else
       fi;
       r++
    :: else -> r = first; break
    od;
#ifndef REQUEST_AFTER_LOOK
#ifndef NO_RESCAN
    do
    :: r < READERS -> look_again(r); r++
    :: else -> break
    od;
#endif
#endif
    r = 0;
    blocks = 0;
    atomic { fenced(LEADER) -> mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] - 1; left = mem[WAKE_ON_EXIT] }
    do
    :: left != 0 ->
       /* futex_wait: the kernel compares under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
       asleep = 1;
#else
       asleep = (mem[WAKE_ON_EXIT] == left);
#endif
       !asleep;
#ifdef WOKEN_IS_ENOUGH
       break
#endif
       left = mem[WAKE_ON_EXIT]
    :: else -> break
    od;
    left = 0
}

inline grace_period() {
    raised = load(LEADER, RAISED) + 1;
#ifdef COUNTER_RELAXED
    store(LEADER, RAISED, raised);
#else
    store_release(LEADER, RAISED, raised);
#endif
    do
    :: first < READERS ->
       look(first);
       if
       :: !blocks -> first++
       :: else -> sleep(); break
       fi
    :: else -> break
    od;
    first = 0;
    blocks = 0;
    invariant(2, mem[WAKE_ON_EXIT] == 0 && mem[ATTENTION(0)] == 0 && mem[ATTENTION(1)] == 0)
}

proctype leader() {
    byte raised, first, r, left, version, state;
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
    atomic { mem[RAISED] = 1; run leader(); run reader(0); run reader(1) }
}
