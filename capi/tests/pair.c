/* pair COUNT: begins and ends so many sections, each with a load. Prints the nanoseconds of one. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stillpoint.h>

static unsigned long value = 1;
static unsigned long *pointer = &value;

static __attribute__((noinline)) unsigned long one_section(unsigned long **from)
{
    sp_rcu_read_lock();
    unsigned long found = *sp_rcu_dereference(*from);
    sp_rcu_read_unlock();
    return found;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, sum = 0;
    struct timespec before, after;
    if (sp_rcu_register_thread() != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (unsigned long i = 0; i < count; i++)
        sum += one_section(&pointer);
    clock_gettime(CLOCK_MONOTONIC, &after);
    printf("%.3f\n", ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / (double)count);
    return sum != count;
}
