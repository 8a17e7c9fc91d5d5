/* Callers that share rounds: stillpoint/src/sync/shared_seq.rs.
 *
 *   snapshot()  SharedSeq::snapshot
 *   wait_for()  SharedSeq::wait_for, with start() and sleep()
 *   end_round() Leader::end; fail(): Leader::drop
 *   try_run()   SharedSeq::try_run, by which an owner leads a round and never waits
 *
 * The word is n, WAITERS_NEXT, WAITERS_THIS and IN_PROGRESS, as in the source. Before a caller takes a snapshot, it
 * increments DATA(me). A round records these as soon as it has started, because it need not read them again. It
 * stores its number to EFFECT before it ends.
 *
 * Invariants:
 *   1. A caller that returns was served by a round that knew what the caller had done before its snapshot.
 *   2. The caller sees what that round did.
 *   3. There is at most one leader at a time.
 *   4. Every caller returns: no thread sleeps for ever (invalid end state).
 *
 * Abstracted: spinning, which only delays the check of the word that comes after it. There are no spurious wake-ups,
 * which would end sleeps that no other thread ends. Loads take effect in program order, so of a read-modify-write's
 * ordering only the release can be missed here. `ci/mutants.sh` refutes the acquires. */

#ifndef FAILS
#define FAILS 0             /* whether rounds may fail */
#endif
#ifndef OWNERS
#define OWNERS 0            /* callers that may call try_run instead */
#endif
#ifndef ASKS
#define ASKS 2              /* requests of each caller */
#endif
#ifndef MORE
#define MORE 0              /* callers that make one more request */
#endif

#define CALLERS 3
#define THREADS CALLERS
#define WORD 0
#define EFFECT 1            /* the number of the last round that was completed */
#define DATA(c) (2 + (c))
#define VARIABLES 5
#define COUNTER(v) ((v) != WORD)

#define IN_PROGRESS 1
#define WAITERS_THIS 2
#define WAITERS_NEXT 4
#define SHIFT 3

#include "store_buffers.pml"
#include "invariant.pml"

byte waits[CALLERS];        /* the futex: the round that this caller sleeps for, 0 if it is awake */
bit leads;                  /* there is a leader */
byte known[CALLERS];        /* DATA that the round has recorded */
byte served[CALLERS];       /* DATA that completed rounds have recorded */

active proctype memory() {
end:
    do
    :: drain(0, DATA(0))
    :: drain(1, DATA(1))
    :: drain(2, DATA(2))
    :: drain(0, EFFECT)
    :: drain(1, EFFECT)
    :: drain(2, EFFECT)
#ifdef START_BY_STORE
    :: drain(0, WORD)
    :: drain(1, WORD)
    :: drain(2, WORD)
#endif
    od
}

/* The round that serves a snapshot in this state of the word. */
#ifdef SNAPSHOT_JOINS_ROUND
#define round_for(word) (((word) >> SHIFT) + 1)
#else
#define round_for(word) (((word) >> SHIFT) + 1 + ((word) & IN_PROGRESS))
#endif

inline snapshot(me) {
    atomic {
#if !defined(SNAPSHOT_BY_LOAD) && !defined(SNAPSHOT_RELAXED)
        fenced(me) ->
#endif
        target = round_for(mem[WORD])
    }
}

/* Only if the word is still `word`; else `leading` stays 0. */
inline start(me) {
    atomic {
#ifdef START_BY_STORE
        store(me, WORD, word | IN_PROGRESS);
        leading = 1;
#else
        fenced(me) ->
        leading = (mem[WORD] == word);
        mem[WORD] = (leading -> word | IN_PROGRESS : mem[WORD]);
#endif
        if
        :: leading ->
           invariant(3, !leads);
           leads = 1;
           known[0] = load(me, DATA(0));
           known[1] = load(me, DATA(1));
           known[2] = load(me, DATA(2))
        :: else
        fi
    }
}

inline forget_round() {
    leads = 0;
    known[0] = 0;
    known[1] = 0;
    known[2] = 0
}

/* futex_wake of all threads that wait for a round for which this is true, or of one of them. */
#define wake_all(which) d_step { \
        waits[0] = (which(waits[0]) -> 0 : waits[0]); \
        waits[1] = (which(waits[1]) -> 0 : waits[1]); \
        waits[2] = (which(waits[2]) -> 0 : waits[2]) \
    }
#define wake_one(which) atomic { \
        if \
        :: waits[0] && which(waits[0]) -> waits[0] = 0 \
        :: waits[1] && which(waits[1]) -> waits[1] = 0 \
        :: waits[2] && which(waits[2]) -> waits[2] = 0 \
        :: else \
        fi \
    }
