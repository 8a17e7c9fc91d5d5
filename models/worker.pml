/* When the worker of deferred callbacks sleeps, and who wakes it: stillpoint/src/reclaim/worker_state.rs, with what its users do in
 * worker.rs.
 *
 *   push()                a thread appends an entry, eager or lazy: Queue::push, CallbackWorker::notify and provide
 *   barrier()             CallbackWorker::barrier; hurry() is its WorkerState::wake, with CallbackWorker::provide_or_work
 *   ring(), stir()        WorkerState::wake, WorkerState::wake_if_idle
 *   work()                CallbackWorker::work, with WorkerState::leave_running, nap and stop
 *   pool_thread           a worker of the pool; submit() is worker_pool::submit
 *
 * States of the alarm, and what leaves them:
 *   IDLE    no worker                                     any entry
 *   LAZY_WAIT  the worker sleeps until lazy entries are due  an eager entry, a barrier, time
 *   RATE_LIMITED   the worker sleeps until a round may begin     a barrier, time
 *   RUN     at work; looks again before it leaves this state
 *
 * Invariants:
 *   1. The job has one owner at most: who must provide a worker, the pool's queue, or one worker, from the change of IDLE to
 *      RUN until the worker's change of RUN to IDLE that it does not undo, or until the owner gives up.
 *   2. All barriers return, and all entries run in the end: the process `judge`, who waits for that, cannot be left standing
 *      (invalid end state). If no thread could be started, entries may stay, but then the alarm is IDLE: the next one tries
 *      again.
 *   3. Nobody waits for a timer who must not: eager entries whose push has returned do not wait for that of LAZY_WAIT,
 *      barriers that have rung for neither. Checked whenever a timer fires, and it may fire at any moment of the sleep.
 *
 * Abstracted: a queue is its positions, `done` and the consumer's lock are one step; a grace period is a pause, and does not
 * fail; the pool has two threads, enough for a worker that is in its last look and its successor; of the progress word there
 * is a bit for each barrier, whether it has advanced since the barrier's fetch_or (progress.pml has the rest). A wake-up for
 * no reason does no more than an early timer does. */

#ifndef MORE
#define MORE 1              /* entries of producer 0 beyond the first; each is eager or lazy */
#endif
#define pushes(p) ((p) == 0 -> 1 + MORE : 1)
#ifndef BARRIERS
#define BARRIERS 0          /* producers that end with a barrier */
#endif
#ifndef FAILS
#define FAILS 0             /* whether no thread can be started, sometimes */
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
#define RUN 3

#include "store_buffers.pml"
#include "invariant.pml"

byte urgent;                /* barriers that wait; changed by read-modify-writes */
byte providers;             /* threads that must provide a worker */
byte submitted;             /* how often the job is in the pool's queue */
byte workers;               /* threads that work */
#define owners (providers + submitted + workers)
bit asleep;                 /* a worker is, in the kernel */
byte wakers;                /* threads that are about to wake it */
byte done[PRODUCERS];       /* entries that have run */
bit told[PRODUCERS];        /* the progress word has advanced since this barrier's fetch_or */
byte soon[PRODUCERS];       /* entries that must not wait for the timer of LAZY_WAIT */
byte now[PRODUCERS];        /* entries that must not wait for any */
bit busy;                   /* thread 2 of the pool has a job */
bit failed;                 /* a thread could not be started */
byte finished;              /* producers */

