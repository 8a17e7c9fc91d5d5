/* Waiting until deferred entries have run: stillpoint/src/sync/event_count.rs, with its users in reclaim/worker.rs and queue.rs.
 *
 *   owner()      retires plain values, then does its bookkeeping: CallbackWorker::flush, run_own, press
 *   barrier()    CallbackWorker::barrier, over both queues
 *   worker()     CallbackWorker::work: collect, wait, slices, stop; Queue::assign_cookies, run_batch
 *   others()     end grace periods that are asked for: the worker's, and those of callers of synchronize()
 *   wait_until() EventCount::wait_until; notify_all(): EventCount::notify_all
 *
 * Queue 0 is the owner's, its entries are plain. Queue 1 holds one callback, queued long ago. WORD is the eventcount: bit
 * 0 says that a thread may sleep, the rest counts.
 *
 * Invariants:
 *   1. A barrier returns after the entries queued before it have run, and sees what they did.
 *   2. No thread sleeps for what has happened (invalid end state). That includes the owner above the limits, whose patience
 *      would end the sleep, but late.
 *   3. The worker's job is submitted once.
 *
 * Abstracted: the alarm is IDLE or RUN, with sequentially consistent pushes, and a worker can always be had (worker.pml has
 * the rest); patience, failed grace periods, wake-ups for no reason. */

#define OWNER 0
#define BARRIER 1
#define WORKER 2
#define THREADS 3

#define WORD 0
#define DONE(q) (1 + (q))   /* entries of a queue that have run */
#define EFFECT(q) (3 + (q)) /* what entries do: they count themselves */
#define VARIABLES 5
#define COUNTER(v) ((v) != WORD)

#define WAITERS 1
#define ONE 2

#define ENTRIES 2           /* of queue 0 */
#define MARK 1              /* more in the backlog is too much */

#define NONE 0
#define ASKED 1
#define OVER 2

#include "store_buffers.pml"
#include "invariant.pml"

bit asleep[2];
bit running;                /* the alarm's state: RUN */
bit submitted;
byte urgent;
short backlog;              /* may fall below 0, as the worker need not wait for the owner's report */
byte pushed[2];
/* Under the consumer's lock. */
bit locked[2];
bit busy[2];
byte head[2], ripe[2], pending_up_to[2], target[2];
byte seen;                  /* pushed[0] when the worker collected */

active proctype memory() {
end:
    do
    :: drain(OWNER, DONE(0))
    :: drain(OWNER, EFFECT(0))
    :: drain(WORKER, DONE(0))
    :: drain(WORKER, DONE(1))
    :: drain(WORKER, EFFECT(0))
    :: drain(WORKER, EFFECT(1))
#ifdef BIT_BY_STORE
    :: drain(BARRIER, WORD)
    :: drain(OWNER, WORD)
#endif
    od
}

active proctype others() {
end:
    do
    :: atomic { target[0] == ASKED -> target[0] = OVER }
    :: atomic { target[1] == ASKED -> target[1] = OVER }
    od
}

/* A critical section of a queue's consumer: what it does to words that are only used under the lock is one step. */
inline lock(q) { !locked[q] -> locked[q] = 1 }
inline unlock(t, q) { fenced(t) -> locked[q] = 0 }

inline notify_all(me) {
#ifdef NOTIFY_BY_STORE
    word = mem[WORD];
    mem[WORD] = (word + ONE) & ~WAITERS;
#else
    do
    :: word = mem[WORD];
       atomic {
           fenced(me) ->
           if
           :: mem[WORD] == word ->
#ifdef COUNT_NOT_RAISED
              mem[WORD] = word & ~WAITERS;
#else
              mem[WORD] = (word + ONE) & ~WAITERS;
#endif
              break
           :: else
           fi
       }
    od;
#endif
    if
#ifdef WAITERS_NOT_WOKEN
    :: false
#elif defined(ONE_WAITER_WOKEN)
    :: word & WAITERS -> if :: asleep[0] -> asleep[0] = 0 :: asleep[1] -> asleep[1] = 0 :: else fi
#else
    :: word & WAITERS -> d_step { asleep[0] = 0; asleep[1] = 0 }
#endif
    :: else
    fi;
    word = 0
}

/* WorkerState::wake, and a worker if there is none. */
inline ring(me) {
    atomic {
        fenced(me) ->
        if :: !running -> invariant(3, !submitted); submitted = 1 :: else fi;
        running = 1
    }
}

/* Consumer::advance */
inline ripen(q) {
    if :: target[q] == OVER -> ripe[q] = pending_up_to[q]; target[q] = NONE :: else fi
}

/* Consumer::accelerate */
inline give_target(q) {
    ripen(q);
    if
    :: target[q] == NONE && pushed[q] > pending_up_to[q] -> pending_up_to[q] = pushed[q]; target[q] = ASKED
    :: else
    fi
}

