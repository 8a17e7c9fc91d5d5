/* beside MILLISECONDS [RATE [registered|spawned]]: a thread reads in sections as short as can be, beside a writer that
calls synchronize_rcu in a loop, RATE thousand times a second at most. The thread registers for each section if the
last argument says so, or starts a thread for each. Prints the sections and the grace periods, in thousands a second,
and the sections in thousands a second of the reader's CPU time. */
#include "flavor.h"
#include <time.h>

static unsigned long value = 7, *published = &value, sections;
static int stop;
static double cpu;

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return 1e3 * time.tv_sec + 1e-6 * time.tv_nsec;
}

static void read_once(void)
{
    rcu_read_lock();
    CHECK(*rcu_dereference(published) == 7);
    rcu_read_unlock();
    quiescent();
    sections++;
}

static void *read_always(void *way)
{
    if (!way)
        rcu_register_thread();
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (!way)
            read_once();
        else if (strcmp(way, "spawned"))
            run_registered((void *)read_once);
        else
            join(start_registered(read_once));
    }
    cpu = now(CLOCK_THREAD_CPUTIME_ID);
    if (!way)
        rcu_unregister_thread();
    return NULL;
}

int main(int count, char **arguments)
{
    double begin = now(CLOCK_MONOTONIC), end = begin + (count > 1 ? atoi(arguments[1]) : 1000);
    double rate = count > 2 ? atof(arguments[2]) : 1e6;
    unsigned long grace_periods = 0;
    pthread_t reader = start(read_always, count > 3 ? arguments[3] : NULL);
    for (; now(CLOCK_MONOTONIC) < end; grace_periods++) {
        synchronize_rcu();
        while (now(CLOCK_MONOTONIC) < begin + grace_periods / rate)
            ;
    }
    STORE(stop, 1);
    join(reader);
    double milliseconds = now(CLOCK_MONOTONIC) - begin;
    printf("%.2f %.1f %.0f\n", sections / milliseconds, grace_periods / milliseconds, sections / cpu);
    return 0;
}