active proctype memory() {
end:
    do
    :: drain(0, PUSHED(0))
    :: drain(0, EAGER(0))
    :: drain(1, PUSHED(1))
    :: drain(1, EAGER(1))
#ifdef RING_BY_STORE
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
inline advance() {
    d_step { told[0] = BARRIERS > 0; told[1] = BARRIERS > 1 }
}

/* futex_wake */
inline wake() {
    atomic {
        wakers--;
#ifndef NAP_NOT_ENDED
        asleep = 0
#endif
    }
}

/* `due`: lazy entries are. */
#define worker_s_locals byte asked, q; byte taken[PRODUCERS]; bit eager, any, due, found_some, gone

/* What the queues hold: Queue::holds of each. */
inline look() {
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

/* Collects, waits for a grace period, runs. */
inline round() {
    taken[0] = mem[PUSHED(0)];
    taken[1] = mem[PUSHED(1)];
    do
    :: q < PRODUCERS -> d_step { done[q] = taken[q]; taken[q] = 0; q++ }
    :: else -> q = 0; break
    od;
    advance()
}

/* Whether this keeps the worker from resting. */
#ifdef LAZY_OVERLOOKED
#define found(rest) (rest == IDLE && eager || rest == LAZY_WAIT && (eager || urgent) || rest == RATE_LIMITED && urgent)
#elif defined(URGENT_OVERLOOKED)
#define found(rest) (rest == IDLE && any || rest == LAZY_WAIT && eager)
#else
#define found(rest) (rest == IDLE && any || rest == LAZY_WAIT && (eager || urgent) || rest == RATE_LIMITED && urgent)
#endif

/* Rests unless there is work. `found_some`: there is; `gone`: somebody else is the worker now, or nobody. */
inline settle(rest) {
    forget();
#ifdef LOOK_BEFORE_REST
    look();
#endif
    atomic { mem[STATE] = rest; workers = workers - (rest == IDLE) }
#ifndef LOOK_BEFORE_REST
    if
    :: rest != RATE_LIMITED ->
#ifndef NO_FENCE_BEFORE_LOOK
       heavy();
#endif
       look()
    :: else
    fi;
#endif
    found_some = found(rest);
    if
    :: found_some -> atomic {
           if
           :: mem[STATE] == rest -> mem[STATE] = RUN; workers = workers + (rest == IDLE)
#ifdef TWO_WORKERS
           :: else -> workers = workers + (rest == IDLE)
#else
           :: else -> gone = (rest == IDLE)
#endif
           fi;
           invariant(1, owners <= 1)
       }
    :: else -> gone = (rest == IDLE)
    fi;
    forget()
}

/* futex_wait: the kernel compares under the lock that wakers take. */
inline sleep(rest, in_time) {
    atomic {
#ifdef SLEEP_WITHOUT_COMPARING
        asleep = 1
#else
        asleep = (mem[STATE] == rest)
#endif
    }
    if
    :: !asleep
    :: atomic { asleep -> invariant(3, wakers > 0 || in_time); asleep = 0; due = due || rest == LAZY_WAIT }
    fi;
    mem[STATE] = RUN
}

#define barriers_in_time (now[0] <= done[0] && now[1] <= done[1])
#define eager_in_time (soon[0] <= done[0] && soon[1] <= done[1])

inline work() {
    do
    :: look();
       if
       :: !any -> settle(IDLE)
       :: any && !eager && !due && !urgent ->
          settle(LAZY_WAIT);
          if :: !found_some -> sleep(LAZY_WAIT, eager_in_time && barriers_in_time) :: else fi
       :: any && (eager || due) && !urgent ->
          /* The pause between rounds: time, or not */
          settle(RATE_LIMITED);
          if :: !found_some -> sleep(RATE_LIMITED, barriers_in_time) :: else fi
       :: any && (eager || due || urgent) -> due = 0; round()
       fi;
       forget();
       if :: gone -> break :: else -> found_some = 0 fi
    od;
    atomic { gone = 0; found_some = 0; due = 0 }
}

#define naps(state) ((state) == LAZY_WAIT || (state) == RATE_LIMITED)

/* `alone`: the caller must provide a worker. */
inline ring(me) {
#ifdef RING_BY_STORE
    atomic { old = load(me, STATE); wakers = wakers + naps(old) }
    store(me, STATE, RUN);
    atomic { fenced(me) -> alone = (old == IDLE); providers = providers + alone; invariant(1, owners <= 1) }
#else
    atomic {
        fenced(me) ->
        old = mem[STATE];
        mem[STATE] = RUN;
        wakers = wakers + naps(old);
        alone = (old == IDLE);
        providers = providers + alone;
        invariant(1, owners <= 1)
    }
#endif
    if :: naps(old) -> wake() :: else fi;
    old = 0
}

inline stir(me) {
    atomic {
        fenced(me) ->
        alone = (mem[STATE] == IDLE);
#ifdef STIR_BY_SWAP
        mem[STATE] = RUN;
#else
        mem[STATE] = (alone -> RUN : mem[STATE]);
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

/* CallbackWorker::provide, when the alarm has been rung or stirred. */
inline provide(me) {
    if
    :: alone -> submit()
    :: alone && FAILS ->
#ifdef ADVANCE_BEFORE_GIVE_UP
       advance();
#endif
       give_up(me)
#if !defined(ADVANCE_BEFORE_GIVE_UP) && !defined(GIVE_UP_SILENTLY)
       ; advance()
#endif
    :: else
    fi;
    alone = 0
}

/* WorkerState::wake, CallbackWorker::provide_or_work */
inline hurry(me) {
    ring(me);
    if
    :: alone -> submit()
    :: alone && FAILS ->
#ifdef NEVER_THE_WORKER
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
#ifdef EAGER_RINGS_IDLE_ONLY
        must = seen < LAZY_WAIT;
#endif
#ifdef LAZY_NEVER_STIRS
        must = must && !lazy;
#endif
        seen = 0
    }
    if
    :: must && !lazy -> ring(me)
    :: must && lazy -> stir(me)
    :: else
    fi;
    provide(me);
    atomic { soon[me] = (lazy -> soon[me] : pushed); must = 0; lazy = 0 }
}

#define reached (done[0] >= mark[0] && done[1] >= mark[1])

inline barrier(me) {
    mark[0] = load(me, PUSHED(0));
    mark[1] = load(me, PUSHED(1));
#ifdef URGENT_AFTER_RING
    if :: !reached -> hurry(me) :: else fi;
    atomic { fenced(me) -> urgent++ }
#else
    atomic { fenced(me) -> urgent++ }
    if :: !reached -> hurry(me) :: else fi;
#endif
    d_step {
        if :: mark[0] > now[0] -> now[0] = mark[0] :: else fi;
        if :: mark[1] > now[1] -> now[1] = mark[1] :: else fi
    }
    /* EventCount::wait_until */
    do
    ::
#ifdef IDLE_BEFORE_BIT
       if :: !reached && mem[STATE] == IDLE -> hurry(me) :: else fi;
#endif
       told[me] = 0;
#if !defined(IDLE_BEFORE_BIT) && !defined(IDLE_NOT_MINDED)
       /* There may be no worker. */
       if :: !reached && mem[STATE] == IDLE -> hurry(me) :: else fi;
#endif
       if :: reached -> break :: else fi;
       told[me]
    od;
    atomic { fenced(me) -> mark[0] = 0; mark[1] = 0; told[me] = 0; urgent-- }
}

proctype producer(byte me) {
    byte pushed, seen, old;
    byte mark[PRODUCERS];
    bit lazy, must, alone;
    worker_s_locals;
    do
    :: pushed < pushes(me) -> push(me)
    :: else -> break
    od;
    if :: me < BARRIERS -> barrier(me) :: else fi;
    finished++
}

proctype pool_thread(byte me) {
    worker_s_locals;
end_in_pool:
    /* The threads are alike: 3 takes the job only if 2 is busy. */
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

active proctype judge() {
    finished == PRODUCERS && (done[0] == pushes(0) && done[1] == pushes(1) || failed && mem[STATE] == IDLE)
}

init {
    atomic { run producer(0); run producer(1); run pool_thread(2); run pool_thread(3) }
}
