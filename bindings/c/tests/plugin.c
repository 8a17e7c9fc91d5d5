/* A library that `unload.c` loads and closes. */

#include <pthread.h>
#include <stdlib.h>

#include <stillpoint.h>

static void count(void *sum)
{
    __atomic_fetch_add((int *)sum, 1, __ATOMIC_RELAXED);
}

static void *read_and_defer(void *sum)
{
    for (int i = 0; i < 100; i++) {
        if (sp_rcu_read_lock() != 0 || sp_call_rcu(count, sum) != 0 || sp_rcu_read_unlock() != 0)
            return NULL;
        sp_fence_light();
    }
    return sum;
}

/* Returns 0 if two threads read and deferred. */
int plugin_work(int *sum)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, read_and_defer, sum) != 0 || !read_and_defer(sum))
        return 1;
    pthread_join(thread, &result);
    return !result || sp_synchronize_rcu() != 0 || sp_rcu_barrier() != 0;
}

/* Leaves callbacks behind that do not use this library's code. */
int plugin_leave(void)
{
    for (int i = 0; i < 1000; i++)
        if (sp_retire(sp_rcu_domain(), malloc(64), 64, NULL, 0) != 0)
            return 1;
    return 0;
}

/* Returns what the domain has done. */
unsigned long plugin_done(void)
{
    struct sp_stats stats;
    return sp_get_stats(sp_rcu_domain(), &stats) == 0 && stats.queued == 0 ? stats.done : 0;
}