/* Entries of queue q run, up to n: Callback::run of each, Claim::run. */
inline run_entries(me, q, n) {
#ifdef DONE_BEFORE_RUN
    store_release(me, DONE(q), n);
    store(me, EFFECT(q), n)
#else
    store(me, EFFECT(q), n);
#ifdef DONE_RELAXED
    store(me, DONE(q), n)
#else
    store_release(me, DONE(q), n)
#endif
#endif
}

/* CallbackWorker::run_own; Queue::run_local, which only tries the lock. */
inline run_own() {
    if
    :: atomic { !locked[0] && !busy[0] -> locked[0] = 1; ripen(0); freed = ripe[0] - head[0]; head[0] = ripe[0] }
       if
       :: freed -> run_entries(OWNER, 0, head[0])
       :: else
       fi;
       atomic { unlock(OWNER, 0); give_target(0) }
       if
       :: freed ->
          atomic { backlog = backlog - freed; freed = 0 }
#ifndef FREED_SILENTLY
          notify_all(OWNER)
#endif
       :: else
       fi
    :: locked[0] || busy[0]
    fi
}

/* Whether the waiter has what it waits for. */
inline look(me) {
    if
    :: me == BARRIER ->
       reached = load(me, DONE(0)) >= mark;
       reached = reached && load(me, DONE(1)) >= 1
    :: else -> run_own(); reached = backlog <= MARK
    fi
}

inline wait_until(me) {
    do
    ::
#ifdef LOOK_BEFORE_BIT
       look(me);
       if :: reached -> break :: else fi;
#endif
#ifdef BIT_BY_STORE
       word = load(me, WORD) | WAITERS;
       store(me, WORD, word);
       fenced(me);
#elif defined(NO_BIT)
       word = mem[WORD];
#else
       atomic { fenced(me) -> word = mem[WORD] | WAITERS; mem[WORD] = word }
#endif
       kept = word;
#ifndef LOOK_BEFORE_BIT
       look(me);
       if :: reached -> break :: else fi;
#endif
       /* futex_wait: the kernel compares under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
       asleep[me] = 1;
#else
       atomic { fenced(me) -> asleep[me] = (mem[WORD] == kept) }
#endif
       !asleep[me]
    od;
    kept = 0;
    word = 0
}

active proctype owner() {
    byte word, kept, mark, freed;
    bit reached;
    do
    :: pushed[0] < ENTRIES ->
       pushed[0]++;
       /* notify */
       if :: !running -> ring(OWNER) :: else fi
    :: else -> break
    od;
    /* settle */
    backlog = backlog + ENTRIES;
    run_own();
    if
    :: backlog > MARK ->
       urgent++;
       ring(OWNER);
       wait_until(OWNER);
       urgent--
    :: else
    fi
}

active proctype barrier() {
    byte word, kept, mark, freed;
    bit reached;
    mark = pushed[0];
    urgent++;
    ring(BARRIER);
    wait_until(BARRIER);
    invariant(1, mem[EFFECT(0)] >= mark && mem[EFFECT(1)] >= 1);
    urgent--
}

#define holds(q) (mem[DONE(q)] < pushed[q])

active proctype worker() {
    byte word, q, begin, left;
    bit ripe_left, taken;
    atomic { pushed[1] = 1; running = 1; submitted = 1 }
end_in_pool:
    atomic { submitted -> submitted = 0 }
again:
    do
    :: q < 2 ->
       if
       :: holds(q) -> atomic { lock(q); seen = (q == 0 -> pushed[0] : seen); give_target(q); unlock(WORKER, q) }
       :: else
       fi;
       q++
    :: else -> q = 0; break
    od;
    if
    :: !holds(0) ->
       if
       :: !holds(1) ->
          running = 0;
          if
          :: holds(0) || holds(1) ->
             if
             :: atomic { !running -> running = 1 }
                goto again
             :: running -> goto end_in_pool
             fi
          :: else -> goto end_in_pool
          fi
       :: else
       fi
    :: else
    fi;
    if
    :: !ripe_left ->
       if
       :: !urgent -> goto again         /* the pause between rounds */
       :: target[0] != ASKED && target[1] != ASKED
       fi
    :: else
    fi;
#ifdef NOTIFY_BEFORE_RUN
    notify_all(WORKER);
#endif
    /* A slice: a batch of each queue, or only of the first. */
    ripe_left = 0;
    do
    :: q < 2 && !ripe_left ->
       atomic {
           lock(q);
           ripen(q);
           /* Plain entries are left to an owner that is appending. */
           taken = ripe[q] > head[q] && (q == 1 || urgent || pushed[0] == seen);
           if :: taken -> left = ripe[q] - head[q]; head[q] = ripe[q]; busy[q] = 1 :: else fi;
           unlock(WORKER, q)
       }
       if
       :: taken ->
          run_entries(WORKER, q, head[q]);
          atomic { lock(q); busy[q] = 0; unlock(WORKER, q) }
          atomic { backlog = backlog - (q == 0 -> left : 0); taken = 0; if :: ripe_left = 1 :: skip fi }
       :: else
       fi;
       q++
    :: else -> q = 0; left = 0; break
    od;
#ifndef NOTIFY_BEFORE_RUN
    notify_all(WORKER);
#endif
    goto again
}
