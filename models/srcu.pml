/* A grace period of a sleepable domain: sections that are counted, two phases, the sleep: stillpoint/src/readers/srcu.rs.
 *
 *   grace_period()  SrcuReaders::try_drain and sleep
 *   sleep_for()     SrcuReaders::sleep_for
 *   reader          SrcuReaders::read_lock and read_unlock, count_down
 *
 * The leader publishes versions 1, 2.. of a value, and frees the one before after a grace period. Leaders come one after
 * another (shared_seq.pml), so there is one.
 *
 * Invariants:
 *   1. No section has a version that has been freed.
 *   2. Everybody gets to the end (invalid end state).
 *
 * Each reader counts on a CPU of its own: what is added to a row is one store. Both phases of a word are in one variable, the
 * odd one in the upper half.
 *
 * Abstracted: a reader enters again when the memory has what it stored; sections that end in another thread (loom_srcu has them); the looks before the sleep; the sleep's timer;
 * closing. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 2
#endif
#ifndef SECTIONS
#define SECTIONS 2          /* of the first reader; the second has one */
#endif

#define LEADER 2
#define THREADS 3
#define ENTERED(r) (r)
#define LEFT(r) (2 + (r))
#define VALUE 4
#define PHASE 5
#define ATTENTION 6             /* a phase, or NOBODY */
#define VARIABLES 7
#define COUNTER(v) 0
#define NOBODY 2

#include "store_buffers.pml"
#include "invariant.pml"

/* Changed by read-modify-writes only: the two halves of the futex word. */
short awaited;
byte wakes;
bit asleep;                     /* the leader */
byte freed;                     /* versions below this */

#define one(phase) ((phase) -> 16 : 1)
#define part(word, phase) ((phase) -> (word) >> 4 : (word) & 15)

active proctype memory() {
end:
    do
    :: drain(0, ENTERED(0))
    :: drain(0, LEFT(0))
    :: drain(1, ENTERED(1))
    :: drain(1, LEFT(1))
    :: drain(LEADER, VALUE)
    :: drain(LEADER, PHASE)
    :: drain(LEADER, ATTENTION)
    od
}

/* Its own heavy fence too. */
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
#ifndef WAKE_UP_NOT_SHOWN
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
    byte phase, value, attention, word;
    bit last;
    do
    :: left > 0 && fenced(me) ->
       left--;
       phase = mem[PHASE];
       word = load(me, ENTERED(me)) + one(phase);
       store_release(me, ENTERED(me), word);
       /* light */
       atomic { value = mem[VALUE]; invariant(1, value >= freed) }
       atomic { invariant(1, value >= freed); value = 0 }
#ifdef ATTENTION_BEFORE_LEAVE
       attention = mem[ATTENTION];
#endif
       word = load(me, LEFT(me)) + one(phase);
#ifdef LEAVE_RELAXED
       store(me, LEFT(me), word);
#else
       store_release(me, LEFT(me), word);
#endif
       word = 0;
       /* light */
#ifndef ATTENTION_BEFORE_LEAVE
       attention = mem[ATTENTION];
#endif
       if
       :: attention == phase -> count_down()
       :: else
       fi;
       attention = 0;
       phase = 0
    :: left == 0 -> break
    od
}

inline sum_left(p) {
    open = open - part(mem[LEFT(0)], p);
    open = open - part(mem[LEFT(1)], p)
}

inline sum_entered(p) {
    open = open + part(mem[ENTERED(0)], p);
    open = open + part(mem[ENTERED(1)], p)
}

inline sum(p) {
    open = 0;
#ifdef ENTERED_SUMMED_FIRST
    sum_entered(p); sum_left(p)
#else
    sum_left(p); sum_entered(p)
#endif
}

inline sleep_for(p) {
    store(LEADER, ATTENTION, p);
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
    store(LEADER, ATTENTION, NOBODY)
}

inline flip() {
    idle = busy ^ 1;
    store(LEADER, PHASE, idle)
}

inline grace_period() {
    busy = load(LEADER, PHASE);
    idle = busy ^ 1;
#ifdef IDLE_PHASE_BEFORE_FENCE
    sum(idle);
#endif
#ifndef NO_FENCE
    heavy();
#endif
#ifndef IDLE_PHASE_FORGOTTEN
#ifndef IDLE_PHASE_BEFORE_FENCE
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
    atomic { mem[ATTENTION] = NOBODY; run leader(); run reader(0, SECTIONS); run reader(1, 1) }
}
