/* A grace period of a sleepable domain: counted sections, two indices, the sleep: stillpoint/src/readers/srcu.rs.
 *
 *   grace_period()  SrcuReaders::try_drain and wait_for_readers
 *   sleep_for()     SrcuReaders::sleep_for
 *   reader          SrcuReaders::read_lock and read_unlock, count_down
 *
 * The leader publishes versions 1, 2, ... of a value, and frees the previous version after a grace period. Leaders
 * come one after another (shared_seq.pml), so there is one.
 *
 * Invariants:
 *   1. No section uses a version that has been freed.
 *   2. All threads run to their end (invalid end state).
 *
 * Each reader counts on a CPU of its own: an add is one store. Both indices of a counter are in one variable, the odd
 * one in the upper half.
 *
 * Abstracted: a reader enters again only when its stores have drained; sections that end in another thread (loom_srcu
 * has them); the checks before the sleep; the sleep's timer; closing. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 2
#endif
#ifndef SECTIONS
#define SECTIONS 2          /* of the first reader; the second has one */
#endif

#define LEADER 2
#define THREADS 3
#define LOCKS(r) (r)
#define UNLOCKS(r) (2 + (r))
#define VALUE 4
#define INDEX 5
#define WAKE_REQUEST 6             /* an index, or NO_INDEX */
#define VARIABLES 7
#define COUNTER(v) 0
#define NO_INDEX 2

#include "store_buffers.pml"
#include "invariant.pml"

/* Changed by read-modify-writes only: the two halves of the futex word. */
short awaited;
byte wakes;
bit asleep;                     /* the leader */
byte freed;                     /* versions below this */

#define one(idx) ((idx) -> 16 : 1)
#define part(word, idx) ((idx) -> (word) >> 4 : (word) & 15)

active proctype memory() {
end:
    do
    :: drain(0, LOCKS(0))
    :: drain(0, UNLOCKS(0))
    :: drain(1, LOCKS(1))
    :: drain(1, UNLOCKS(1))
    :: drain(LEADER, VALUE)
    :: drain(LEADER, INDEX)
    :: drain(LEADER, WAKE_REQUEST)
    od
}

/* With a heavy fence of its own. */
inline heavy() {
    atomic { fenced(LEADER) -> asked = bit_of(0) | bit_of(1) }
    do
    :: answer(asked, 0)
    :: answer(asked, 1)
    :: asked == 0 -> break
    od
}

inline count_down() {
    atomic { fenced(me) -> awaited--; last = (awaited == 0) }
    if
    :: last ->
#ifndef WAKE_UP_NOT_PUBLISHED
       wakes++;
#endif
#ifndef LEADER_NOT_WOKEN
       asleep = 0;
#endif
       last = 0
    :: else
    fi
}

proctype reader(byte me, left) {
    byte idx, value, request, word;
    bit last;
    do
    :: left > 0 && fenced(me) ->
       left--;
       idx = mem[INDEX];
       word = load(me, LOCKS(me)) + one(idx);
       store_release(me, LOCKS(me), word);
       /* light */
       atomic { value = mem[VALUE]; invariant(1, value >= freed) }
       atomic { invariant(1, value >= freed); value = 0 }
#ifdef REQUEST_CHECKED_BEFORE_UNLOCK
       request = mem[WAKE_REQUEST];
#endif
       word = load(me, UNLOCKS(me)) + one(idx);
#ifdef UNLOCK_RELAXED
       store(me, UNLOCKS(me), word);
#else
       store_release(me, UNLOCKS(me), word);
#endif
       word = 0;
       /* light */
#ifndef REQUEST_CHECKED_BEFORE_UNLOCK
       request = mem[WAKE_REQUEST];
#endif
       if
       :: request == idx -> count_down()
       :: else
       fi;
       request = 0;
       idx = 0
    :: left == 0 -> break
    od
}

inline sum_unlocks(p) {
    open = open - part(mem[UNLOCKS(0)], p);
    open = open - part(mem[UNLOCKS(1)], p)
}

inline sum_locks(p) {
    open = open + part(mem[LOCKS(0)], p);
    open = open + part(mem[LOCKS(1)], p)
}

inline sum(p) {
    open = 0;
#ifdef LOCKS_SUMMED_FIRST
    sum_locks(p); sum_unlocks(p)
#else
    sum_unlocks(p); sum_locks(p)
#endif
}

inline sleep_for(p) {
    store(LEADER, WAKE_REQUEST, p);
#ifndef NO_FENCE_BEFORE_SUM
    heavy();
#endif
    do
    :: true ->
#ifdef SUMMED_BEFORE_ARMED
       sum(p);
       atomic { fenced(LEADER) -> awaited = 0; wakes = 0 }
#else
       atomic { fenced(LEADER) -> awaited = 0; wakes = 0 }
       sum(p);
#endif
       if :: open == 0 -> break :: else fi;
       atomic { awaited = awaited + open; enough = (awaited <= 0); seen = wakes }
       do
       :: !enough ->
          /* futex_wait: the kernel compares the lower half under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
          asleep = 1;
#else
          asleep = (wakes == seen);
#endif
          !asleep;
          atomic { enough = (awaited <= 0); seen = wakes }
       :: else -> break
       od;
       enough = 0; seen = 0
#ifdef WOKEN_IS_ENOUGH
       ; break
#endif
    od;
    store(LEADER, WAKE_REQUEST, NO_INDEX)
}

inline flip() {
    idle = busy ^ 1;
    store(LEADER, INDEX, idle)
}

inline grace_period() {
    busy = load(LEADER, INDEX);
    idle = busy ^ 1;
#ifdef IDLE_INDEX_BEFORE_FENCE
    sum(idle);
#endif
#ifndef NO_FENCE
    heavy();
#endif
#ifndef IDLE_INDEX_SKIPPED
#ifndef IDLE_INDEX_BEFORE_FENCE
    sum(idle);
#endif
    if
    :: open != 0 -> sleep_for(idle)
    :: else
    fi;
#endif
    sum(busy);
    if
    :: open != 0 -> flip(); sleep_for(busy)
    :: else
    fi;
    open = 0; busy = 0; idle = 0
}

proctype leader() {
    byte asked, version, busy, idle, seen;
    short open;
    bit enough;
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
    atomic { mem[WAKE_REQUEST] = NO_INDEX; run leader(); run reader(0, SECTIONS); run reader(1, 1) }
}
