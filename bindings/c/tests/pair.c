/* pair COUNT [bare|lock]: begins and ends so many sections, each with a load. With "bare", it only loads; with "lock",
under a mutex. Prints the nanoseconds of one. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stillpoint/lock.h>

/* Not static, so that the compiler does not know what readers load. */
unsigned long value = 1;
unsigned long *pointer = &value;
struct sp_mutex mutex = SP_MUTEX_INIT;

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, sum = 0;
    const char *what = argc > 2 ? argv[2] : "section";
    struct timespec before, after;
    if (sp_rcu_register_thread() != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &before);
    if (strcmp(what, "bare") == 0) {
        for (unsigned long i = 0; i < count; i++)
            sum += *sp_rcu_dereference(pointer);
    } else if (strcmp(what, "lock") == 0) {
        for (unsigned long i = 0; i < count; i++) {
            sp_mutex_lock(&mutex);
            sum += *sp_rcu_dereference(pointer);
            sp_mutex_unlock(&mutex);
        }
    } else {
        for (unsigned long i = 0; i < count; i++) {
            sp_rcu_read_lock();
            sum += *sp_rcu_dereference(pointer);
            sp_rcu_read_unlock();
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    double took = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    printf("%.3f\n", took / (double)count);
    return sum != count;
}
