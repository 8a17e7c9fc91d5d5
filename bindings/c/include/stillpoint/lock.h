/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef STILLPOINT_LOCK_H
#define STILLPOINT_LOCK_H

/*#
# Locks

`stillpoint/lock.h` has a mutex of four bytes, a condition variable of sixteen, and a reader-writer lock of 56, which
work in static variables. C++11 programs have them as classes: `stillpoint/lock.hpp`. The Rust documentation of
`stillpoint::lock` says how they behave under contention.

```c
static struct sp_mutex lock = SP_MUTEX_INIT;
static struct sp_cond filled = SP_COND_INIT;

sp_mutex_lock(&lock);                           // a consumer
while (!first)
    sp_cond_wait(&filled, &lock);
struct job *job = first;
first = job->next;
sp_mutex_unlock(&lock);

sp_mutex_lock(&lock);                           // a producer
job->next = first;
first = job;
sp_mutex_unlock(&lock);
sp_cond_signal(&filled);
```

- The locks are of one process, and not recursive: a thread that takes a lock again waits for itself.
- The thread that holds a lock releases it. Without holding it, the behaviour is undefined.
- Waits are not cancellation points of `pthread_cancel`.
- The memory of a reader-writer lock must not be freed before an unlock has returned.
- In the child of a `fork`, a lock that another thread held stays held, and reads of other threads last for ever. One
  that the forking thread held, or that was free, can be used. But the child must not use a reader-writer lock after it
  has released it if other threads were within `sp_rwlock_rdlock` or `sp_rwlock_tryrdlock`, or waited for it while the
  forking thread held it. Forks in signal handlers that have interrupted a function of a lock are not supported.
- A signal handler may call `sp_mutex_trylock` and `sp_rwlock_tryrdlock`, and release what it took; nothing else.
- The functions allocate nothing, but for `sp_rwlock_rdlock`: after a thousand reads without a write it allocates
  counters for each CPU, and does without them if there is no memory. */

#include "../stillpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/*# ## A mutex */

/** A mutex. All zero, it is free. */
struct sp_mutex {
    uint32_t reserved_;
};

/** The initializer of a free mutex. */
#define SP_MUTEX_INIT {0}

/** Takes the lock. */
void sp_mutex_lock(struct sp_mutex *mutex);

/** Takes the lock. Returns `-EBUSY` if it is not free, or reserved for the thread that has waited longest. */
int sp_mutex_trylock(struct sp_mutex *mutex);

/** Takes the lock; blocks for at most `nanoseconds`. Returns `-ETIMEDOUT` if the time is up. */
int sp_mutex_timedlock(struct sp_mutex *mutex, uint64_t nanoseconds);

/** Releases the lock. */
void sp_mutex_unlock(struct sp_mutex *mutex);

/*# ## A condition variable */

/** A condition variable. All zero, no thread waits. */
struct sp_cond {
    uint64_t reserved_[2];
};

/** The initializer of a condition variable. */
#define SP_COND_INIT {{0, 0}}

/** Releases the mutex, blocks until a notification, and takes the mutex again. May return without a notification:
check the condition in a loop.

Returns `-EINVAL`, and has not waited, if a thread waits with another mutex. */
int sp_cond_wait(struct sp_cond *condition, struct sp_mutex *mutex);

/** `sp_cond_wait` for at most `nanoseconds`, and the time that it takes to get the mutex. Returns `-ETIMEDOUT` if the
time is up; it has the mutex then, too. */
int sp_cond_timedwait(struct sp_cond *condition, struct sp_mutex *mutex, uint64_t nanoseconds);

/** Wakes the thread that has waited longest. The caller has changed the condition under the mutex, and need not hold
it any more. */
void sp_cond_signal(struct sp_cond *condition);

/** Wakes all threads that wait. */
void sp_cond_broadcast(struct sp_cond *condition);

/*# ## A reader-writer lock

For values that are read far more often than written. Readers do not slow each other down, on however many CPUs. A
thread that reads must not call `sp_rwlock_rdlock` again: a writer may have come in between. If the kernel denies
`membarrier(2)` after it has allowed it, a write ends the process. */

/** A reader-writer lock. */
struct sp_rwlock {
    uint64_t reserved_[7];
};

/** The initializer of a free lock. */
#define SP_RWLOCK_INIT {{33, 0, 0, 0, 0, 0, UINT64_C(1) << 32}}

/** Makes a lock that is free, as `SP_RWLOCK_INIT` does. */
static inline void sp_rwlock_init(struct sp_rwlock *lock)
{
    const struct sp_rwlock fresh = SP_RWLOCK_INIT;
    *lock = fresh;
}

/** Frees the memory of a lock that no thread uses any more. Static ones need not be destroyed. */
void sp_rwlock_destroy(struct sp_rwlock *lock);

/** Takes the lock for reading. */
void sp_rwlock_rdlock(struct sp_rwlock *lock);

/** Takes the lock for reading. Returns `-EBUSY` if a thread writes, or is about to. */
int sp_rwlock_tryrdlock(struct sp_rwlock *lock);

/** Takes the lock for reading; blocks for at most `nanoseconds`. Returns `-ETIMEDOUT` if the time is up. */
int sp_rwlock_timedrdlock(struct sp_rwlock *lock, uint64_t nanoseconds);

/** Ends a read. */
void sp_rwlock_rdunlock(struct sp_rwlock *lock);

