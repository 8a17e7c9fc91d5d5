/* The functions of a flavor, each with what programs rely on. */
#define _GNU_SOURCE
#include "flavor.h"
#include <sched.h>
#include <signal.h>

struct item {
    struct rcu_head head;
    unsigned long number;
};

static unsigned long called;
static unsigned long last_number, out_of_order;
static pthread_t ran_on;

static void count_call(struct rcu_head *head)
{
    struct item *item = caa_container_of(head, struct item, head);
    ran_on = pthread_self();
    if (item->number != last_number + 1)
        out_of_order++;
    last_number = item->number;
    free(item);
    ADD(called, 1);
}

static void call(unsigned long number)
{
    struct item *item = malloc(sizeof *item);
    CHECK(item);
    item->number = number;
    call_rcu(&item->head, count_call);
}

/* A registered thread, inlined and through functions, in the words that the headers show. */
static void test_readers(void)
{
    rcu_read_lock();
#if !defined(QSBR)
    CHECK(rcu_read_ongoing());
    rcu_read_lock();
    rcu_read_unlock();
    CHECK(rcu_read_ongoing());
#endif
    rcu_read_unlock();
#if !defined(QSBR)
    CHECK(!rcu_read_ongoing());
#endif
#if defined(_LGPL_SOURCE)
#if defined(BP)
    CHECK(URCU_TLS(rcu_reader));
    CHECK((rcu_gp.ctr & URCU_BP_GP_CTR_NEST_MASK) == 1);
#else
    CHECK(URCU_TLS(rcu_reader).registered);
#endif
#if defined(MEMB) || defined(MB)
    CHECK((rcu_gp.ctr & URCU_GP_CTR_NEST_MASK) == 1);
    rcu_read_lock();
    CHECK((URCU_TLS(rcu_reader).ctr & URCU_GP_CTR_NEST_MASK) == 1);
    rcu_flavor.read_lock();
    CHECK((URCU_TLS(rcu_reader).ctr & URCU_GP_CTR_NEST_MASK) == 2);
    rcu_flavor.read_unlock();
    rcu_read_unlock();
    CHECK((URCU_TLS(rcu_reader).ctr & URCU_GP_CTR_NEST_MASK) == 0);
#endif
#endif
}

/* A grace period waits for a section of another thread, and for no thread that left. */
static int inside, leave, done, offline;

static void stay_inside(void)
{
    rcu_read_lock();
    STORE(inside, 1);
    UNTIL(LOAD(leave));
    CHECK(!LOAD(done));
    rcu_read_unlock();
    quiescent();
    rcu_thread_offline();
    STORE(offline, 1);
    UNTIL(LOAD(done));
    rcu_thread_online();
}

static void wait_for_grace_period(void)
{
    synchronize_rcu();
    STORE(done, 1);
}

static void test_synchronize(void)
{
    rcu_thread_offline();
    pthread_t reader = start_registered(stay_inside);
    UNTIL(LOAD(inside));
    pthread_t waiter = start_registered(wait_for_grace_period);
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        CHECK(!LOAD(done));
    }
    STORE(leave, 1);
    join(waiter);
    join(reader);
    rcu_thread_online();
    CHECK(LOAD(offline));
}

static void test_barrier(void)
{
    unsigned long before = LOAD(called);
    last_number = out_of_order = 0;
    for (unsigned long i = 1; i <= 1000; i++)
        call(i);
    rcu_barrier();
    CHECK(LOAD(called) == before + 1000);
    CHECK(out_of_order == 0);
    rcu_barrier();
}

static void caller(void)
{
    for (unsigned long i = 0; i < 500; i++) {
        call(0);
        quiescent();
    }
    rcu_barrier();
}

static void test_callers(void)
{
    unsigned long before = LOAD(called);
    in_threads(4, caller);
    CHECK(LOAD(called) == before + 2000);
}

/* A callback is called after the section that queued it, by a reader with blocked signals, and may queue another. */
static int left, inner, outer;
static struct rcu_head outer_head, inner_head;

static void inner_called(struct rcu_head *head)
{
    CHECK(head == &inner_head);
    STORE(inner, 1);
}

static void outer_called(struct rcu_head *head)
{
    sigset_t blocked;
    CHECK(head == &outer_head);
    CHECK(LOAD(left));
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (start_poll()) /* not before 0.14 */
        CHECK(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1));
    rcu_read_lock();
    rcu_read_unlock();
    call_rcu(&inner_head, inner_called);
    STORE(outer, 1);
}

static void test_callback(void)
{
    rcu_read_lock();
    call_rcu(&outer_head, outer_called);
    usleep(20000);
    STORE(left, 1);
    rcu_read_unlock();
    UNTIL_OFFLINE(LOAD(outer) && LOAD(inner));
}

