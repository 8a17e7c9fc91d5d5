/* The queued lock (`src/lock`): who sleeps, who wakes, and who is the head. The word and the states of the nodes are as in the
 * source; each atomic operation on them is one step, in any interleaving. Memory is sequentially consistent here: orderings
 * are the business of the models under loom. A spinner spins as long as it likes, a quantum may be over at any
 * time, and so may the patience of those who wait for a limited time. The first BYPASSING threads find at any time that a head
 * does not come.
 *
 * Left out: links between nodes (the next one is found in one step), slots (who is being taken out of the queue waits for that
 * before it queues again), waiting outside the queue.
 *
 * THREADS threads lock ROUNDS times; the first HASTY of them wait for a limited time at first, and then without a limit.
 *
 * Invariants: 1. one thread holds the lock. 2. There is one head at most. */

#include "invariant.pml"

#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef HASTY
#define HASTY 0
#endif
#ifndef BYPASSING
#define BYPASSING 0
#endif

#define IDLE   0
#define WAIT   1
#define NPARK  2
#define HEAD   3
#define HPARK  4
#define GONE   5
#define PASSED 6

bit locked, parked, pend;
byte first, last;                   /* the queue's ends; 0 if it is empty */
byte state[THREADS + 1];
byte prev[THREADS + 1];
bit asleep[THREADS + 1];            /* in the futex of its node */
byte holders, heads;

/* The node after `from`, seen from the tail. */
inline find_next(from, next) {
    next = 0;
    if
    :: last != from ->
        next = last;
        do
        :: prev[next] != from -> next = prev[next]
        :: else -> break
        od
    :: else
    fi
}

/* What became of `first`: the queue begins with `next`. */
inline begin_with(next) {
    first = next;
    if :: next == 0 -> last = 0; pend = 0 :: else fi
}

/* Takes the lock past the queue. */
inline steal() {
    locked = 1;
    if :: first == 0 -> parked = 0 :: else fi
}

inline wake(node) { asleep[node] = 0 }

/* Sleeps on the own node unless it has changed. `over` if the time is over. */
inline futex_wait(expected) {
    atomic {
        if
#ifndef SLEEP_WITHOUT_COMPARING
        :: state[me] != expected -> skip
#endif
        :: else -> asleep[me] = 1
        fi
    }
    if
    :: atomic { !asleep[me] -> skip }
    :: atomic { hasty -> asleep[me] = 0; over = 1 }
    fi
}

/* Makes `next`, or the first after it that has not given up, the head. */
inline promote(wakes) {
    do
    :: next == 0 -> break
    :: atomic { next != 0 && state[next] == WAIT -> state[next] = HEAD; heads++; invariant(2, heads == 1) } break
    :: atomic { next != 0 && state[next] == NPARK && wakes -> state[next] = HEAD; heads++; invariant(2, heads == 1) }
       wake(next); break
    :: atomic { next != 0 && state[next] == NPARK && !wakes -> state[next] = HPARK; heads++; invariant(2, heads == 1) }
#ifndef SLEEPER_FORGOTTEN
       parked = 1;
#endif
       break
#ifdef GONE_PROMOTED
    :: next != 0 && state[next] == GONE -> break
#else
    :: atomic { next != 0 && state[next] == GONE -> state[next] = PASSED }
       atomic { find_next(first, after); begin_with(after) }
       state[next] = IDLE;
       next = after
#endif
    od
}

inline kick(node) {
    if
#ifdef KICK_WITHOUT_STATE
    :: true -> wake(node)
#else
    :: atomic { state[node] == HPARK -> state[node] = HEAD } wake(node)
    :: atomic { state[node] != HPARK -> skip }
#endif
    fi
}

