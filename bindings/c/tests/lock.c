/* The locks: what each function returns, and that threads exclude each other. */

#include "check.h"

#include <stillpoint/lock.h>

enum { THREADS = 4, ROUNDS = 20000 };

static struct sp_mutex mutex = SP_MUTEX_INIT, other = SP_MUTEX_INIT;
static struct sp_cond filled = SP_COND_INIT;
static struct sp_rwlock rwlock = SP_RWLOCK_INIT;
static int total, parts[2], waiting, jobs, done;

/* While the main thread holds both locks, and after. */
static void *refused(void *unused)
{
    CHECK(sp_mutex_trylock(&mutex) == -EBUSY && sp_mutex_timedlock(&mutex, 1000000) == -ETIMEDOUT);
    CHECK(sp_rwlock_tryrdlock(&rwlock) == -EBUSY && sp_rwlock_timedrdlock(&rwlock, 1000000) == -ETIMEDOUT);
    CHECK(sp_rwlock_trywrlock(&rwlock) == -EBUSY && sp_rwlock_timedwrlock(&rwlock, 1000000) == -ETIMEDOUT);
    return unused;
}

static void *reads_only(void *unused)
{
    CHECK(sp_rwlock_tryrdlock(&rwlock) == 0);
    CHECK(sp_rwlock_trywrlock(&rwlock) == -EBUSY && sp_rwlock_timedwrlock(&rwlock, 1000000) == -ETIMEDOUT);
    sp_rwlock_rdunlock(&rwlock);
    return unused;
}

static void *waits(void *unused)
{
    sp_mutex_lock(&mutex);
    waiting++;
    CHECK(sp_cond_wait(&filled, &mutex) == 0);
    waiting--;
    sp_mutex_unlock(&mutex);
    return unused;
}

/* Until so many threads wait. */
static void until_waiting(int number)
{
    for (int now = number + 1; now != number; usleep(100)) {
        sp_mutex_lock(&mutex);
        now = waiting;
        sp_mutex_unlock(&mutex);
    }
}

static void wake_both(void)
{
    until_waiting(2);
    sp_cond_signal(&filled);
    until_waiting(1);
    sp_cond_broadcast(&filled);
}

static void functions(void)
{
    struct sp_rwlock *fresh = malloc(sizeof *fresh);
    CHECK(fresh && sizeof mutex == 4 && sizeof filled == 16 && sizeof rwlock == 56);
    sp_rwlock_init(fresh);
    CHECK(memcmp(fresh, &rwlock, sizeof rwlock) == 0);
    for (int i = 0; i < 3000; i++) {
        sp_rwlock_rdlock(fresh);
        sp_rwlock_rdunlock(fresh);
    }
    CHECK(sp_rwlock_timedwrlock(fresh, UINT64_MAX) == 0);
    sp_rwlock_wrunlock(fresh);
    sp_rwlock_destroy(fresh);
    free(fresh);

    CHECK(sp_mutex_trylock(&mutex) == 0);
    CHECK(sp_rwlock_trywrlock(&rwlock) == 0);
    join(start(refused, NULL));
    sp_rwlock_wrunlock(&rwlock);
    CHECK(sp_rwlock_timedrdlock(&rwlock, 0) == 0);
    join(start(reads_only, NULL));
    sp_rwlock_rdunlock(&rwlock);
    CHECK(sp_cond_timedwait(&filled, &mutex, 1000000) == -ETIMEDOUT);
    sp_mutex_unlock(&mutex);
    CHECK(sp_mutex_timedlock(&mutex, 0) == 0);
    sp_mutex_unlock(&mutex);

    in_threads(2, waits, wake_both);
}

/* Both locks, by each function, around what is not atomic. */
static void *adds(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0)
            while (sp_mutex_trylock(&mutex) != 0)
                sched_yield();
        else if (i % 4 == 1)
            while (sp_mutex_timedlock(&mutex, 50000) != 0)
                ;
        else
            sp_mutex_lock(&mutex);
        total++;
        sp_mutex_unlock(&mutex);
        if (i % 8 == 0) {
            if (i % 16 || sp_rwlock_timedwrlock(&rwlock, 50000) != 0)
                sp_rwlock_wrlock(&rwlock);
            parts[0]++;
            parts[1]++;
            sp_rwlock_wrunlock(&rwlock);
        } else {
            if (i % 8 < 4 || sp_rwlock_timedrdlock(&rwlock, 50000) != 0)
                sp_rwlock_rdlock(&rwlock);
            CHECK(parts[0] == parts[1]);
            sp_rwlock_rdunlock(&rwlock);
        }
    }
    return unused;
}

static void *works(void *unused)
{
    sp_mutex_lock(&mutex);
    for (;;) {
        while (jobs == 0) {
            int code = done % 2 ? sp_cond_wait(&filled, &mutex) : sp_cond_timedwait(&filled, &mutex, 1000000000);
            CHECK(code == 0 || code == -ETIMEDOUT);
        }
        if (jobs < 0)
            break;
        jobs--;
        done++;
    }
    sp_mutex_unlock(&mutex);
    return unused;
}

static void make_jobs(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        sp_mutex_lock(&mutex);
        jobs++;
        sp_mutex_unlock(&mutex);
        sp_cond_signal(&filled);
    }
    for (int left = 1; left; usleep(100)) {
        sp_mutex_lock(&mutex);
        left = jobs;
        jobs = left ? left : -1;
        sp_mutex_unlock(&mutex);
    }
    sp_cond_broadcast(&filled);
}

/* A wait with another mutex than that of the waiters is refused. */
static void other_mutex(void)
{
    pthread_t thread = start(waits, NULL);
    until_waiting(1);
    sp_mutex_lock(&other);
    CHECK(sp_cond_wait(&filled, &other) == -EINVAL && sp_mutex_trylock(&other) == -EBUSY);
    sp_mutex_unlock(&other);
    sp_cond_signal(&filled);
    join(thread);
}

int main(void)
{
    alarm(280);
    functions();
    in_threads(THREADS, adds, NULL);
    CHECK(total == THREADS * ROUNDS && parts[0] == THREADS * ROUNDS / 8 && parts[1] == parts[0]);
    in_threads(THREADS, works, make_jobs);
    CHECK(done == ROUNDS);
    other_mutex();
    return 0;
}