static void test_thread_worker(unsigned long flags)
{
    unsigned long before = LOAD(called);
    struct call_rcu_data *data = create_call_rcu_data(flags, -1);
    CHECK(data);
    CHECK(!get_thread_call_rcu_data());
    set_thread_call_rcu_data(data);
    CHECK(get_thread_call_rcu_data() == data);
    CHECK(get_call_rcu_data() == data);
    pthread_t worker = get_call_rcu_thread(data);
    CHECK(!pthread_equal(worker, pthread_self()));
    call(0);
    rcu_barrier();
    CHECK(LOAD(called) == before + 1);
    CHECK(pthread_equal(ran_on, worker));
    for (int i = 0; i < 300; i++)
        call(0);
    set_thread_call_rcu_data(NULL);
    CHECK(get_call_rcu_data() != data);
    /* What is left moves to the default worker; the thread ends, and can be joined. */
    rcu_thread_offline();
    call_rcu_data_free(data);
    join(worker);
    rcu_thread_online();
    rcu_barrier();
    CHECK(LOAD(called) == before + 301);
}

static void test_default_worker(void)
{
    struct call_rcu_data *data = get_default_call_rcu_data();
    CHECK(data);
    CHECK(get_default_call_rcu_data() == data);
    CHECK(get_call_rcu_data() == data);
    call_rcu_data_free(data);
    CHECK(get_default_call_rcu_data() == data);
    unsigned long before = LOAD(called);
    call(0);
    rcu_barrier();
    CHECK(LOAD(called) == before + 1);
    CHECK(pthread_equal(ran_on, get_call_rcu_thread(data)));
}

static void test_cpu_workers(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    struct call_rcu_data *data = create_call_rcu_data(0, 0), *other = create_call_rcu_data(0, -1);
    CHECK(data && other);
    CHECK(!get_cpu_call_rcu_data(0));
    errno = 0;
    CHECK(set_cpu_call_rcu_data(-1, data) == -EINVAL && errno == EINVAL);
    errno = 0;
    CHECK(set_cpu_call_rcu_data(1 << 20, data) == -EINVAL && errno == EINVAL);
    CHECK(!get_cpu_call_rcu_data(1 << 20));
    CHECK(set_cpu_call_rcu_data(0, data) == 0);
    CHECK(get_cpu_call_rcu_data(0) == data);
    errno = 0;
    CHECK(set_cpu_call_rcu_data(0, other) == -EEXIST && errno == EEXIST);
    CHECK(get_cpu_call_rcu_data(0) == data);
    CHECK(set_cpu_call_rcu_data(0, NULL) == 0);
    CHECK(!get_cpu_call_rcu_data(0));
    synchronize_rcu();
    rcu_thread_offline();
    call_rcu_data_free(data);
    call_rcu_data_free(other);
    rcu_thread_online();

    CHECK(create_all_cpu_call_rcu_data(0) == 0);
    struct call_rcu_data *first = get_cpu_call_rcu_data(0);
    for (int i = 0; i < cpus; i++)
        CHECK(get_cpu_call_rcu_data(i));
    /* CPUs that have a worker keep it. */
    CHECK(create_all_cpu_call_rcu_data(URCU_CALL_RCU_RT) == 0);
    CHECK(get_cpu_call_rcu_data(0) == first);
    unsigned long before = LOAD(called);
    for (int i = 0; i < 100; i++)
        call(0);
    rcu_barrier();
    CHECK(LOAD(called) == before + 100);
    CHECK(!pthread_equal(ran_on, get_call_rcu_thread(get_default_call_rcu_data())));
    rcu_thread_offline();
    free_all_cpu_call_rcu_data();
    rcu_thread_online();
    CHECK(!get_cpu_call_rcu_data(0));
    call(0);
    rcu_barrier();
    CHECK(LOAD(called) == before + 101);
}

/* The program joins the thread of a worker that it has created, also if the worker is freed as the worker of a CPU. */
static void test_join_cpu_worker(void)
{
    struct call_rcu_data *data = create_call_rcu_data(0, -1);
    CHECK(data);
    pthread_t worker = get_call_rcu_thread(data);
    CHECK(set_cpu_call_rcu_data(0, data) == 0);
    rcu_thread_offline();
    free_all_cpu_call_rcu_data();
    join(worker);
    rcu_thread_online();
}

/* Any pointers, also those in which liburcu's queue encodes something, and more than one function. */
static unsigned long deferred[2], next_deferred;

static void deferred_even(void *p)
{
    CHECK((unsigned long)p == next_deferred);
    next_deferred++;
    deferred[0]++;
}