/** Takes the lock for writing. */
void sp_rwlock_wrlock(struct sp_rwlock *lock);

/** Takes the lock for writing. Returns `-EBUSY` if it is not free. */
int sp_rwlock_trywrlock(struct sp_rwlock *lock);

/** Takes the lock for writing; blocks for at most `nanoseconds`. Returns `-ETIMEDOUT` if the time is up. */
int sp_rwlock_timedwrlock(struct sp_rwlock *lock, uint64_t nanoseconds);

/** Ends a write. */
void sp_rwlock_wrunlock(struct sp_rwlock *lock);

#ifdef SP_TSAN_
/* ThreadSanitizer knows what a mutex is. What it is told of one: */
#define SP_TSAN_READ_ 8
#define SP_TSAN_TRY_ 16
#define SP_TSAN_FAILED_ 32
void __tsan_mutex_pre_lock(void *address, unsigned flags);
void __tsan_mutex_post_lock(void *address, unsigned flags, int recursion);
int __tsan_mutex_pre_unlock(void *address, unsigned flags);
void __tsan_mutex_post_unlock(void *address, unsigned flags);

/* Functions that take, may take, may take in time, and release a lock. */
#define SP_TSAN_LOCKS_(type, flags, lock_, try_, timed_, unlock_)                                      \
    static inline void sp_tsan_##lock_(struct type *lock)                                              \
    {                                                                                                  \
        __tsan_mutex_pre_lock(lock, flags);                                                            \
        sp_##lock_(lock);                                                                              \
        __tsan_mutex_post_lock(lock, flags, 0);                                                        \
    }                                                                                                  \
    static inline int sp_tsan_##try_(struct type *lock)                                                \
    {                                                                                                  \
        int code;                                                                                      \
        __tsan_mutex_pre_lock(lock, flags | SP_TSAN_TRY_);                                             \
        code = sp_##try_(lock);                                                                        \
        __tsan_mutex_post_lock(lock, flags | SP_TSAN_TRY_ | (code ? SP_TSAN_FAILED_ : 0), 0);          \
        return code;                                                                                   \
    }                                                                                                  \
    static inline int sp_tsan_##timed_(struct type *lock, uint64_t nanoseconds)                        \
    {                                                                                                  \
        int code;                                                                                      \
        __tsan_mutex_pre_lock(lock, flags | SP_TSAN_TRY_);                                             \
        code = sp_##timed_(lock, nanoseconds);                                                         \
        __tsan_mutex_post_lock(lock, flags | SP_TSAN_TRY_ | (code ? SP_TSAN_FAILED_ : 0), 0);          \
        return code;                                                                                   \
    }                                                                                                  \
    static inline void sp_tsan_##unlock_(struct type *lock)                                            \
    {                                                                                                  \
        __tsan_mutex_pre_unlock(lock, flags);                                                          \
        sp_##unlock_(lock);                                                                            \
        __tsan_mutex_post_unlock(lock, flags);                                                         \
    }
SP_TSAN_LOCKS_(sp_mutex, 0, mutex_lock, mutex_trylock, mutex_timedlock, mutex_unlock)
SP_TSAN_LOCKS_(sp_rwlock, SP_TSAN_READ_, rwlock_rdlock, rwlock_tryrdlock, rwlock_timedrdlock, rwlock_rdunlock)
SP_TSAN_LOCKS_(sp_rwlock, 0, rwlock_wrlock, rwlock_trywrlock, rwlock_timedwrlock, rwlock_wrunlock)

/* A wait with or without a time limit. */
#define SP_TSAN_WAIT_(wait_, parameters, arguments)    \
    static inline int sp_tsan_##wait_ parameters       \
    {                                                  \
        int code;                                      \
        __tsan_mutex_pre_unlock(mutex, 0);             \
        __tsan_mutex_post_unlock(mutex, 0);            \
        code = sp_##wait_ arguments;                   \
        __tsan_mutex_pre_lock(mutex, 0);               \
        __tsan_mutex_post_lock(mutex, 0, 0);           \
        return code;                                   \
    }
SP_TSAN_WAIT_(cond_wait, (struct sp_cond *condition, struct sp_mutex *mutex), (condition, mutex))
SP_TSAN_WAIT_(cond_timedwait, (struct sp_cond *condition, struct sp_mutex *mutex, uint64_t nanoseconds),
              (condition, mutex, nanoseconds))

#define sp_mutex_lock sp_tsan_mutex_lock
#define sp_mutex_trylock sp_tsan_mutex_trylock
#define sp_mutex_timedlock sp_tsan_mutex_timedlock
#define sp_mutex_unlock sp_tsan_mutex_unlock
#define sp_cond_wait sp_tsan_cond_wait
#define sp_cond_timedwait sp_tsan_cond_timedwait
#define sp_rwlock_rdlock sp_tsan_rwlock_rdlock
#define sp_rwlock_tryrdlock sp_tsan_rwlock_tryrdlock
#define sp_rwlock_timedrdlock sp_tsan_rwlock_timedrdlock
#define sp_rwlock_rdunlock sp_tsan_rwlock_rdunlock
#define sp_rwlock_wrlock sp_tsan_rwlock_wrlock
#define sp_rwlock_trywrlock sp_tsan_rwlock_trywrlock
#define sp_rwlock_timedwrlock sp_tsan_rwlock_timedwrlock
#define sp_rwlock_wrunlock sp_tsan_rwlock_wrunlock
#endif

#ifdef __cplusplus
}
#endif

#endif
