/* When the worker of deferred callbacks sleeps, and which threads wake it: stillpoint/src/reclaim/worker_state.rs,
 * with its users in worker.rs.
 *
 *   push()                a thread enqueues a callback, eager or lazy: Queue::push, CallbackWorker::notify and provide
 *   barrier()             CallbackWorker::barrier
 *   wake()                WorkerState::wake; wake_if_idle(): WorkerState::wake_if_idle
 *   wake_or_work()        WorkerState::wake, CallbackWorker::provide_or_work
 *   work()                CallbackWorker::work, with WorkerState::leave_running and sleep_timeout
 *   pool_thread           a worker of the pool; submit() is worker_pool::submit
 *
 * States, and what makes the worker leave them:
 *   IDLE          there is no worker                          any callback
 *   LAZY_WAIT     it sleeps until lazy callbacks must run     an eager callback, a barrier, time
 *   RATE_LIMITED  it sleeps until a round may begin           a barrier, time
 *   RUNNING       it works; it checks the queues again before it leaves this state
 *
 * Invariants:
 *   1. The task has at most one owner: the thread that must provide a worker, the queue of the pool, or one worker.
 *      It has one from the change of IDLE to RUNNING until the worker's change of RUNNING to IDLE that it does not
 *      undo, or until the owner gives up.
 *   2. All barriers return, and all callbacks run in the end: the process `completion`, which waits for that, ends
 *      (otherwise: invalid end state). If no thread could be started, callbacks may remain, but then the state is
 *      IDLE: the next callback tries again.
 *   3. Eager callbacks whose push has returned do not wait for the timer of LAZY_WAIT. Barriers that have woken the
 *      worker wait for neither timer. Checked whenever a timer fires, which may be at any moment of the sleep.
 *
 * Abstracted: a queue is its positions; `done` and the consumer's claim are one step. A grace period is a pause, and
 * does not fail. The pool has two threads, enough for a worker in its last check and its successor. The eventcount is
 * a bit for each barrier: whether a notification has come since the barrier's fetch_or (progress.pml has the rest). A
 * spurious wake-up has no more effect than an early timer. */

#ifndef MORE
#define MORE 1              /* callbacks of producer 0 beyond the first; each is eager or lazy */
#endif
#define pushes(p) ((p) == 0 -> 1 + MORE : 1)
#ifndef BARRIERS
#define BARRIERS 0          /* producers that end with a barrier */
#endif
#ifndef FAILS
#define FAILS 0             /* whether starting a thread may fail */
#endif

#define PRODUCERS 2
#define THREADS 4           /* 0 and 1 produce, 2 and 3 are the pool's */
#define PUSHED(q) (q)
#define EAGER(q) (2 + (q))
#define STATE 4
#define VARIABLES 5
#define COUNTER(v) ((v) < EAGER(0))

#define IDLE 0
#define LAZY_WAIT 1
#define RATE_LIMITED 2
#define RUNNING 3

#include "store_buffers.pml"
#include "invariant.pml"

byte urgent;                /* barriers that wait; changed by read-modify-writes */
byte providers;             /* threads that must provide a worker */
byte submitted;             /* how often the task is in the pool's queue */
byte workers;               /* threads that work */
#define owners (providers + submitted + workers)
bit asleep;                 /* a worker is, in the kernel */
byte wakers;                /* threads that are about to wake it */
byte done[PRODUCERS];       /* callbacks that have run */
bit notified[PRODUCERS];    /* a notification has come since this barrier's fetch_or */
byte eager_up_to[PRODUCERS];    /* callbacks that must not wait for the timer of LAZY_WAIT */
byte urgent_up_to[PRODUCERS];   /* callbacks that must not wait for any timer */
bit busy;                   /* thread 2 of the pool has a task */
bit failed;                 /* a thread could not be started */
byte finished;              /* producers */

active proctype memory() {
end:
    do
    :: drain(0, PUSHED(0))
    :: drain(0, EAGER(0))
    :: drain(1, PUSHED(1))
    :: drain(1, EAGER(1))
#ifdef WAKE_BY_STORE
    :: drain(0, STATE)
    :: drain(1, STATE)
#endif
    od
}

inline heavy() {
    asked = bit_of(0) | bit_of(1);
    do
    :: answer(asked, 0)
    :: answer(asked, 1)
    :: asked == 0 -> break
    od
}

/* EventCount::notify_all */
inline notify_all() {
    d_step { notified[0] = BARRIERS > 0; notified[1] = BARRIERS > 1 }
}

/* futex_wake */
inline futex_wake() {
    atomic {
        wakers--;
#ifndef SLEEP_NOT_ENDED
        asleep = 0
#endif
    }
}

/* `timer_fired`: that of LAZY_WAIT, so lazy callbacks must run. */
#define worker_locals byte asked, q; byte taken[PRODUCERS]; bit eager, any, timer_fired, work_found, went_idle

