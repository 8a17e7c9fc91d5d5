/* A grace period, between readers that enter, repin and leave: stillpoint/src/readers/threads.rs and reader.rs.
 *
 *   grace_period()  ThreadReaders::try_drain, scan and sleep
 *   reader          Reader::try_enter, repin and leave, ThreadReaders::exit_slow
 *   take_awaited(), count_down()
 *
 * The leader publishes versions 1, 2.. of a value, and frees the one before after a grace period. Leaders come one after
 * another (shared_seq.pml), so there is one.
 *
 * Invariants:
 *   1. No reader looks at a version that has been freed.
 *   2. A grace period ends with no request out, and `awaited` 0.
 *   3. Everybody gets to the end (invalid end state).
 *
 * A reader may be late with its wake-up, and end a sleep of the next grace period: the leader looks at the count again.
 *
 * Beyond weakly ordered stores:
 *
 *   - The leader's additions to `awaited`, whose results it does not use, are done by the memory when their turn comes:
 *     `ADD` is what is still to be added.
 *   - The first reader's load of the pointer may be early: `guess` is what it found. The machine may guess at any moment,
 *     and forgets it when an interrupt lands, as what comes after that is fetched anew. A compiler may move the load up to
 *     the last light fence, and no interrupt undoes that. An acquire forgets both: what comes after it is loaded after it.
 *   - `take_awaited` is no fence to what was stored before.
 *
 * The first reader repins its sections, or does not; the second is there to be counted.
 *
 * Abstracted: nested sections (the innermost do nothing); readers that come and go; spinning, which only delays the
 * scan's look; the sleep's timer, which is for reports. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 3
#endif
#ifndef SECTIONS
#define SECTIONS 2          /* of each reader */
#endif
#ifndef READERS
#define READERS 1           /* or 2 */
#endif

#define LEADER 2
#define THREADS 3
#define STATE(r) (r)
#define ATTENTION(r) (2 + (r))  /* WAKE_ON_EXIT, or 0 */
#define VALUE 4
#define RAISED 5                /* the counter */
#define WAKE_ON_EXIT 6
#define ADD 7
#define VARIABLES 8
#define COUNTER(v) 0

#include "store_buffers.pml"
#include "invariant.pml"

#define NOTHING 0
#define MACHINE 1
#define COMPILER 2

byte guessed;               /* by whom */
byte guess;
bit asleep;                 /* the leader */
byte freed;                 /* versions below this */

/* Of the last version there is no need: a load that is not early finds the same. */
inline guess_value(by) {
    atomic { guessed == NOTHING && mem[VALUE] < GRACE_PERIODS -> guessed = by; guess = mem[VALUE] }
}

inline forget() {
    guessed = NOTHING;
    guess = 0
}

active proctype memory() {
end:
    do
    :: drain(0, STATE(0))
    :: drain(1, STATE(1))
    :: drain(LEADER, VALUE)
    :: drain(LEADER, RAISED)
    :: drain(LEADER, WAKE_ON_EXIT)
    :: drain(LEADER, ATTENTION(0))
    :: drain(LEADER, ATTENTION(1))
    :: atomic {
           (pending[LEADER] & bit_of(ADD)) && !(pending[LEADER] & bit_of(WAKE_ON_EXIT)) ->
           mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] + buffered[at(LEADER, ADD)];
           buffered[at(LEADER, ADD)] = 0;
           pending[LEADER] = pending[LEADER] & ~bit_of(ADD)
       }
    :: guess_value(MACHINE)
    od
}

/* Its own heavy fence too. */
inline heavy() {
    atomic { fenced(LEADER) -> asked = bit_of(0) | bit_of(1) }
    do
    :: interrupt(0)
    :: interrupt(1)
    :: asked == 0 -> break
    od
}

inline interrupt(r) {
    atomic {
        (asked & bit_of(r)) && fenced(r) ->
        asked = asked & ~bit_of(r);
        if :: r == 0 && guessed == MACHINE -> forget() :: else fi
    }
}

