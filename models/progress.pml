/* Waiting until deferred callbacks have run: stillpoint/src/sync/event_count.rs, with its users in reclaim/worker.rs
 * and queue.rs.
 *
 *   owner()      retires values without destructors, then flushes: CallbackWorker::flush, run_own, throttle
 *   barrier()    CallbackWorker::barrier, over both queues
 *   worker()     CallbackWorker::work, with Queue::assign_cookies and run_batch
 *   others()     ends the requested grace periods: those of the worker, and of callers of synchronize()
 *   wait_until() EventCount::wait_until; notify_all(): EventCount::notify_all
 *
 * Queue 0 is the owner's; its callbacks only free memory. Queue 1 holds one callback, queued long ago. WORD is the
 * eventcount: bit 0 says that a thread may sleep, the rest counts notifications.
 *
 * Invariants:
 *   1. A barrier returns after the callbacks queued before it have run, and sees what they did.
 *   2. No thread sleeps while its condition holds (invalid end state). That includes the throttled owner, whose
 *      timeout would end the sleep, but late.
 *   3. The worker's task is submitted once.
 *
 * Abstracted: the worker state is IDLE or RUNNING, with sequentially consistent pushes, and a worker can always be
 * started (worker.pml has the rest); timeouts, failed grace periods, spurious wake-ups. */

#define OWNER 0
#define BARRIER 1
#define WORKER 2
#define THREADS 3

#define WORD 0
#define DONE(q) (1 + (q))   /* callbacks of a queue that have run */
#define EFFECT(q) (3 + (q)) /* what callbacks do: they count themselves */
#define VARIABLES 5
#define COUNTER(v) ((v) != WORD)

#define WAITERS 1
#define ONE 2

#define CALLBACKS 2         /* of queue 0 */
#define HIGH_MARK 1              /* the owner is throttled above this backlog */

#define NONE 0
#define ASKED 1
#define OVER 2

#include "store_buffers.pml"
#include "invariant.pml"

bit asleep[2];
bit running;                /* the worker state: RUNNING */
bit submitted;
byte urgent;
short backlog;              /* may fall below 0: the worker does not wait for the owner's report */
byte pushed[2];
/* Under the consumer's claim. */
bit locked[2];
bit busy[2];
byte next[2], ready_end[2], waiting_end[2], cookie[2];
byte seen;                  /* pushed[0] when the worker assigned cookies */

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
    :: atomic { cookie[0] == ASKED -> cookie[0] = OVER }
    :: atomic { cookie[1] == ASKED -> cookie[1] = OVER }
    od
}

/* The claim of a queue's consumer: its changes to words that are only used under the claim are one step. */
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
inline wake(me) {
    atomic {
        fenced(me) ->
        if :: !running -> invariant(3, !submitted); submitted = 1 :: else fi;
        running = 1
    }
}

/* Consumer::advance */
inline advance(q) {
    if :: cookie[q] == OVER -> ready_end[q] = waiting_end[q]; cookie[q] = NONE :: else fi
}

/* Consumer::accelerate */
inline accelerate(q) {
    advance(q);
    if
    :: cookie[q] == NONE && pushed[q] > waiting_end[q] -> waiting_end[q] = pushed[q]; cookie[q] = ASKED
    :: else
    fi
}

/* Runs the callbacks of queue q, up to n: Callback::run of each, Claim::run. */
inline run_callbacks(me, q, n) {
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

/* CallbackWorker::run_own; Queue::run_local, which only tries to claim the queue. */
inline run_own() {
    if
    :: atomic {
           !locked[0] && !busy[0] -> locked[0] = 1;
           advance(0);
           freed = ready_end[0] - next[0];
           next[0] = ready_end[0]
       }
       if
       :: freed -> run_callbacks(OWNER, 0, next[0])
       :: else
       fi;
       atomic { unlock(OWNER, 0); accelerate(0) }
       if
       :: freed ->
          atomic { backlog = backlog - freed; freed = 0 }
#ifndef FREED_WITHOUT_NOTIFY
          notify_all(OWNER)
#endif
       :: else
       fi
    :: locked[0] || busy[0]
    fi
}

/* Whether the condition of the waiter holds. */
inline check(me) {
    if
    :: me == BARRIER ->
       reached = load(me, DONE(0)) >= mark;
       reached = reached && load(me, DONE(1)) >= 1
    :: else -> run_own(); reached = backlog <= HIGH_MARK
    fi
}

inline wait_until(me) {
    do
    ::
#ifdef CHECK_BEFORE_BIT
       check(me);
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
       key = word;
#ifndef CHECK_BEFORE_BIT
       check(me);
       if :: reached -> break :: else fi;
#endif
       /* futex_wait: the kernel compares under the lock that wakers take. */
#ifdef SLEEP_WITHOUT_COMPARING
       asleep[me] = 1;
#else
       atomic { fenced(me) -> asleep[me] = (mem[WORD] == key) }
#endif
       !asleep[me]
    od;
    key = 0;
    word = 0
}

active proctype owner() {
    byte word, key, mark, freed;
    bit reached;
    do
    :: pushed[0] < CALLBACKS ->
       pushed[0]++;
       /* CallbackWorker::notify */
       if :: !running -> wake(OWNER) :: else fi
    :: else -> break
    od;
    /* CallbackWorker::flush */
    backlog = backlog + CALLBACKS;
    run_own();
    if
    :: backlog > HIGH_MARK ->
       urgent++;
       wake(OWNER);
       wait_until(OWNER);
       urgent--
    :: else
    fi
}

active proctype barrier() {
    byte word, key, mark, freed;
    bit reached;
    mark = pushed[0];
    urgent++;
    wake(BARRIER);
    wait_until(BARRIER);
    invariant(1, mem[EFFECT(0)] >= mark && mem[EFFECT(1)] >= 1);
    urgent--
}

#define holds(q) (mem[DONE(q)] < pushed[q])

active proctype worker() {
    byte word, q, begin, left;
    bit ready_left, taken;
    atomic { pushed[1] = 1; running = 1; submitted = 1 }
end_in_pool:
    atomic { submitted -> submitted = 0 }
again:
    do
    :: q < 2 ->
       if
       :: holds(q) -> atomic { lock(q); seen = (q == 0 -> pushed[0] : seen); accelerate(q); unlock(WORKER, q) }
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
    :: !ready_left ->
       if
       :: !urgent -> goto again         /* the rate limit */
       :: cookie[0] != ASKED && cookie[1] != ASKED
       fi
    :: else
    fi;
#ifdef NOTIFY_BEFORE_RUN
    notify_all(WORKER);
#endif
    /* A batch of each queue, or only of the first. */
    ready_left = 0;
    do
    :: q < 2 && !ready_left ->
       atomic {
           lock(q);
           advance(q);
           /* Callbacks that only free memory are left to an owner that is enqueuing. */
           taken = ready_end[q] > next[q] && (q == 1 || urgent || pushed[0] == seen);
           if :: taken -> left = ready_end[q] - next[q]; next[q] = ready_end[q]; busy[q] = 1 :: else fi;
           unlock(WORKER, q)
       }
       if
       :: taken ->
          run_callbacks(WORKER, q, next[q]);
          atomic { lock(q); busy[q] = 0; unlock(WORKER, q) }
          atomic { backlog = backlog - (q == 0 -> left : 0); taken = 0; if :: ready_left = 1 :: skip fi }
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
