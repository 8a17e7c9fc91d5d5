/* A grace period, and readers that enter, repin and leave: stillpoint/src/readers/sections/scan.rs and reader.rs.
 *
 *   grace_period()  ThreadReaders::try_drain, scan and wait_for_readers
 *   reader          Reader::try_enter, repin and leave
 *   exit_slow()     Reader::check_exit_flags, ThreadReaders::exit_slow, count_down
 *
 * The leader publishes versions 1, 2, ... of a value, and frees the previous version after a grace period. Leaders
 * come one after another (shared_seq.pml), so there is one.
 *
 * Invariants:
 *   1. No reader uses a version that has been freed.
 *   2. When a grace period ends, no request is outstanding, and `awaited` is 0.
 *   3. All threads run to their end (invalid end state).
 *
 * A reader may be late with its wake-up, and end a sleep of the next grace period. The leader checks the count again.
 *
 * With FALLBACK=1 the model is that of the backends without interrupts: the light fence of an entry is a full fence, a
 * heavy fence is one of the leader alone, and an exit has no fence. The leader's sleep ends by itself at some moments,
 * and once more when nothing else can happen. Then all stores are visible, so one rescan must suffice.
 *
 * Beyond weakly ordered stores:
 *
 *   - The memory executes the leader's additions to `awaited`, whose results the leader does not use, at a later
 *     time. `ADD` is what has not been added yet.
 *   - The first reader's load of the pointer may be early: `guess` is the value that it found. The processor may
 *     guess at any moment, and discards the guess when an interrupt lands, because later instructions are then
 *     fetched again. A compiler may move the load up to the last light fence, and no interrupt undoes that. An
 *     acquire discards both: later loads come after it.
 *   - Taking a request does not order earlier stores.
 *
 * The first reader repins its sections, or does not. The second is there to be counted.
 *
 * Abstracted: nested sections (only the outermost has an effect); readers that register and unregister; spinning,
 * which only delays the check of the scan; the timer for reports. */

#ifndef FALLBACK
#define FALLBACK 0
#endif

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
#define GP_SEEN(r) (r)
#define EXIT_FLAGS(r) (2 + (r))  /* WAKE_ON_EXIT, or 0 */
#define VALUE 4
#define GP_COUNTER 5                /* the counter */
#define AWAITED 6
#define ADD 7
#define VARIABLES 8
#define COUNTER(v) 0

#include "store_buffers.pml"
#include "invariant.pml"

#define NOTHING 0
#define MACHINE 1
#define COMPILER 2

byte guessed;               /* NOTHING, or by MACHINE or COMPILER */
byte guess;
bit asleep;                 /* the leader */
byte freed;                 /* versions below this */

/* The last version needs no guess: a load that is not early finds the same. */
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
    :: drain(0, GP_SEEN(0))
    :: drain(1, GP_SEEN(1))
    :: drain(LEADER, VALUE)
    :: drain(LEADER, GP_COUNTER)
    :: drain(LEADER, AWAITED)
    :: drain(LEADER, EXIT_FLAGS(0))
    :: drain(LEADER, EXIT_FLAGS(1))
    :: atomic {
           (pending[LEADER] & bit_of(ADD)) && !(pending[LEADER] & bit_of(AWAITED)) ->
           mem[AWAITED] = mem[AWAITED] + buffered[at(LEADER, ADD)];
           buffered[at(LEADER, ADD)] = 0;
           pending[LEADER] = pending[LEADER] & ~bit_of(ADD)
       }
    :: guess_value(MACHINE)
    od
}

/* With a heavy fence of its own. */
inline heavy() {
#if FALLBACK
    fenced(LEADER)
#else
    atomic { fenced(LEADER) -> asked = bit_of(0) | bit_of(1) }
    do
    :: interrupt(0)
    :: interrupt(1)
    :: asked == 0 -> break
    od
#endif
}

inline interrupt(r) {
    atomic {
        (asked & bit_of(r)) && fenced(r) ->
        asked = asked & ~bit_of(r);
        if :: r == 0 && guessed == MACHINE -> forget() :: else fi
    }
}

