/* The queued lock (stillpoint/src/lock): which threads park, which threads wake them, and which is the head.
 *
 * The word and the states of the nodes are as in the source. Each atomic operation on them is one step, in any
 * interleaving. Memory is sequentially consistent here; the loom models check the orderings. A thread may spin for
 * any time, a quantum may be over at any time, and so may the time limit of a timed waiter. The first BYPASSING
 * threads may find at any time that the head is stalled.
 *
 * Abstracted: links between nodes (the next node is found in one step); the node table (the owner of a node that is
 * being unlinked waits for that before it enqueues again); threads without a node; forks.
 *
 * THREADS threads lock ROUNDS times. The first TIMED of them wait with a time limit first, and then without.
 *
 * Invariants: 1. One thread holds the lock. 2. There is at most one head. */

#include "invariant.pml"

#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef TIMED
#define TIMED 0
#endif
#ifndef BYPASSING
#define BYPASSING 0
#endif

#define IDLE             0
#define WAITING          1
#define WAITING_PARKED   2
#define HEAD             3
#define HEAD_PARKED      4
#define ABANDONED        5
#define UNLINKING        6

bit locked, parked, pending;
byte first, last;                   /* the queue's ends; 0 if it is empty */
byte state[THREADS + 1];
byte prev[THREADS + 1];
bit asleep[THREADS + 1];            /* in the futex of its node */
byte holders, heads;

/* The node after `from`, found from the tail. */
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

/* Makes `next` the first node. */
inline begin_with(next) {
    first = next;
    if :: next == 0 -> last = 0; pending = 0 :: else fi
}

/* Takes the lock, past the queue if there is one. */
inline steal() {
    locked = 1;
    if :: first == 0 -> parked = 0 :: else fi
}

inline wake(node) { asleep[node] = 0 }

/* Sleeps on the thread's node unless its state has changed. Sets `over` if the time is over. */
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
    :: atomic { timed -> asleep[me] = 0; over = 1 }
    fi
}

inline count_head() { heads++; invariant(2, heads == 1) }

/* Makes `next`, or the first node after it that is not abandoned, the head. */
inline promote() {
    do
    :: next == 0 -> break
    :: atomic { next != 0 && state[next] == WAITING -> state[next] = HEAD; count_head() } break
    :: atomic { next != 0 && state[next] == WAITING_PARKED -> state[next] = HEAD; count_head() }
#ifndef PROMOTED_NOT_WOKEN
       wake(next);
#endif
       break
#ifdef ABANDONED_PROMOTED
    :: next != 0 && state[next] == ABANDONED -> break
#else
    :: atomic { next != 0 && state[next] == ABANDONED -> state[next] = UNLINKING }
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
    :: atomic { state[node] == HEAD_PARKED -> state[node] = HEAD } wake(node)
    :: atomic { state[node] != HEAD_PARKED -> skip }
#endif
    fi
}

proctype thread(byte me; byte rounds; bit is_timed; bit bypasses) {
    bit over, timed = is_timed;
    byte next, after, kicked;

again:
    if :: rounds == 0 -> goto end :: else fi;
    over = 0;
    /* Rejoin with an abandoned node, if it is still in the queue. */
    atomic {
        if
        :: state[me] == ABANDONED -> state[me] = WAITING; goto queued
        :: state[me] == UNLINKING -> (state[me] == IDLE)
        :: else
        fi
    }
    /* Spin. */
    do
    :: atomic { !locked && !pending -> steal() } goto taken
    :: atomic { (locked || pending) -> break }
    od;
    /* Enqueue. */
#ifdef ENQUEUE_BY_STORE
    prev[me] = last;
    atomic {
        if
        :: !locked && !pending -> steal(); goto taken
        :: else
        fi;
#else
    atomic {
        if
        :: !locked && !pending -> steal(); goto taken
        :: else
        fi;
        prev[me] = last;
#endif
        if
        :: prev[me] == 0 -> state[me] = HEAD; count_head(); first = me
        :: else -> state[me] = WAITING
        fi;
        last = me
    }

queued:
    do
    :: state[me] == HEAD -> break
    :: atomic { state[me] == WAITING -> state[me] = WAITING_PARKED }
    :: state[me] == WAITING_PARKED ->
        if
        /* A free lock can be taken; a reserved one too, if the head is stalled. */
        :: atomic { bypasses && !locked && state[me] == WAITING_PARKED -> state[me] = ABANDONED }
#ifdef BYPASS_WITHOUT_RECHECK
           atomic { true -> locked = 1; pending = 0 } goto taken
#else
           if
           :: atomic { !locked -> locked = 1; pending = 0 } goto taken
           :: atomic { locked -> skip } goto again
           fi
#endif
        :: true
        fi;
        futex_wait(WAITING_PARKED);
        if
        :: atomic { over && state[me] == WAITING_PARKED -> state[me] = ABANDONED } timed = 0; goto again
        :: else
        fi
    od;

    /* The head. */
    do
    :: atomic {
           !locked -> locked = 1; parked = 0; pending = 0;
           find_next(me, next); begin_with(next); heads--
       }
       promote();
       state[me] = IDLE;
       goto taken
    :: atomic { locked && !pending -> pending = 1 }
    :: atomic { locked && !over -> skip }
#ifndef STATE_AFTER_WORD
       state[me] = HEAD_PARKED;
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
       if :: parked -> state[me] = HEAD_PARKED :: else fi;
#endif
       do
       :: state[me] != HEAD_PARKED -> break
       :: else ->
           futex_wait(HEAD_PARKED);
           if :: over -> state[me] = HEAD; break :: else fi
       od
    :: over ->
       atomic {
           if
           :: locked -> find_next(me, next); begin_with(next); heads--
           :: else -> goto retry
           fi
       }
#ifdef HEAD_LEAVES_WITHOUT_PROMOTING
       skip;
#else
       promote();
#endif
       state[me] = IDLE;
       timed = 0;
       /* Try again without a limit, or give up. */
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
        if :: first != 0 -> pending = 1 :: true fi     /* the head's quantum may be over */
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
        :: i <= THREADS -> run thread(i, ROUNDS, (i <= TIMED), (i <= BYPASSING)); i++
        :: else -> break
        od
    }
}
