/* The sleep of a leader that waits for inlined readers and for readers that call functions:
 * dropins/liburcu/core/src/inlined/mod.rs.
 *
 *   grace_period()    InlinedReaders::try_drain, scan and begin_pass
 *   sleep()           InlinedReaders::wait_for_pass, arm, sleep and end_pass
 *   leave_function()  InlinedReaders::leave, leave_slow and count_down; with QSBR=1 InlinedReaders::report
 *   come_online()     InlinedReaders::online
 *   leave_inlined()   what liburcu's headers compile into programs
 *
 * Each reader leaves each section in one of the two ways. The leader publishes versions 1, 2, ... of a value, and frees
 * the previous version after a grace period.
 *
 * With QSBR=1 the model is that of the flavor qsbr. A section ends with a report, which may store an old counter, or 0:
 * then the reader is offline, and comes online again. At most SECTIONS sections end like this. At the end of the
 * next one the reader goes offline and stays so. All fences are full ones.
 *
 * Invariants:
 *   1. No reader uses a version that has been freed.
 *   2. When a grace period ends, no request is outstanding, and `awaited` is 0.
 *   3. All threads run to their end (invalid end state).
 *
 * A wake-up may be late, and end a sleep of the next grace period: the leader arms the futex again. So it does when a
 * timer ends the sleep.
 *
 * Without QSBR the stores of a reader drain in program order, as on x86-64. Abstracted: nested sections; readers that
 * register and unregister; spinning; numbers that are used up, which loom covers. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 2
#endif
#ifndef SECTIONS
#define SECTIONS 1          /* of each reader */
#endif
#ifndef QSBR
#define QSBR 0
#endif
#define READERS 2

#define LEADER 2
#define THREADS 3
#define GP_SEEN(r) (r)      /* 0: outside a section, or offline */
#define WAKE(r) (2 + (r))   /* the leader's request, or 0 */
#define VALUE 4
#define GP_COUNTER 5
#define FUTEX 6
#define AWAITED 7
#if QSBR
#define WAITING(r) (8 + (r))
#define VARIABLES 10
#else
#define VARIABLES 8
#endif
#define COUNTER(v) 0

#define ARMED 1

#include "store_buffers.pml"
#include "invariant.pml"

bit asleep;                 /* the leader */
byte freed;                 /* versions below this */

active proctype memory() {
end:
    do
    :: drain(0, GP_SEEN(0))
    :: drain(0, FUTEX)
    :: drain(1, GP_SEEN(1))
    :: drain(1, FUTEX)
    :: drain(LEADER, VALUE)
    :: drain(LEADER, GP_COUNTER)
    :: drain(LEADER, AWAITED)
    :: drain(LEADER, FUTEX)
    :: drain(LEADER, WAKE(0))
    :: drain(LEADER, WAKE(1))
#if QSBR
    :: drain(0, WAITING(0))
    :: drain(1, WAITING(1))
    :: drain(LEADER, WAITING(0))
    :: drain(LEADER, WAITING(1))
#endif
    od
}

/* The leader's fence. */
inline fence() {
#if QSBR
    fenced(LEADER);
#else
    atomic { fenced(LEADER) -> asked = bit_of(0) | bit_of(1) }
    do
    :: answer(asked, 0)
    :: answer(asked, 1)
    :: asked == 0 -> break
    od
#endif
}

/* The store drains before the system call. */
inline wake(r) {
    store_release(r, FUTEX, 0);
    atomic { fenced(r) -> asleep = 0 }
}

/* The reader's fence has been executed. */
#if QSBR
#define reader_fenced(r) fenced(r)
#else
#define reader_fenced(r) true   /* light fence */
#endif

inline check_futex(r) {
    if
#ifndef INLINED_DOES_NOT_WAKE
    :: reader_fenced(r) && load(r, FUTEX) == ARMED -> wake(r)
    :: reader_fenced(r) && load(r, FUTEX) != ARMED
#else
    :: reader_fenced(r)
#endif
    fi
}

inline leave_inlined(r, seen) {
    store_release(r, GP_SEEN(r), seen);
#if QSBR
    if
    :: reader_fenced(r) && mem[WAITING(r)] ->
       store(r, WAITING(r), 0);
       check_futex(r)
    :: reader_fenced(r) && !mem[WAITING(r)]
    fi
#else
    check_futex(r)
#endif
}

inline leave_function(r, seen) {
    store_release(r, GP_SEEN(r), seen);
    if
    :: reader_fenced(r) && mem[WAKE(r)] ->
#ifdef FUNCTION_CLEARS_WAITING
       store(r, WAITING(r), 0);
#endif
#ifdef REQUEST_TAKEN_TWICE
       taken = mem[WAKE(r)];
       mem[WAKE(r)] = 0;
#else
       atomic { taken = mem[WAKE(r)]; mem[WAKE(r)] = 0 }
#endif
       if :: taken -> count_down(r) :: else fi;
       taken = 0
    :: reader_fenced(r) && !mem[WAKE(r)]
    fi
}

inline count_down(r) {
    atomic {
        fenced(r) ->
        mem[AWAITED] = mem[AWAITED] - 1;
        last = (mem[AWAITED] == 0)
    }
    if
#ifndef NO_WAKE_UP
    :: last -> last = 0; wake(r)
#endif
    :: else -> last = 0
    fi
}