/* What the queues hold: Queue::pending of each. */
inline check() {
    do
    :: q < PRODUCERS ->
       eager = eager || mem[EAGER(q)] > done[q];
       atomic { any = any || mem[PUSHED(q)] > done[q]; q++ }
    :: else -> q = 0; break
    od
}

inline forget() {
    d_step { eager = 0; any = 0 }
}

/* Assigns cookies, waits for a grace period, runs the callbacks. */
inline round() {
    taken[0] = mem[PUSHED(0)];
    taken[1] = mem[PUSHED(1)];
    do
    :: q < PRODUCERS -> d_step { done[q] = taken[q]; taken[q] = 0; q++ }
    :: else -> q = 0; break
    od;
    notify_all()
}

/* Whether the worker must not go to the new state. */
#ifdef LAZY_NOT_CHECKED
#define found(new_state) \
    (new_state == IDLE && eager || new_state == LAZY_WAIT && (eager || urgent) || new_state == RATE_LIMITED && urgent)
#elif defined(URGENT_NOT_CHECKED)
#define found(new_state) (new_state == IDLE && any || new_state == LAZY_WAIT && eager)
#else
#define found(new_state) \
    (new_state == IDLE && any || new_state == LAZY_WAIT && (eager || urgent) || new_state == RATE_LIMITED && urgent)
#endif

/* Goes to the new state, unless work is found. `went_idle`: this thread is not the worker any more. */
inline leave_running(new_state) {
    forget();
#ifdef CHECK_BEFORE_IDLE
    check();
#endif
    atomic { mem[STATE] = new_state; workers = workers - (new_state == IDLE) }
#ifndef CHECK_BEFORE_IDLE
    if
    :: new_state != RATE_LIMITED ->
#ifndef NO_FENCE_BEFORE_CHECK
       heavy();
#endif
       check()
    :: else
    fi;
#endif
    work_found = found(new_state);
    if
    :: work_found -> atomic {
           if
           :: mem[STATE] == new_state -> mem[STATE] = RUNNING; workers = workers + (new_state == IDLE)
#ifdef TWO_WORKERS
           :: else -> workers = workers + (new_state == IDLE)
#else
           :: else -> went_idle = (new_state == IDLE)
#endif
           fi;
           invariant(1, owners <= 1)
       }
    :: else -> went_idle = (new_state == IDLE)
    fi;
    forget()
}

/* futex_wait: the kernel compares under the lock that wakers take. */
inline sleep(new_state, in_time) {
    atomic {
#ifdef SLEEP_WITHOUT_COMPARING
        asleep = 1
#else
        asleep = (mem[STATE] == new_state)
#endif
    }
    if
    :: !asleep
    :: atomic {
           asleep -> invariant(3, wakers > 0 || in_time);
           asleep = 0;
           timer_fired = timer_fired || new_state == LAZY_WAIT
       }
    fi;
    mem[STATE] = RUNNING
}

#define barriers_in_time (urgent_up_to[0] <= done[0] && urgent_up_to[1] <= done[1])
#define eager_in_time (eager_up_to[0] <= done[0] && eager_up_to[1] <= done[1])

inline work() {
    do
    :: check();
       if
       :: !any -> leave_running(IDLE)
       :: any && !eager && !timer_fired && !urgent ->
          leave_running(LAZY_WAIT);
          if :: !work_found -> sleep(LAZY_WAIT, eager_in_time && barriers_in_time) :: else fi
       :: any && (eager || timer_fired) && !urgent ->
          /* The rate limit: over, or not */
          leave_running(RATE_LIMITED);
          if :: !work_found -> sleep(RATE_LIMITED, barriers_in_time) :: else fi
       :: any && (eager || timer_fired || urgent) -> timer_fired = 0; round()
       fi;
       forget();
       if :: went_idle -> break :: else -> work_found = 0 fi
    od;
    atomic { went_idle = 0; work_found = 0; timer_fired = 0 }
}

#define is_sleeping(state) ((state) == LAZY_WAIT || (state) == RATE_LIMITED)

/* `alone`: there is no worker, and the caller must provide one. */
inline wake(me) {
#ifdef WAKE_BY_STORE
    atomic { old = load(me, STATE); wakers = wakers + is_sleeping(old) }
    store(me, STATE, RUNNING);
    atomic { fenced(me) -> alone = (old == IDLE); providers = providers + alone; invariant(1, owners <= 1) }
#else
    atomic {
        fenced(me) ->
        old = mem[STATE];
        mem[STATE] = RUNNING;
        wakers = wakers + is_sleeping(old);
        alone = (old == IDLE);
        providers = providers + alone;
        invariant(1, owners <= 1)
    }
#endif
    if :: is_sleeping(old) -> futex_wake() :: else fi;
    old = 0
}

