/* The program that `bench urcu` runs on liburcu and on the library in its place: `urcu_program WHAT MILLISECONDS
[CALLERS]` prints the measured values in one line. Built twice, with inlined readers (_LGPL_SOURCE) and with
functions. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>

enum { SAMPLES = 1 << 20, OBJECTS = 100000, SLEEPERS = 4 };

struct object {
    struct rcu_head head;
    unsigned long value;
};

static unsigned long *published, value = 7, called;
static int stop, ready;
static unsigned long *samples, taken;

static unsigned long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ul + time.tv_nsec;
}

static void begin(pthread_t *thread, void *(*function)(void *), void *argument)
{
    if (pthread_create(thread, NULL, function, argument) != 0)
        exit(2);
}

static void sample(unsigned long nanoseconds)
{
    unsigned long index = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    samples[index % SAMPLES] = nanoseconds;
}

static int compare(const void *a, const void *b)
{
    unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
    return (x > y) - (x < y);
}

static void print_percentiles(void)
{
    unsigned long count = taken < SAMPLES ? taken : SAMPLES;
    qsort(samples, count, sizeof *samples, compare);
    printf("%lu %lu\n", samples[count / 2], samples[count * 99 / 100]);
}

/* Reads in sections as short as can be. */
static void *busy_reader(void *unused)
{
    (void)unused;
    rcu_register_thread();
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        rcu_read_lock();
        (void)*(volatile unsigned long *)rcu_dereference(published);
        rcu_read_unlock();
    }
    rcu_unregister_thread();
    return NULL;
}

static void *sleeping_reader(void *unused)
{
    (void)unused;
    rcu_register_thread();
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        rcu_read_lock();
        usleep(1000);
        rcu_read_unlock();
    }
    rcu_unregister_thread();
    return NULL;
}

static void wait_for_readers(int readers)
{
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) != readers)
        usleep(100);
}

static void read_pairs(unsigned long end)
{
    unsigned long pairs = 0, start = now(), last;
    do {
        for (int i = 0; i < 10000; i++) {
            rcu_read_lock();
            (void)*(volatile unsigned long *)rcu_dereference(published);
            rcu_read_unlock();
        }
        pairs += 10000;
        last = now();
    } while (last < end);
    printf("%f\n", (double)(last - start) / pairs);
}

static void *synchronize_until(void *end)
{
    rcu_register_thread();
    do {
        unsigned long start = now();
        synchronize_rcu();
        sample(now() - start);
    } while (now() < *(unsigned long *)end);
    rcu_unregister_thread();
    return NULL;
}

static void count_call(struct rcu_head *head)
{
    free(caa_container_of(head, struct object, head));
    __atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
}

static struct object *new_object(void)
{
    struct object *object = malloc(sizeof *object);
    if (!object)
        exit(2);
    object->value = now();
    return object;
}

static void take_latency(struct rcu_head *head)
{
    struct object *object = caa_container_of(head, struct object, head);
    sample(now() - object->value);
    count_call(head);
}

static long resident(void)
{
    long size, pages;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
        exit(2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *what = argv[1];
    unsigned long end = now() + strtoul(argv[2], NULL, 10) * 1000000, start;
    int callers = argc > 3 ? atoi(argv[3]) : 1, readers = 0;
    pthread_t reader[SLEEPERS], threads[64];
    samples = calloc(SAMPLES, sizeof *samples);
    if (!samples)
        return 2;
    published = &value;

    if (strcmp(what, "calls") == 0)
        for (; readers < SLEEPERS; readers++)
            begin(&reader[readers], sleeping_reader, NULL);
    else if (strcmp(what, "read") != 0 && strcmp(what, "stalled") != 0)
        begin(&reader[readers++], busy_reader, NULL);
    wait_for_readers(readers);
    rcu_register_thread();

    if (strcmp(what, "read") == 0) {
        read_pairs(end);
    } else if (strcmp(what, "sync") == 0 && callers <= 64) {
        for (int i = 0; i < callers; i++)
            begin(&threads[i], synchronize_until, &end);
        for (int i = 0; i < callers; i++)
            pthread_join(threads[i], NULL);
        print_percentiles();
    } else if (strcmp(what, "calls") == 0) {
        /* The number of grace periods instead of a time: system calls are counted from outside. */
        for (int i = 0; i < callers; i++)
            synchronize_rcu();
    } else if (strcmp(what, "callback") == 0) {
        for (unsigned long i = 1; now() < end || i == 1; i++) {
            usleep(2000 + i * 7919 % 4000);
            call_rcu(&new_object()->head, take_latency);
            while (__atomic_load_n(&called, __ATOMIC_SEQ_CST) != i)
                usleep(20);
        }
        print_percentiles();
    } else if (strcmp(what, "flood") == 0) {
        unsigned long calls = 0;
        start = now();
        while (now() < end) {
            for (int i = 0; i < 100; i++)
                call_rcu(&new_object()->head, count_call);
            calls += 100;
        }
        rcu_barrier();
        printf("%f\n", calls * 1e9 / (now() - start));
    } else if (strcmp(what, "call-sync") == 0) {
        do {
            call_rcu(&new_object()->head, count_call);
            start = now();
            synchronize_rcu();
            sample(now() - start);
            usleep(200);
        } while (now() < end);
        print_percentiles();
    } else if (strcmp(what, "stalled") == 0) {
        long before = resident();
        rcu_read_lock();
        for (int i = 0; i < OBJECTS; i++)
            call_rcu(&new_object()->head, count_call);
        printf("%f\n", (double)(resident() - before) / OBJECTS);
        rcu_read_unlock();
    } else {
        return 2;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < readers; i++)
        pthread_join(reader[i], NULL);
    return 0;
}
