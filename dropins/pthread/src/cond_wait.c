/*
 * The waits of pthread_cond_t, which are cancellation points. A cancellation unwinds the thread from the call in
 * which it sleeps, and must not unwind functions of Rust. So these are in C.
 *
 * A thread sleeps with asynchronous cancellation, as in the C library: in the call to the kernel, and in nothing else.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* See cond.rs. */
enum route { ROUTE_OURS, ROUTE_ORIGINAL, ROUTE_POLLED };
enum route stillpoint_cond_route(pthread_cond_t *cond, pthread_mutex_t *mutex);
int stillpoint_cond_begin(pthread_cond_t *cond, pthread_mutex_t *mutex, uint32_t *node, const uint32_t **word, uint64_t *pause);
bool stillpoint_cond_end(pthread_cond_t *cond, uint32_t node, bool passes);
uint32_t stillpoint_cond_not_notified(void);
int stillpoint_unlock_to_wait(pthread_mutex_t *mutex);
int stillpoint_lock_after_wait(pthread_mutex_t *mutex);

static struct {
    int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int (*clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
} original;

/* Also called by waits that precede it. */
__attribute__((constructor)) static void find_originals(void)
{
    if (!original.wait) {
        original.clockwait = (typeof(original.clockwait))dlsym(RTLD_NEXT, "pthread_cond_clockwait");
        original.timedwait = (typeof(original.timedwait))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        original.wait = (typeof(original.wait))dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
    }
}

/* The clock of pthread_condattr_setclock. */
static clockid_t clock_of(pthread_cond_t *cond)
{
    return cond->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* The time on the clock after a pause. */
static struct timespec time_after(clockid_t clock, uint64_t nanoseconds)
{
    struct timespec time;
    clock_gettime(clock, &time);
    nanoseconds += time.tv_nsec;
    time.tv_sec += nanoseconds / 1000000000;
    time.tv_nsec = nanoseconds % 1000000000;
    return time;
}

static bool is_before(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec < other->tv_sec || (one->tv_sec == other->tv_sec && one->tv_nsec < other->tv_nsec);
}

static bool is_over(clockid_t clock, const struct timespec *until)
{
    struct timespec now;
    if (!until)
        return false;
    clock_gettime(clock, &now);
    return !is_before(&now, until);
}

struct wait {
    pthread_cond_t *cond;
    pthread_mutex_t *mutex;
    uint32_t node; /* 0 if there is none left: the thread sleeps for a `pause`, and checks its condition. */
    const uint32_t *word;
    uint64_t pause;
};

/* Sleeps until the thread is notified. Returns true if the time is over. */
static bool sleep_until(const struct wait *wait, clockid_t clock, const struct timespec *until)
{
    int operation = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
    uint32_t not_notified = stillpoint_cond_not_notified();
    if (!wait->node) {
        struct timespec end = time_after(clock, wait->pause);
        clock_nanosleep(clock, TIMER_ABSTIME, until && is_before(until, &end) ? until : &end, NULL);
        return is_over(clock, until);
    }
    while (__atomic_load_n(wait->word, __ATOMIC_RELAXED) == not_notified) {
        int type, error = 0;
        if (until && until->tv_sec < 0) /* The kernel takes no such time. */
            return true;
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
        if (syscall(SYS_futex, wait->word, operation, not_notified, until, NULL, FUTEX_BITSET_MATCH_ANY))
            error = errno;
        pthread_setcanceltype(type, NULL);
        if (error == ETIMEDOUT)
            return true;
    }
    return false;
}

/* The thread is cancelled. It does not consume a notification, and holds the mutex when later handlers run. */
static void cancelled(void *argument)
{
    struct wait *wait = argument;
    stillpoint_cond_end(wait->cond, wait->node, true);
    stillpoint_lock_after_wait(wait->mutex);
}

static int wait_ours(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    struct wait wait = { cond, mutex, 0, NULL, 0 };
    int saved = errno, error;
    bool over, notified;
    pthread_testcancel();
    error = stillpoint_cond_begin(cond, mutex, &wait.node, &wait.word, &wait.pause);
    if (error)
        return error;
    pthread_cleanup_push(cancelled, &wait);
    over = sleep_until(&wait, clock, until);
    pthread_cleanup_pop(0);
    notified = stillpoint_cond_end(cond, wait.node, false);
    error = stillpoint_lock_after_wait(mutex);
    errno = saved;
    return error ? error : over && !notified ? ETIMEDOUT : 0;
}

static void lock_again(void *mutex)
{
    stillpoint_lock_after_wait(mutex);
}

/* Waits at the C library's variable for a millisecond, with a mutex of the C library's. */
static int wait_polled(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    pthread_mutex_t other = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    struct timespec moment = time_after(clock_of(cond), 1000000);
    int error;
    pthread_testcancel();
    pthread_mutex_lock(&other);
    stillpoint_unlock_to_wait(mutex);
    pthread_cleanup_push(lock_again, mutex);
    error = original.timedwait(cond, &other, &moment);
    pthread_cleanup_pop(1);
    pthread_mutex_unlock(&other);
    return error != ETIMEDOUT ? error : is_over(clock, until) ? ETIMEDOUT : 0;
}

static bool is_valid(clockid_t clock, const struct timespec *until)
{
    return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    enum route route = stillpoint_cond_route(cond, mutex);
    find_originals();
    return route == ROUTE_OURS     ? wait_ours(cond, mutex, CLOCK_MONOTONIC, NULL)
           : route == ROUTE_POLLED ? wait_polled(cond, mutex, CLOCK_MONOTONIC, NULL)
                                   : original.wait(cond, mutex);
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    clockid_t clock = clock_of(cond);
    enum route route;
    if (!is_valid(clock, until))
        return EINVAL;
    route = stillpoint_cond_route(cond, mutex);
    find_originals();
    return route == ROUTE_OURS     ? wait_ours(cond, mutex, clock, until)
           : route == ROUTE_POLLED ? wait_polled(cond, mutex, clock, until)
                                   : original.timedwait(cond, mutex, until);
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    enum route route;
    if (!is_valid(clock, until))
        return EINVAL;
    route = stillpoint_cond_route(cond, mutex);
    find_originals();
    return route == ROUTE_OURS          ? wait_ours(cond, mutex, clock, until)
           : route == ROUTE_POLLED      ? wait_polled(cond, mutex, clock, until)
           : original.clockwait == NULL ? ENOSYS
                                        : original.clockwait(cond, mutex, clock, until);
}

/*
 * Programs that were linked with a C library before 2.3.2 have smaller variables. The C library stores a pointer there,
 * and so does this. The old pthread_cond_init and pthread_cond_destroy, which remain the C library's, clear and free
 * it.
 */
struct old_cond {
    pthread_cond_t *cond;
};

static pthread_cond_t *cond_of(struct old_cond *old)
{
    pthread_cond_t *cond = __atomic_load_n(&old->cond, __ATOMIC_ACQUIRE), *fresh;
    if (cond)
        return cond;
    fresh = calloc(1, sizeof *fresh);
    if (!fresh || __atomic_compare_exchange_n(&old->cond, &cond, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fresh;
    free(fresh);
    return cond;
}

int stillpoint_old_cond_wait(struct old_cond *old, pthread_mutex_t *mutex)
{
    pthread_cond_t *cond = cond_of(old);
    return cond ? pthread_cond_wait(cond, mutex) : ENOMEM;
}

int stillpoint_old_cond_timedwait(struct old_cond *old, pthread_mutex_t *mutex, const struct timespec *until)
{
    pthread_cond_t *cond = cond_of(old);
    return cond ? pthread_cond_timedwait(cond, mutex, until) : ENOMEM;
}

int stillpoint_old_cond_signal(struct old_cond *old)
{
    pthread_cond_t *cond = cond_of(old);
    return cond ? pthread_cond_signal(cond) : ENOMEM;
}

int stillpoint_old_cond_broadcast(struct old_cond *old)
{
    pthread_cond_t *cond = cond_of(old);
    return cond ? pthread_cond_broadcast(cond) : ENOMEM;
}

__asm__(".symver stillpoint_old_cond_wait, pthread_cond_wait@GLIBC_2.2.5, remove");
__asm__(".symver stillpoint_old_cond_timedwait, pthread_cond_timedwait@GLIBC_2.2.5, remove");
__asm__(".symver stillpoint_old_cond_signal, pthread_cond_signal@GLIBC_2.2.5, remove");
__asm__(".symver stillpoint_old_cond_broadcast, pthread_cond_broadcast@GLIBC_2.2.5, remove");