/* What the reader's next load of the pointer finds. */
inline look_at_value(r) {
    atomic {
        if
        :: r == 0 && guessed != NOTHING -> value = guess; forget()
        :: else -> value = mem[VALUE]
        fi
    }
    atomic { invariant(1, value >= freed); value = 0 }
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

/* Nothing to the machine. */
inline light(r) {
    atomic { if :: r == 0 && guessed == COMPILER -> forget() :: else fi }
}

/* Reader::check_exit_flags, ThreadReaders::exit_slow */
inline attend(r) {
    light(r);
    if :: r == 0 -> if :: guess_value(COMPILER) :: true fi :: else fi;
    if
    :: mem[ATTENTION(r)] ->
#ifdef AWAITED_TAKEN_TWICE
       taken = mem[ATTENTION(r)];
       mem[ATTENTION(r)] = 0;
#else
       atomic { taken = mem[ATTENTION(r)]; mem[ATTENTION(r)] = 0 }
#endif
#ifndef TAKE_RELAXED
       if :: r == 0 -> atomic { forget() } :: else fi;
#endif
       if :: taken -> count_down(r) :: else fi;
       taken = 0
    :: else
    fi
}

proctype reader(byte me) {
    byte counter, value, sections;
    bit taken, last;
    do
    :: sections < SECTIONS ->
       sections++;
       counter = mem[RAISED];
       store_release(me, STATE(me), counter);
       light(me);
       look_at_value(me);
       if
       :: me == 0 && load(me, STATE(me)) != mem[RAISED] ->
          counter = mem[RAISED];
          store_release(me, STATE(me), counter);
          attend(me);
          look_at_value(me)
       :: true
       fi;
       counter = 0;
       store_release(me, STATE(me), 0);
       attend(me)
    :: else -> break
    od
}

#define blocks(r) (mem[STATE(r)] != 0 && mem[STATE(r)] < raised)

/* The leader's fetch_add of `awaited`: Relaxed. */
inline await_one_more() {
    d_step {
        buffered[at(LEADER, ADD)] = buffered[at(LEADER, ADD)] + 1;
        pending[LEADER] = pending[LEADER] | bit_of(ADD)
    }
}

inline await_exit(r) {
#ifdef AWAIT_RELAXED
    store(LEADER, ATTENTION(r), 1)
#else
    store_release(LEADER, ATTENTION(r), 1)
#endif
}

inline sleep() {
    store(LEADER, WAKE_ON_EXIT, 1);
    r = first;
    do
    :: r < READERS ->
       if
       :: blocks(r) -> await_one_more(); await_exit(r)
       :: else
       fi;
       r++
    :: else -> r = first; break
    od;
#ifndef NO_FENCE_BEFORE_RESCAN
    heavy();
#endif
    do
    :: r < READERS ->
#ifndef NO_RESCAN
       if
       :: !blocks(r) -> atomic {
              fenced(LEADER) ->
              mem[WAKE_ON_EXIT] = mem[WAKE_ON_EXIT] - mem[ATTENTION(r)];
              mem[ATTENTION(r)] = 0
          }
       :: else
       fi;
#endif
       r++
    :: else -> r = 0; break
    od;
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
    od
}

inline grace_period() {
    raised = load(LEADER, RAISED) + 1;
#ifdef COUNTER_BEFORE_FENCE
    store(LEADER, RAISED, raised);
#endif
#ifndef NO_FENCE
    heavy();
#endif
    store(LEADER, RAISED, raised);
    do
    :: first < READERS ->
       if
       :: atomic { !blocks(first) -> first++ }
       :: else -> sleep(); break
       fi
    :: else -> break
    od;
    first = 0;
    invariant(2, mem[WAKE_ON_EXIT] == 0 && mem[ATTENTION(0)] == 0 && mem[ATTENTION(1)] == 0)
}

proctype leader() {
    byte raised, asked, first, r, left, version;
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
    atomic { mem[RAISED] = 1; run leader(); run reader(0); if :: READERS > 1 -> run reader(1) :: else fi }
}