/* The reader's next load of the pointer, and the use of the value. */
inline use_value(r) {
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

/* No effect on the processor. */
inline light(r) {
    atomic { if :: r == 0 && guessed == COMPILER -> forget() :: else fi }
}

/* The light fence of Reader::try_enter. */
inline light_on_entry(r) {
#if FALLBACK
    atomic { fenced(r) -> if :: r == 0 -> forget() :: else fi }
#else
    light(r)
#endif
}

/* Reader::check_exit_flags, ThreadReaders::exit_slow */
inline exit_slow(r) {
    light(r);
    if :: r == 0 -> if :: guess_value(COMPILER) :: true fi :: else fi;
    if
    :: mem[EXIT_FLAGS(r)] ->
#ifdef REQUEST_TAKEN_TWICE
       taken = mem[EXIT_FLAGS(r)];
       mem[EXIT_FLAGS(r)] = 0;
#else
       atomic { taken = mem[EXIT_FLAGS(r)]; mem[EXIT_FLAGS(r)] = 0 }
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
       counter = mem[GP_COUNTER];
       store_release(me, GP_SEEN(me), counter);
       light_on_entry(me);
       use_value(me);
       if
       :: me == 0 && load(me, GP_SEEN(me)) != mem[GP_COUNTER] ->
          counter = mem[GP_COUNTER];
#ifndef REPIN_RELAXED
          atomic { forget() };
#endif
          store_release(me, GP_SEEN(me), counter);
          exit_slow(me);
          use_value(me)
       :: true
       fi;
       counter = 0;
       store_release(me, GP_SEEN(me), 0);
       exit_slow(me)
    :: else -> break
    od
}

#define blocks(r) (mem[GP_SEEN(r)] != 0 && mem[GP_SEEN(r)] < counter)

/* The leader's fetch_add of `awaited`: Relaxed. */
inline add_awaited() {
    d_step {
        buffered[at(LEADER, ADD)] = buffered[at(LEADER, ADD)] + 1;
        pending[LEADER] = pending[LEADER] | bit_of(ADD)
    }
}

inline request_wake(r) {
#ifdef REQUEST_RELAXED
    store(LEADER, EXIT_FLAGS(r), 1)
#else
    store_release(LEADER, EXIT_FLAGS(r), 1)
#endif
}

/* ThreadReaders::rescan */
inline rescan() {
    r = first;
    do
    :: r < READERS ->
       if
       :: !blocks(r) -> atomic {
              fenced(LEADER) ->
              mem[AWAITED] = mem[AWAITED] - mem[EXIT_FLAGS(r)];
              mem[EXIT_FLAGS(r)] = 0
          }
       :: else
       fi;
       r++
    :: else -> r = 0; break
    od
}

inline sleep() {
    store(LEADER, AWAITED, 1);
    r = first;
    do
    :: r < READERS ->
       if
       :: blocks(r) -> add_awaited(); request_wake(r)
       :: else
       fi;
       r++
    :: else -> r = 0; break
    od;
#ifndef NO_FENCE_BEFORE_RESCAN
    heavy();
#endif
#ifndef NO_RESCAN
    rescan();
#endif
    atomic { fenced(LEADER) -> mem[AWAITED] = mem[AWAITED] - 1; left = mem[AWAITED] }
    do
    :: left != 0 ->
       /* futex_wait: the kernel compares under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
       asleep = 1;
#else
       asleep = (mem[AWAITED] == left);
#endif
#if FALLBACK
       if
       :: !asleep
#ifndef SLEEP_WITHOUT_TIMEOUT
       :: atomic { early < 2 -> early++; asleep = 0 }
       :: atomic { timeout && !quiet -> quiet = 1; asleep = 0 }
#endif
       fi;
#ifndef NO_RESCAN_AFTER_TIMEOUT
       rescan();
#endif
#else
       !asleep;
#endif
#ifdef WOKEN_IS_ENOUGH
       break
#endif
       left = mem[AWAITED]
    :: else -> break
    od;
    early = 0;
    quiet = 0
}

inline grace_period() {
    counter = load(LEADER, GP_COUNTER) + 1;
#ifdef COUNTER_BEFORE_FENCE
    store(LEADER, GP_COUNTER, counter);
#endif
#ifndef NO_FENCE
    heavy();
#endif
    store(LEADER, GP_COUNTER, counter);
    do
    :: first < READERS ->
       if
       :: atomic { !blocks(first) -> first++ }
       :: else -> sleep(); break
       fi
    :: else -> break
    od;
    first = 0;
    invariant(2, mem[AWAITED] == 0 && mem[EXIT_FLAGS(0)] == 0 && mem[EXIT_FLAGS(1)] == 0)
}

proctype leader() {
    byte counter, asked, first, r, left, version, early;
    bit quiet;
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
    atomic { mem[GP_COUNTER] = 1; run leader(); run reader(0); if :: READERS > 1 -> run reader(1) :: else fi }
}