inline wake_if_idle(me) {
    atomic {
        fenced(me) ->
        alone = (mem[STATE] == IDLE);
#ifdef WAKE_IF_IDLE_BY_SWAP
        mem[STATE] = RUNNING;
#else
        mem[STATE] = (alone -> RUNNING : mem[STATE]);
#endif
        providers = providers + alone;
        invariant(1, owners <= 1)
    }
}

inline submit() {
    atomic { submitted++; providers--; invariant(1, owners == 1) }
}

/* WorkerState::give_up */
inline give_up(me) {
    atomic { fenced(me) -> mem[STATE] = IDLE; providers--; failed = 1 }
}

/* CallbackWorker::provide, after wake() or wake_if_idle(). */
inline provide(me) {
    if
    :: alone -> submit()
    :: alone && FAILS ->
#ifdef NOTIFY_BEFORE_GIVE_UP
       notify_all();
#endif
       give_up(me)
#if !defined(NOTIFY_BEFORE_GIVE_UP) && !defined(GIVE_UP_WITHOUT_NOTIFY)
       ; notify_all()
#endif
    :: else
    fi;
    alone = 0
}

/* WorkerState::wake, CallbackWorker::provide_or_work */
inline wake_or_work(me) {
    wake(me);
    if
    :: alone -> submit()
    :: alone && FAILS ->
#ifdef NO_CALLER_CONTINUES
       give_up(me)
#else
       atomic { providers--; workers++; failed = 1; invariant(1, owners == 1) }
       work()
#endif
    :: else
    fi;
    alone = 0
}

inline push(me) {
#ifdef STATE_BEFORE_PUSH
    seen = load(me, STATE);
#endif
    atomic { pushed++; store(me, PUSHED(me), pushed); if :: lazy = 0 :: lazy = 1 fi }
    if :: !lazy -> store(me, EAGER(me), pushed) :: else fi;
    /* light() */
    atomic {
#ifndef STATE_BEFORE_PUSH
        seen = load(me, STATE);
#endif
        must = seen < (lazy -> LAZY_WAIT : RATE_LIMITED);
#ifdef EAGER_WAKES_IDLE_ONLY
        must = seen < LAZY_WAIT;
#endif
#ifdef LAZY_NEVER_WAKES
        must = must && !lazy;
#endif
        seen = 0
    }
    if
    :: must && !lazy -> wake(me)
    :: must && lazy -> wake_if_idle(me)
    :: else
    fi;
    provide(me);
    atomic { eager_up_to[me] = (lazy -> eager_up_to[me] : pushed); must = 0; lazy = 0 }
}

#define reached (done[0] >= mark[0] && done[1] >= mark[1])

inline barrier(me) {
    mark[0] = load(me, PUSHED(0));
    mark[1] = load(me, PUSHED(1));
#ifdef URGENT_AFTER_WAKE
    if :: !reached -> wake_or_work(me) :: else fi;
    atomic { fenced(me) -> urgent++ }
#else
    atomic { fenced(me) -> urgent++ }
    if :: !reached -> wake_or_work(me) :: else fi;
#endif
    d_step {
        if :: mark[0] > urgent_up_to[0] -> urgent_up_to[0] = mark[0] :: else fi;
        if :: mark[1] > urgent_up_to[1] -> urgent_up_to[1] = mark[1] :: else fi
    }
    /* EventCount::wait_until */
    do
    ::
#ifdef IDLE_BEFORE_BIT
       if :: !reached && mem[STATE] == IDLE -> wake_or_work(me) :: else fi;
#endif
       notified[me] = 0;
#if !defined(IDLE_BEFORE_BIT) && !defined(IDLE_NOT_CHECKED)
       /* There may be no worker. */
       if :: !reached && mem[STATE] == IDLE -> wake_or_work(me) :: else fi;
#endif
       if :: reached -> break :: else fi;
       notified[me]
    od;
    atomic { fenced(me) -> mark[0] = 0; mark[1] = 0; notified[me] = 0; urgent-- }
}

proctype producer(byte me) {
    byte pushed, seen, old;
    byte mark[PRODUCERS];
    bit lazy, must, alone;
    worker_locals;
    do
    :: pushed < pushes(me) -> push(me)
    :: else -> break
    od;
    if :: me < BARRIERS -> barrier(me) :: else fi;
    finished++
}

proctype pool_thread(byte me) {
    worker_locals;
end_in_pool:
    /* The threads are alike: 3 takes the task only if 2 is busy. */
    atomic {
        submitted > 0 && (me == 2 || busy) ->
        submitted--;
        workers++;
        busy = busy || me == 2;
        invariant(1, owners == 1)
    }
    work();
    busy = busy && me != 2;
    goto end_in_pool
}

active proctype completion() {
    finished == PRODUCERS && (done[0] == pushes(0) && done[1] == pushes(1) || failed && mem[STATE] == IDLE)
}

init {
    atomic { run producer(0); run producer(1); run pool_thread(2); run pool_thread(3) }
}