static void deferred_odd(void *p)
{
    CHECK((unsigned long)p == next_deferred);
    next_deferred++;
    deferred[1]++;
}

static void deferred_special(void *p)
{
    CHECK(p == (void *)-2 || p == (void *)-1L);
    deferred[0]++;
}

static void test_defer(void)
{
    CHECK(rcu_defer_register_thread() == 0);
    for (unsigned long i = 0; i < 10000; i++)
        defer_rcu(i / 3 % 2 ? deferred_odd : deferred_even, (void *)i);
    rcu_defer_barrier_thread();
    CHECK(next_deferred == 10000 && deferred[0] + deferred[1] == 10000);
    defer_rcu(deferred_special, (void *)-2);
    defer_rcu(deferred_special, (void *)-1);
    rcu_defer_barrier();
    CHECK(deferred[0] + deferred[1] == 10002);
    defer_rcu(deferred_special, (void *)-2);
    rcu_defer_unregister_thread();
    CHECK(deferred[0] + deferred[1] == 10003);
}

static int begun, ended, active, overlapping, exclusive;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* A deferred function has begun when this returns. */
static void defer(void (*function)(void *))
{
    STORE(begun, 0);
    STORE(ended, 0);
    CHECK(rcu_defer_register_thread() == 0);
    defer_rcu(function, (void *)8);
    UNTIL_OFFLINE(LOAD(begun));
}

static void deferred_slow(void *unused)
{
    STORE(begun, 1);
    usleep(50000);
    STORE(ended, 1);
}

/* A function that is being called is waited for, as those that are left. */
static void test_defer_barrier_waits(void)
{
    defer(deferred_slow);
    rcu_defer_barrier();
    CHECK(LOAD(ended));
    rcu_defer_unregister_thread();
}

static void test_defer_barrier_thread_waits(void)
{
    defer(deferred_slow);
    rcu_defer_barrier_thread();
    CHECK(LOAD(ended));
    rcu_defer_unregister_thread();
}

static void test_defer_unregister_waits(void)
{
    defer(deferred_slow);
    rcu_defer_unregister_thread();
    CHECK(LOAD(ended));
}

static void deferred_locks(void *unused)
{
    STORE(begun, 1);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    STORE(ended, 1);
}

static void deferred_barrier(void *unused)
{
    rcu_barrier();
    STORE(begun, 1);
}

/* Deferred functions are no callbacks of call_rcu: a barrier and a fork do not wait for them. */
static void test_defer_apart(void)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    defer(deferred_locks);
    rcu_barrier();
    rcu_thread_offline();
    call_rcu_before_fork();
    call_rcu_after_fork_parent();
    rcu_thread_online();
    CHECK(!LOAD(ended));
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    rcu_defer_unregister_thread();
    CHECK(LOAD(ended));
}

static void test_barrier_in_deferred(void)
{
    call(0);
    defer(deferred_barrier);
    rcu_defer_unregister_thread();
}

static void deferred_exclusive(void *unused)
{
    if (ADD(active, 1) != 1)
        STORE(overlapping, 1);
    usleep(1000);
    ADD(active, -1);
    ADD(exclusive, 1);
}

static void defer_exclusive(void)
{
    /* In qsbr of liburcu, a thread that waits for deferred functions stays online. */
    rcu_thread_offline();
    CHECK(rcu_defer_register_thread() == 0);
    for (int i = 0; i < 20; i++) {
        defer_rcu(deferred_exclusive, (void *)8);
        if (i % 2)
            rcu_defer_barrier_thread();
    }
    rcu_defer_unregister_thread();
    rcu_thread_online();
}

/* Deferred functions of all threads exclude each other. */
static void test_defer_exclusive(void)
{
    in_threads(3, defer_exclusive);
    CHECK(exclusive == 60 && !overlapping);
}

static void deferred_in_section(void *unused)
{
    deferred[0]++;
}

/* Without calls, barriers do not wait for a grace period. A thread may defer as many calls as with liburcu before it
waits for one. */
static void test_defer_in_section(void)
{
    CHECK(rcu_defer_register_thread() == 0);
    rcu_read_lock();
    rcu_defer_barrier();
    rcu_defer_barrier_thread();
    unsigned long before = deferred[0];
    for (int i = 0; i < 4000; i++)
        defer_rcu(deferred_in_section, (void *)8);
    CHECK(deferred[0] == before);
    rcu_read_unlock();
    rcu_defer_unregister_thread();
    CHECK(deferred[0] == before + 4000);
}

