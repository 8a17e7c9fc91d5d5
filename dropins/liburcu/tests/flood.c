/* flood PRODUCERS MILLISECONDS: threads allocate objects of 64 bytes and hand them to call_rcu without a pause. Prints
the largest resident memory of the process in MB, and how many callbacks were called a second, until all were. */
#include "flavor.h"
#include <sys/resource.h>
#include <time.h>

enum { MOST = 64 };

struct object {
    struct rcu_head head;
    char value[48];
};

static int stop;
static unsigned long queued;

static void release(struct rcu_head *head)
{
    free(caa_container_of(head, struct object, head));
}

static void produce(void)
{
    unsigned long count = 0;
    for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); count++) {
        struct object *object = malloc(sizeof *object);
        CHECK(object);
        memset(object->value, 1, sizeof object->value);
        call_rcu(&object->head, release);
        quiescent();
    }
    ADD(queued, count);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int count, char **arguments)
{
    pthread_t threads[MOST];
    int producers = count > 2 ? atoi(arguments[1]) : 0;
    CHECK(producers > 0 && producers <= MOST);
    double begin = now();
    for (int i = 0; i < producers; i++)
        threads[i] = start_registered(produce);
    usleep(1000 * atoi(arguments[2]));
    STORE(stop, 1);
    for (int i = 0; i < producers; i++)
        join(threads[i]);
    rcu_barrier();
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    printf("%ld %.0f\n", usage.ru_maxrss / 1024, queued / (now() - begin));
    return 0;
}
