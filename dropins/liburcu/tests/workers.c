/* What the workers of call_rcu do, each by its name: floods, the workers of CPUs, grace periods that they share. */
#define _GNU_SOURCE
#include "flavor.h"
#include <sched.h>

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define GP JOIN(urcu_, FLAVOR, _gp)

enum { FEW = 10000, FLOOD = 50000 };

static int called, calling, held, cpus;
static __thread int yields;

/* In place of the C library's: counts the calls of each thread. */
int sched_yield(void)
{
    yields++;
    return 0;
}

/* In place of the C library's: the machine has more CPUs, if a test asks for them. */
long sysconf(int name)
{
    long (*original)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_NPROCESSORS_CONF && LOAD(cpus) ? LOAD(cpus) : original(name);
}

static void count_call(struct rcu_head *unused)
{
    ADD(called, 1);
}

/* Queues a callback itself, at last: the worker does not yield to the threads that it works for. */
static void call_held(struct rcu_head *unused)
{
    static struct rcu_head again;
    STORE(calling, 1);
    UNTIL(!LOAD(held));
    call_rcu(&again, count_call);
    CHECK(yields == 0);
}

/* Threads that queue callbacks yield if the worker has not come to many others, and no longer. */
TEST(flood)
{
    static struct rcu_head heads[FLOOD], first, after;
    STORE(held, 1);
    call_rcu(&first, call_held);
    UNTIL_OFFLINE(LOAD(calling));
    for (int i = 0; i < FLOOD; i++) {
        CHECK(i > FEW || yields == 0);
        call_rcu(&heads[i], count_call);
    }
    CHECK(yields >= FLOOD / 2);
    STORE(held, 0);
    rcu_barrier();
    rcu_barrier();
    CHECK(LOAD(called) == FLOOD + 1);
    yields = 0;
    call_rcu(&after, count_call);
    CHECK(yields == 0);
    rcu_barrier();
}

/* Returns the number of the last grace period. */
static unsigned long number(void)
{
    unsigned long counter = LOAD(GP.ctr);
#if defined(QSBR)
    return counter / 2;
#else
    return counter >> 32;
#endif
}

/* A registered thread: without one, a grace period has no number. */
static int registered;

static void stay_registered(void)
{
    rcu_read_lock();
    rcu_read_unlock();
    rcu_thread_offline();
    STORE(registered, 1);
    for (;;)
        pause();
}

/* All workers are freed after one grace period. */
TEST(free_all)
{
    start_registered(stay_registered);
    UNTIL(LOAD(registered));
    STORE(cpus, 16);
    CHECK(create_all_cpu_call_rcu_data(0) == 0);
    CHECK(get_cpu_call_rcu_data(15) && !get_cpu_call_rcu_data(16));
    unsigned long before = number();
    free_all_cpu_call_rcu_data();
    CHECK(number() - before == 1);
    for (int i = 0; i < 16; i++)
        CHECK(!get_cpu_call_rcu_data(i));
    free_all_cpu_call_rcu_data();
    CHECK(number() - before == 1);
}

/* The same with callbacks in each queue, which have been called then. */
TEST(free_all_with_callbacks)
{
    static struct rcu_head heads[16];
    STORE(cpus, 16);
    CHECK(create_all_cpu_call_rcu_data(URCU_CALL_RCU_RT) == 0);
    for (int i = 0; i < 16; i++) {
        set_thread_call_rcu_data(get_cpu_call_rcu_data(i));
        call_rcu(&heads[i], count_call);
    }
    set_thread_call_rcu_data(NULL);
    free_all_cpu_call_rcu_data();
    CHECK(LOAD(called) == 16);
}

/* One worker serves two CPUs, and is freed once. */
TEST(free_all_shared)
{
    static struct rcu_head head;
    struct call_rcu_data *data = create_call_rcu_data(0, -1);
    CHECK(data && sysconf(_SC_NPROCESSORS_CONF) > 1);
    CHECK(set_cpu_call_rcu_data(0, data) == 0 && set_cpu_call_rcu_data(1, data) == 0);
    call_rcu(&head, count_call);
    free_all_cpu_call_rcu_data();
    rcu_barrier();
    CHECK(LOAD(called) == 1);
}

/* The default worker serves a CPU, and is not freed. */
TEST(free_all_default)
{
    static struct rcu_head head;
    CHECK(set_cpu_call_rcu_data(0, get_default_call_rcu_data()) == 0);
    free_all_cpu_call_rcu_data();
    call_rcu(&head, count_call);
    rcu_barrier();
    CHECK(LOAD(called) == 1);
}

/* A worker that the system has moved away from its CPU returns. */
static bool is_pinned_to(pthread_t thread, int cpu)
{
    cpu_set_t set;
    CHECK(pthread_getaffinity_np(thread, sizeof set, &set) == 0);
    return CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set);
}

TEST(pinned_again)
{
    cpu_set_t all, other;
    int cpu = -1;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; i < CPU_SETSIZE && cpu < 0; i++)
        if (CPU_ISSET(i, &all))
            cpu = i;
    other = all;
    CPU_CLR(cpu, &other);
    if (CPU_COUNT(&other) == 0)
        return;
    struct call_rcu_data *data = create_call_rcu_data(0, cpu);
    CHECK(data);
    pthread_t thread = get_call_rcu_thread(data);
    UNTIL(is_pinned_to(thread, cpu));
    CHECK(pthread_setaffinity_np(thread, sizeof other, &other) == 0);
    set_thread_call_rcu_data(data);
    while (!is_pinned_to(thread, cpu)) {
        static struct rcu_head head;
        call_rcu(&head, count_call);
        rcu_barrier();
    }
    set_thread_call_rcu_data(NULL);
    call_rcu_data_free(data);
}

int main(int count, char **arguments)
{
    return run_named(count > 1 ? arguments[1] : NULL);
}