proctype thread(byte me; byte rounds; bit is_hasty; bit bypasses) {
    bit over, hasty = is_hasty;
    byte next, after, kicked;

again:
    if :: rounds == 0 -> goto end :: else fi;
    over = 0;
    /* Back to a place that was given up, if it is still there. */
    atomic {
        if
        :: state[me] == GONE -> state[me] = WAIT; goto queued
        :: state[me] == PASSED -> (state[me] == IDLE)
        :: else
        fi
    }
    /* Spin. */
    do
    :: atomic { !locked && !pend -> steal() } goto taken
    :: atomic { (locked || pend) -> break }
    od;
    /* Enqueue. */
#ifdef ENQUEUE_BY_STORE
    prev[me] = last;
    atomic {
        if
        :: !locked && !pend -> steal(); goto taken
        :: else
        fi;
#else
    atomic {
        if
        :: !locked && !pend -> steal(); goto taken
        :: else
        fi;
        prev[me] = last;
#endif
        if
        :: prev[me] == 0 -> state[me] = HEAD; heads++; invariant(2, heads == 1); first = me
        :: else -> state[me] = WAIT
        fi;
        last = me
    }

queued:
    do
    :: state[me] == HEAD -> break
    :: atomic { state[me] == WAIT -> state[me] = NPARK }
    :: state[me] == NPARK ->
        if
        /* What is free can be taken, and what is kept for a head as well, which does not come. */
        :: atomic { bypasses && !locked && state[me] == NPARK -> state[me] = GONE }
#ifdef BYPASS_BLINDLY
           atomic { true -> locked = 1; pend = 0 } goto taken
#else
           if
           :: atomic { !locked -> locked = 1; pend = 0 } goto taken
           :: atomic { locked -> skip } goto again
           fi
#endif
        :: true
        fi;
        futex_wait(NPARK);
        if
        :: atomic { over && state[me] == NPARK -> state[me] = GONE } hasty = 0; goto again
        :: else
        fi
    :: state[me] == HPARK ->
        futex_wait(HPARK);
        if
        :: over && state[me] == HPARK -> state[me] = HEAD
        :: else
        fi
    od;

    /* The head. */
    do
    :: atomic {
           !locked -> locked = 1; parked = 0; pend = 0;
           find_next(me, next); begin_with(next); heads--
       }
       promote(0);
       state[me] = IDLE;
       goto taken
    :: atomic { locked && !pend -> pend = 1 }
    :: atomic { locked && !over -> skip }
#ifndef STATE_AFTER_WORD
       state[me] = HPARK;
#endif
       if
#ifdef PARK_THOUGH_FREE
       :: atomic { true -> parked = 1 }
#else
       :: atomic { locked -> parked = 1 }
       :: atomic { !locked -> state[me] = HEAD }
#endif
       fi;
#ifdef STATE_AFTER_WORD
       if :: parked -> state[me] = HPARK :: else fi;
#endif
       do
       :: state[me] != HPARK -> break
       :: else ->
           futex_wait(HPARK);
           if :: over -> state[me] = HEAD; break :: else fi
       od
    :: over ->
       atomic {
           if
           :: locked -> find_next(me, next); begin_with(next); heads--
           :: else -> goto retry
           fi
       }
#ifdef LEAVE_ALONE
       skip;
#else
#ifdef LEAVE_ASLEEP
       promote(0);
#else
       promote(1);
#endif
#endif
       state[me] = IDLE;
       hasty = 0;
       /* It comes back, or does without. */
       if :: goto again :: goto end fi;
retry: skip
    od;

taken:
    holders++;
    invariant(1, holders == 1);
    holders--;

    /* Release. */
#ifdef RELEASE_BY_STORE
    kicked = (parked -> first : 0);
    atomic {
#else
    atomic {
        kicked = (parked -> first : 0);
#endif
        locked = 0;
        if :: first != 0 -> pend = 1 :: true fi     /* the head's quantum may be over */
    }
#ifndef NO_KICK
    if :: kicked != 0 -> kick(kicked) :: else fi;
#endif
    rounds--;
    goto again;
end:
    skip
}

init {
    byte i;
    atomic {
        i = 1;
        do
        :: i <= THREADS -> run thread(i, ROUNDS, (i <= HASTY), (i <= BYPASSING)); i++
        :: else -> break
        od
    }
}