static void test_poll(void)
{
    if (!start_poll() || !poll_state()) {
        printf("no polled grace periods\n");
        return;
    }
    rcu_read_lock();
    struct polled cookie = start_poll()();
    for (int i = 0; i < 20; i++) {
        CHECK(!poll_state()(cookie));
        usleep(1000);
    }
    rcu_read_unlock();
    UNTIL_OFFLINE(poll_state()(cookie));
    CHECK(poll_state()(cookie));
    /* A grace period that has begun after the cookie serves it. */
    cookie = start_poll()();
    synchronize_rcu();
    UNTIL_OFFLINE(poll_state()(cookie));
}

/* Threads come and go beside grace periods. */
static int churned;

static void come_and_go(void)
{
    rcu_read_lock();
    rcu_read_unlock();
    ADD(churned, 1);
}

static void test_churn(void)
{
    for (int i = 0; i < 50; i++) {
        pthread_t threads[4];
        for (int j = 0; j < 4; j++)
            threads[j] = start_registered(come_and_go);
        synchronize_rcu();
        rcu_thread_offline();
        for (int j = 0; j < 4; j++)
            join(threads[j]);
        rcu_thread_online();
    }
    CHECK(churned == 200);
}

#if defined(MEMB) || defined(MB)
/* Undefined by liburcu's documentation; programs do it. */
static void *unregistered(void *unused)
{
    for (int i = 0; i < 100; i++) {
        rcu_flavor.read_lock();
        rcu_flavor.read_unlock();
    }
    return NULL;
}
#endif

#if defined(_LGPL_SOURCE)
/* The headers declare them for code without inlined readers only. */
void *rcu_dereference_sym(void *p);
void *rcu_set_pointer_sym(void **p, void *v);
void *rcu_xchg_pointer_sym(void **p, void *v);
void *rcu_cmpxchg_pointer_sym(void **p, void *old, void *new_value);
#endif

static void test_pointers(void)
{
    static int a, b;
    void *p = &a;
    CHECK(rcu_dereference_sym(p) == &a);
    rcu_set_pointer_sym(&p, &b);
    CHECK(p == &b);
    CHECK(rcu_xchg_pointer_sym(&p, &a) == &b && p == &a);
    CHECK(rcu_cmpxchg_pointer_sym(&p, &b, NULL) == &a && p == &a);
    CHECK(rcu_cmpxchg_pointer_sym(&p, &a, &b) == &a && p == &b);
    /* Of later versions. */
    void *(*dereference)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "rcu_dereference_sym2");
    CHECK(!dereference || dereference(&p) == &b);
}

typedef int futex_function(int32_t *, int, int32_t, const struct timespec *, int32_t *, int32_t);
static int32_t word, awake;

static void *sleeper(void *function)
{
    futex_function *futex = (futex_function *)function;
    while (LOAD(word) == 0)
        futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0);
    ADD(awake, 1);
    return NULL;
}

static void test_futex(futex_function *futex)
{
    STORE(word, 0);
    STORE(awake, 0);
    pthread_t thread = start(sleeper, (void *)futex);
    usleep(10000);
    STORE(word, 1);
    CHECK(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
    join(thread);
    CHECK(awake == 1);
}

/* Libraries register before `main`, in any order. */
__attribute__((constructor)) static void before_main(void)
{
    rcu_register_thread();
    rcu_read_lock();
    rcu_read_unlock();
    synchronize_rcu();
    rcu_unregister_thread();
}

#define RUN(test)                          \
    do {                                   \
        fprintf(stderr, "%s\n", #test);    \
        test;                              \
    } while (0)

int main(void)
{
#if !defined(QSBR)
    rcu_init();
    rcu_init();
#endif
    rcu_register_thread();
    RUN(test_readers());
    RUN(test_synchronize());
    RUN(test_default_worker());
    RUN(test_barrier());
    RUN(test_callers());
    RUN(test_callback());
    RUN(test_thread_worker(0));
    RUN(test_thread_worker(URCU_CALL_RCU_RT));
    RUN(test_cpu_workers());
    RUN(test_join_cpu_worker());
    RUN(test_defer());
    RUN(in_threads(1, test_defer_barrier_waits));
    RUN(in_threads(1, test_defer_barrier_thread_waits));
    RUN(in_threads(1, test_defer_unregister_waits));
    RUN(in_threads(1, test_defer_apart));
    RUN(in_threads(1, test_barrier_in_deferred));
    RUN(test_defer_exclusive());
    RUN(in_threads(1, test_defer_in_section));
    RUN(test_poll());
    RUN(test_churn());
    RUN(test_pointers());
    RUN(test_futex(compat_futex_async));
    RUN(test_futex(compat_futex_noasync));
#if defined(MEMB) || defined(MB)
    RUN(join(start(unregistered, NULL)));
#endif
    synchronize_rcu();
    rcu_unregister_thread();
    return 0;
}
