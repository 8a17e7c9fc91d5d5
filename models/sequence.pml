/* Callers who share turns: stillpoint/src/sequence.rs.
 *
 *   ask()       Sequence::ask; finish(), fail(): Lead::finish, Lead::drop
 *   wait_for()  Sequence::wait_for, with begin() and sleep()
 *   try_lead()  Sequence::try_lead, by which an owner leads a turn and never waits
 *
 * The word is n, NEXT, THIS and RUNNING, as there. Before a caller asks, he raises DATA(me). A turn takes note of these
 * as soon as it has begun, as it need not look again, and stores its number to EFFECT before it is completed.
 *
 * Invariants:
 *   1. Who is told that he has been served was served by a turn that knew what he had done before he asked.
 *   2. He sees what it did.
 *   3. One leader at a time.
 *   4. Every caller returns: nobody sleeps for ever (invalid end state).
 *
 * Abstracted: spinning, which only delays the look at the word that comes after it. There are no wake-ups for no reason,
 * which would end sleeps that nobody else ends. Loads take effect in program order, so of a read-modify-write's ordering
 * only the release can be missed here: for the acquires see docs/proof.md. */

#ifndef FAILS
#define FAILS 0             /* whether turns may fail */
#endif
#ifndef OWNERS
#define OWNERS 0            /* callers who may try_lead instead */
#endif
#ifndef ASKS
#define ASKS 2              /* of each caller */
#endif
#ifndef MORE
#define MORE 0              /* callers who ask once more */
#endif

#define CALLERS 3
#define THREADS CALLERS
#define WORD 0
#define EFFECT 1            /* the number of the last turn that was completed */
#define DATA(c) (2 + (c))
#define VARIABLES 5
#define COUNTER(v) ((v) != WORD)

#define RUNNING 1
#define THIS 2
#define NEXT 4
#define SHIFT 3

#include "store_buffers.pml"
#include "invariant.pml"

byte waits[CALLERS];        /* the futex: the turn this caller sleeps for, 0 if he is awake */
bit leads;                  /* somebody does */
byte known[CALLERS];        /* DATA that the turn took note of */
byte served[CALLERS];       /* DATA that completed turns took note of */

active proctype memory() {
end:
    do
    :: drain(0, DATA(0))
    :: drain(1, DATA(1))
    :: drain(2, DATA(2))
    :: drain(0, EFFECT)
    :: drain(1, EFFECT)
    :: drain(2, EFFECT)
#ifdef BEGIN_BY_STORE
    :: drain(0, WORD)
    :: drain(1, WORD)
    :: drain(2, WORD)
#endif
    od
}

/* The turn that serves who asks in this state of the word. */
#ifdef ASK_JOINS_RUNNING_TURN
#define next_turn(word) (((word) >> SHIFT) + 1)
#else
#define next_turn(word) (((word) >> SHIFT) + 1 + ((word) & RUNNING))
#endif

inline ask(me) {
    atomic {
#if !defined(ASK_BY_LOAD) && !defined(ASK_RELAXED)
        fenced(me) ->
#endif
        target = next_turn(mem[WORD])
    }
}

/* Only if the word is still `word`; else `leading` stays 0. */
inline begin(me) {
    atomic {
#ifdef BEGIN_BY_STORE
        store(me, WORD, word | RUNNING);
        leading = 1;
#else
        fenced(me) ->
        leading = (mem[WORD] == word);
        mem[WORD] = (leading -> word | RUNNING : mem[WORD]);
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

inline forget_turn() {
    leads = 0;
    known[0] = 0;
    known[1] = 0;
    known[2] = 0
}

/* futex_wake of all who wait for a turn for which this is true, or of one of them. */
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
#define for_this(turn) ((turn) == completed)
#ifdef LEADER_OF_ANY_MASK
#define for_next(turn) true
#else
#define for_next(turn) ((turn) == completed + 1)
#endif
#define any(turn) true

#ifdef NEXT_FORGOTTEN
#define after(word) ((((word) >> SHIFT) + 1) << SHIFT)
#else
#define after(word) (((((word) >> SHIFT) + 1) << SHIFT) | ((word) & NEXT -> THIS : 0))
#endif

inline finish(me) {
    store(me, EFFECT, (mem[WORD] >> SHIFT) + 1);
    do
    :: word = load(me, WORD);
       atomic {
#ifdef FINISH_RELAXED
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
              forget_turn();
              break
           :: else
           fi
       }
    od;
#ifndef NO_LEADER_WOKEN
    if :: word & NEXT -> wake_one(for_next) :: else fi;
#endif
#ifndef SERVED_NOT_WOKEN
    if :: word & THIS -> wake_all(for_this) :: else fi
#endif
}

/* The turn failed. */
inline fail(me) {
    do
    :: word = load(me, WORD);
       atomic {
           fenced(me) ->
           if
           :: mem[WORD] == word ->
              mem[WORD] = word & ~(RUNNING | THIS | NEXT);
#ifdef FAILURE_COUNTS
              mem[WORD] = mem[WORD] + (1 << SHIFT);
#endif
              forget_turn();
              break
           :: else
           fi
       }
    od;
    if
#ifndef FAILURE_NOT_TOLD
#ifdef FAILURE_WAKES_ONE
    :: word & (THIS | NEXT) -> wake_one(any)
#else
    :: word & (THIS | NEXT) -> wake_all(any)
#endif
#endif
    :: else
    fi
}

#ifdef NEXT_TAKEN_FOR_THIS
#define mark(word) ((word) | THIS)
#else
#define mark(word) ((word) | (target == ((word) >> SHIFT) + 1 -> THIS : NEXT))
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
       :: !(word & RUNNING) ->
          begin(me);
          if
          :: leading -> finish(me)
          :: leading && FAILS -> fail(me); break
          :: else
          fi;
          leading = 0
       :: else -> sleep(me)
       fi
    od
}

inline try_lead(me) {
    word = load(me, WORD);
    if
    :: !(word & (RUNNING | THIS | NEXT)) ->
       begin(me);
       if
       :: leading -> finish(me)
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
          ask(me);
          wait_for(me)
       :: me < OWNERS -> try_lead(me)
       fi;
       atomic { leading = 0; word = 0; target = 0 }
    :: else -> break
    od
}

init {
    atomic { run caller(0); run caller(1); run caller(2) }
}
