/* The sleep of a leader that waits for inlined reports of the flavor qsbr: stillpoint/src/readers/inlined/mod.rs.
 *
 *   grace_period()  InlinedReaders::try_drain, scan and begin_pass
 *   sleep()         InlinedReaders::wait_for_pass, arm, sleep and end_pass
 *   report()        what liburcu's headers compile into programs
 *
 * Each reader is online, makes reports, and goes offline. A report may store an old counter. The leader publishes
 * versions 1, 2, ... of a value, and frees the previous version after a grace period.
 *
 * Invariants:
 *   1. No reader uses a version that has been freed.
 *   2. All threads run to their end (invalid end state).
 *
 * Abstracted: readers that call functions, which inlined.pml has; spinning; the sleep's timer, which would hide a lost
 * wake-up. */

#ifndef GRACE_PERIODS
#define GRACE_PERIODS 2
#endif
#ifndef REPORTS
#define REPORTS 1           /* of each reader */
#endif
#define READERS 2

#define LEADER 2
#define THREADS 3
#define GP_SEEN(r) (r)      /* 0: offline */
#define WAITING(r) (2 + (r))
#define VALUE 4
#define GP_COUNTER 5
#define FUTEX 6
#define VARIABLES 7
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
    :: drain(0, WAITING(0))
    :: drain(0, FUTEX)
    :: drain(1, GP_SEEN(1))
    :: drain(1, WAITING(1))
    :: drain(1, FUTEX)
    :: drain(LEADER, VALUE)
    :: drain(LEADER, GP_COUNTER)
    :: drain(LEADER, FUTEX)
    :: drain(LEADER, WAITING(0))
    :: drain(LEADER, WAITING(1))
    od
}

inline report(seen) {
    store(me, GP_SEEN(me), seen);
    fenced(me);
    if
    :: mem[WAITING(me)] ->
       store(me, WAITING(me), 0);
       fenced(me);
       if
#ifndef INLINED_DOES_NOT_WAKE
       :: mem[FUTEX] == ARMED ->
          store(me, FUTEX, 0);
          atomic { fenced(me) -> asleep = 0 }
#endif
       :: else
       fi
    :: else
    fi
}

proctype reader(byte me) {
    byte counter, reports, version;
    do
    :: reports <= REPORTS ->
       version = mem[VALUE];
       counter = mem[GP_COUNTER];
       atomic { invariant(1, version >= freed); version = 0 }
       if
       :: reports < REPORTS -> report(counter)
       :: else -> report(0)
       fi;
       reports++
    :: else -> break
    od
}

#define blocks(r) (mem[GP_SEEN(r)] != 0 && mem[GP_SEEN(r)] != counter)

inline request() {
    r = 0;
    do
    :: r < READERS && !passed[r] ->
       if
       :: blocks(r) -> store_release(LEADER, WAITING(r), 1)
       :: else -> passed[r] = 1
       fi;
       r++
    :: r < READERS && passed[r] -> r++
    :: else -> r = 0; break
    od
}

inline arm() {
#ifdef WAITING_BEFORE_ARMED
    request();
    fenced(LEADER);
#endif
    store(LEADER, FUTEX, ARMED);
#ifndef WAITING_BEFORE_ARMED
    request();
#endif
    if
    :: passed[0] && passed[1]
    :: else ->
#ifndef NO_FENCE_BEFORE_RESCAN
       fenced(LEADER);
#endif
       do
       :: r < READERS ->
#ifndef NO_RESCAN
          if
          :: !blocks(r) -> passed[r] = 1
          :: else
          fi;
#endif
          r++
       :: else -> r = 0; break
       od
    fi
}

inline sleep() {
    do
    :: !passed[0] || !passed[1] ->
       arm();
       if
       :: (!passed[0] || !passed[1]) && load(LEADER, FUTEX) == ARMED ->
          /* futex_wait: the kernel compares under the lock that wakers take. */
          atomic { fenced(LEADER) -> asleep = (mem[FUTEX] == ARMED) }
          !asleep
       :: else
       fi
    :: else -> break
    od;
    store(LEADER, FUTEX, 0)
}

inline grace_period() {
    fenced(LEADER);
    counter = load(LEADER, GP_COUNTER) + 1;
    store(LEADER, GP_COUNTER, counter);
    passed[0] = 0;
    passed[1] = 0;
    if :: atomic { !blocks(0) -> passed[0] = 1 } :: else fi;
    if :: atomic { !blocks(1) -> passed[1] = 1 } :: else fi;
    sleep()
}

proctype leader() {
    byte counter, r, version;
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
        mem[GP_SEEN(0)] = 1;
        mem[GP_SEEN(1)] = 1;
        run leader();
        run reader(0);
        run reader(1)
    }
}