inline leave(r, seen) {
    if
    :: leave_inlined(r, seen)
    :: leave_function(r, seen)
    fi
}

#if QSBR
inline come_online(r) {
    store(r, GP_SEEN(r), counter);
#ifndef NO_FENCE_ONLINE
    fenced(r)
#endif
}

proctype reader(byte me) {
    byte counter, sections, version;
    bit taken, last;
    do
    :: atomic { sections <= SECTIONS -> version = mem[VALUE] }
       counter = mem[GP_COUNTER];
       atomic {
           invariant(1, version >= freed);
           version = 0;
           if
           :: sections < SECTIONS -> sections++
           :: sections < SECTIONS -> sections++; counter = 0
           :: sections = SECTIONS + 1; counter = 0
           fi
       }
       leave(me, counter);
       if
       :: atomic { counter == 0 && sections <= SECTIONS -> counter = mem[GP_COUNTER] }
          come_online(me)
       :: else
       fi
    :: else -> break
    od
}
#else
proctype reader(byte me) {
    byte counter, sections;
    bit taken, last;
    do
    :: sections < SECTIONS ->
       sections++;
       counter = mem[GP_COUNTER];
       store_release(me, GP_SEEN(me), counter);
       /* light fence */
       counter = mem[VALUE];
       atomic { invariant(1, counter >= freed); counter = 0 }
       leave(me, 0)
    :: else -> break
    od
}
#endif

#define blocks(r) (mem[GP_SEEN(r)] != 0 && mem[GP_SEEN(r)] != counter)

/* The reader has left: takes back the request to it. */
inline pass(r) {
    atomic {
        fenced(LEADER) ->
        mem[AWAITED] = mem[AWAITED] - mem[WAKE(r)];
        mem[WAKE(r)] = 0;
        passed[r] = 1
    }
}

inline arm() {
#ifdef FENCE_BEFORE_ARMING
    fence();
#endif
#ifndef WAITING_BEFORE_ARMED
    store(LEADER, FUTEX, ARMED);
#endif
    r = 0;
    do
    :: r < READERS && !passed[r] ->
       if
       :: blocks(r) ->
#if QSBR
#ifdef WAITING_RELAXED
          store(LEADER, WAITING(r), 1);
#else
          store_release(LEADER, WAITING(r), 1);
#endif
#endif
          if
          :: !load(LEADER, WAKE(r)) ->
             atomic { fenced(LEADER) -> mem[AWAITED] = mem[AWAITED] + 1 }
             store_release(LEADER, WAKE(r), 1)
          :: else
          fi
       :: else -> pass(r)
       fi;
       r++
    :: r < READERS && passed[r] -> r++
    :: else -> r = 0; break
    od;
#ifdef WAITING_BEFORE_ARMED
    fenced(LEADER);
    store(LEADER, FUTEX, ARMED);
#endif
    if
    :: passed[0] && passed[1]
    :: else ->
#ifndef NO_FENCE_BEFORE_RESCAN
#ifndef FENCE_BEFORE_ARMING
       fence();
#endif
#endif
       do
       :: r < READERS ->
#ifndef NO_RESCAN
          if
          :: !passed[r] && !blocks(r) -> pass(r)
          :: else
          fi;
#endif
          r++
       :: else -> r = 0; break
       od
    fi
}

inline sleep() {
    store(LEADER, AWAITED, 1);
    do
    :: true ->
       arm();
       /* Returns the leader's share. */
       atomic { fenced(LEADER) -> mem[AWAITED] = mem[AWAITED] - 1; left = mem[AWAITED] }
#ifndef SHARE_NOT_CHECKED
       if :: left == 0 -> break :: else fi;
#endif
       if
       :: true
          /* A timer ends the sleep at once. One that ends it later would hide a lost wake-up. */
       :: load(LEADER, FUTEX) == ARMED ->
          /* futex_wait: the kernel compares under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
          asleep = 1;
#else
          asleep = (mem[FUTEX] == ARMED);
#endif
          !asleep
       :: else
       fi;
#ifdef WOKEN_IS_ENOUGH
       break
#endif
       /* Takes the share again, unless all have counted down. */
       atomic {
           fenced(LEADER) ->
           left = mem[AWAITED];
           if :: left != 0 -> mem[AWAITED] = mem[AWAITED] + 1 :: else fi
       }
       if :: left == 0 -> break :: else fi
    od;
    store(LEADER, FUTEX, 0)
}

inline grace_period() {
#ifndef NO_FENCE
    fence();
#endif
    counter = load(LEADER, GP_COUNTER) + 1;
    store(LEADER, GP_COUNTER, counter);
    passed[0] = 0;
    passed[1] = 0;
    if :: atomic { !blocks(0) -> passed[0] = 1 } :: else fi;
    if :: atomic { !blocks(1) -> passed[1] = 1 } :: else fi;
    if
    :: !passed[0] || !passed[1] -> sleep()
    :: else
    fi;
    left = 0;
    invariant(2, mem[AWAITED] == 0 && mem[WAKE(0)] == 0 && mem[WAKE(1)] == 0)
}

proctype leader() {
    byte counter, asked, r, left, version;
    bit passed[READERS];
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
    atomic {
        mem[GP_COUNTER] = 1;
#if QSBR
        mem[GP_SEEN(0)] = 1;
        mem[GP_SEEN(1)] = 1;
#endif
        run leader();
        run reader(0);
        run reader(1)
    }
}
