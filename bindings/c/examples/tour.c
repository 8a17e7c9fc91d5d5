/* The other parts: threads that report quiescent states, sleepable sections, cookies, counters, pools, statistics. */

#define _POSIX_C_SOURCE 200809L /* for nanosleep, with -std=c11 */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stillpoint.h>

static int *value;
static int stop;
static struct sp_counter *reads;
static struct sp_domain *sessions;

/* A loop that reads all the time needs no sections: it says now and then that it holds no references. */
static void *loop(void *unused)
{
    (void)unused;
    if (sp_qsbr_register() != 0)
        return NULL;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        int *now = sp_rcu_dereference(value);
        sp_counter_add(reads, *now > 0);
        sp_qsbr_quiescent();
    }
    sp_qsbr_unregister();
    return NULL;
}

/* A section that sleeps, of a domain of its own. */
static void *session(void *unused)
{
    (void)unused;
    int section = sp_srcu_read_lock(sessions);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    sp_srcu_read_unlock(sessions, section);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    if (sp_counter_create(&reads) != 0 || sp_srcu_create(&sessions) != 0)
        return 1;
    value = malloc(sizeof *value);
    if (!value)
        return 1;
    *value = 1;
    if (pthread_create(&threads[0], NULL, loop, NULL) != 0 || pthread_create(&threads[1], NULL, session, NULL) != 0)
        return 1;
    for (int i = 2; i < 100; i++) {
        int *fresh = malloc(sizeof *fresh);
        if (!fresh)
            return 1;
        *fresh = i;
        int *old = sp_rcu_xchg_pointer(value, fresh);
        if (sp_retire(sp_qsbr_domain(), old, sizeof *old, NULL, 0) != 0)
            return 1;
    }
    while (sp_counter_sum(reads) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(threads[0], NULL);

    struct sp_cookie cookie;
    sp_cookie_start(sessions, &cookie);
    while (!sp_cookie_elapsed(sessions, cookie))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    pthread_join(threads[1], NULL);

    sp_barrier(sp_qsbr_domain());
    struct sp_stats stats;
    sp_get_stats(sp_qsbr_domain(), &stats);
    printf("%" PRIu64 " values freed after %" PRIu64 " grace periods\n", stats.done, stats.grace_periods);

    struct sp_pool *buffers;
    if (sp_pool_create(&buffers, 8) != 0)
        return 1;
    void *buffer = malloc(4096);
    if (!buffer || (sp_pool_push(buffers, buffer) != 0))
        free(buffer);
    printf("%zu buffer in the pool\n", sp_pool_len(buffers));
    sp_pool_destroy(buffers, free);

    free(value);
    sp_srcu_destroy(sessions);
    sp_counter_destroy(reads);
    return stats.done != 98;
}