#define completed ((word >> SHIFT) + 1)
#define for_this(round) ((round) == completed)
#ifdef LEADER_OF_ANY_MASK
#define for_next(round) true
#else
#define for_next(round) ((round) == completed + 1)
#endif
#define any(round) true

#ifdef NEXT_FORGOTTEN
#define after(word) ((((word) >> SHIFT) + 1) << SHIFT)
#else
#define after(word) (((((word) >> SHIFT) + 1) << SHIFT) | ((word) & WAITERS_NEXT -> WAITERS_THIS : 0))
#endif

inline end_round(me) {
    store(me, EFFECT, (mem[WORD] >> SHIFT) + 1);
    do
    :: word = load(me, WORD);
       atomic {
#ifdef END_RELAXED
           true ->
#else
           fenced(me) ->
#endif
           if
           :: mem[WORD] == word ->
              mem[WORD] = after(word);
              served[0] = known[0];
              served[1] = known[1];
              served[2] = known[2];
              forget_round();
              break
           :: else
           fi
       }
    od;
#ifndef NO_LEADER_WOKEN
    if :: word & WAITERS_NEXT -> wake_one(for_next) :: else fi;
#endif
#ifndef SERVED_NOT_WOKEN
    if :: word & WAITERS_THIS -> wake_all(for_this) :: else fi
#endif
}

/* The round failed. */
inline fail(me) {
    do
    :: word = load(me, WORD);
       atomic {
           fenced(me) ->
           if
           :: mem[WORD] == word ->
              mem[WORD] = word & ~(IN_PROGRESS | WAITERS_THIS | WAITERS_NEXT);
#ifdef FAILURE_COUNTS
              mem[WORD] = mem[WORD] + (1 << SHIFT);
#endif
              forget_round();
              break
           :: else
           fi
       }
    od;
    if
#ifndef FAILURE_NOT_REPORTED
#ifdef FAILURE_WAKES_ONE
    :: word & (WAITERS_THIS | WAITERS_NEXT) -> wake_one(any)
#else
    :: word & (WAITERS_THIS | WAITERS_NEXT) -> wake_all(any)
#endif
#endif
    :: else
    fi
}

#ifdef NEXT_TAKEN_FOR_THIS
#define mark(word) ((word) | WAITERS_THIS)
#else
#define mark(word) ((word) | (target == ((word) >> SHIFT) + 1 -> WAITERS_THIS : WAITERS_NEXT))
#endif

inline sleep(me) {
    marked = mark(word);
    if
    :: word != marked -> atomic { /* Relaxed */
           if :: mem[WORD] == word -> mem[WORD] = marked :: else -> marked = 0 fi
       }
    :: else
    fi;
    /* futex_wait: the kernel compares under the lock that wakers take. */
    if
    :: marked ->
#ifdef SLEEP_WITHOUT_COMPARING
       atomic { fenced(me) -> waits[me] = target }
#else
       atomic { fenced(me) -> waits[me] = (mem[WORD] == marked -> target : 0) }
#endif
       waits[me] == 0
    :: else
    fi;
    marked = 0
}

#define is_done(target) ((word >> SHIFT) >= target)

inline wait_for(me) {
    do
    :: atomic {
           word = load(me, WORD);
           if
           :: is_done(target) ->
              invariant(1, served[me] >= mine);
              invariant(2, load(me, EFFECT) >= target);
              break
           :: else
           fi
       }
       if
       :: !(word & IN_PROGRESS) ->
          start(me);
          if
          :: leading -> end_round(me)
          :: leading && FAILS -> fail(me); break
          :: else
          fi;
          leading = 0
       :: else -> sleep(me)
       fi
    od
}

inline try_run(me) {
    word = load(me, WORD);
    if
    :: !(word & (IN_PROGRESS | WAITERS_THIS | WAITERS_NEXT)) ->
       start(me);
       if
       :: leading -> end_round(me)
       :: leading && FAILS -> fail(me)
       :: else
       fi
    :: else
    fi
}

proctype caller(byte me) {
    byte word, marked, target, mine, times;
    bit leading;
    do
    :: times < ASKS + (me < MORE) ->
       times++;
       if
       :: atomic { mine++; store(me, DATA(me), mine) }
          snapshot(me);
          wait_for(me)
       :: me < OWNERS -> try_run(me)
       fi;
       atomic { leading = 0; word = 0; target = 0 }
    :: else -> break
    od
}

init {
    atomic { run caller(0); run caller(1); run caller(2) }
}
