/* pair COUNT: begins and ends so many sections, each with a load. Prints the nanoseconds of one. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stillpoint.h>

/* Not static, so that the compiler does not know what readers load. */
unsigned long value = 1;
unsigned long *pointer = &value;

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, sum = 0;
    struct timespec before, after;
    if (sp_rcu_register_thread() != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (unsigned long i = 0; i < count; i++) {
        sp_rcu_read_lock();
        sum += *sp_rcu_dereference(pointer);
        sp_rcu_read_unlock();
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    double took = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    printf("%.3f\n", took / (double)count);
    return sum != count;
}
