/* beside MILLISECONDS: a thread reads in sections as short as can be, beside a writer that calls synchronize_rcu in a loop.
Prints the sections and the grace periods, in thousands a second. */
#include "flavor.h"
#include <time.h>

static unsigned long value = 7, *published = &value, sections;
static int stop;

static void *read_always(void *unused)
{
    (void)unused;
    unsigned long sum = 0;
    rcu_register_thread();
    for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); sections++) {
        rcu_read_lock();
        sum += *rcu_dereference(published);
        rcu_read_unlock();
        quiescent();
    }
    rcu_unregister_thread();
    CHECK(sum == 7 * sections);
    return NULL;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * time.tv_sec + 1e-6 * time.tv_nsec;
}

int main(int count, char **arguments)
{
    double begin = now(), end = begin + (count > 1 ? atoi(arguments[1]) : 1000);
    unsigned long grace_periods = 0;
    pthread_t reader = start(read_always, NULL);
    for (; now() < end; grace_periods++)
        synchronize_rcu();
    STORE(stop, 1);
    join(reader);
    double milliseconds = now() - begin;
    printf("%.0f %.1f\n", sections / milliseconds, grace_periods / milliseconds);
    return 0;
}
