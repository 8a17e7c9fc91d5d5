/* Rare situations, each by its name: forks while other threads are busy in the library, threads that cannot be started,
workers that are freed while others use them. */
#define _GNU_SOURCE
#include "flavor.h"
#include <signal.h>
#include <sys/mman.h>

static int denied, calling, held, inside, leaving, left, called;

/* In place of the C library's: no thread can be started while `denied` is set. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *), void *argument)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return LOAD(denied) ? EAGAIN : create(thread, attr, function, argument);
}

static void count_call(struct rcu_head *unused)
{
    ADD(called, 1);
}

static void call_slowly(struct rcu_head *unused)
{
    STORE(calling, 1);
    usleep(100000);
    UNTIL(!LOAD(held));
}

/* A worker is inside this callback when the function returns, and as long as `held` is set. */
static void keep_worker_busy(void)
{
    static struct rcu_head head;
    call_rcu(&head, call_slowly);
    UNTIL_OFFLINE(LOAD(calling));
}

static void stay_inside(void)
{
    rcu_read_lock();
    STORE(inside, 1);
    UNTIL(LOAD(leaving));
    usleep(50000);
    STORE(inside, 0);
    STORE(left, 1);
    rcu_read_unlock();
}

/* Some tests use `_Fork`, for which the C library runs no handlers. */
static pid_t (*make_child)(void) = fork;

/* The child of a fork, with the hooks of call_rcu, must succeed. */
static void fork_to(void (*child)(void), bool hooks)
{
    rcu_thread_offline();
    if (hooks)
        call_rcu_before_fork();
    pid_t process = make_child();
    CHECK(process >= 0);
    if (process == 0) {
        alarm(60);
        if (hooks)
            call_rcu_after_fork_child();
        rcu_thread_online();
        child();
        _exit(0);
    }
    if (hooks)
        call_rcu_after_fork_parent();
    await_child(process);
    rcu_thread_online();
}

#if defined(BP)
/* New threads of a child get the readers of threads that the child has lost, and grace periods wait for them. */
static int readers;

static void read_and_stay(void)
{
    rcu_read_lock();
    rcu_read_unlock();
    ADD(readers, 1);
    for (;;)
        pause();
}

static void synchronize_with_new_threads(void)
{
    for (int i = 0; i < 6; i++) {
        STORE(leaving, 0);
        pthread_t thread = start_registered(stay_inside);
        UNTIL(LOAD(inside));
        STORE(leaving, 1);
        synchronize_rcu();
        CHECK(!LOAD(inside));
        join(thread);
    }
}

TEST(readers_of_child)
{
    for (int i = 0; i < 4; i++)
        start_registered(read_and_stay);
    UNTIL(LOAD(readers) == 4);
    fork_to(synchronize_with_new_threads, false);
}

/* Signals are blocked between the hooks of bp, in the thread that forks, and no longer. */
static bool is_blocked(void)
{
    sigset_t set;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0);
    return sigismember(&set, SIGUSR1);
}

TEST(signals_beside_fork)
{
    for (int i = 0; i < 4; i++) {
        make_child = i % 2 ? _Fork : fork;
        urcu_bp_before_fork();
        CHECK(is_blocked());
        pid_t process = make_child();
        CHECK(process >= 0);
        if (process == 0) {
            alarm(60);
            CHECK(is_blocked());
            urcu_bp_after_fork_child();
            CHECK(!is_blocked());
            urcu_bp_before_fork();
            urcu_bp_after_fork_parent();
            CHECK(!is_blocked());
            synchronize_rcu();
            _exit(0);
        }
        urcu_bp_after_fork_parent();
        CHECK(!is_blocked());
        await_child(process);
    }
}
#endif

/* Without a thread for it, a poll runs what it can of a grace period. The next grace period misses no reader. */
TEST(poll_without_thread)
{
    rcu_thread_offline();
    pthread_t thread = start_registered(stay_inside);
    UNTIL(LOAD(inside));
    STORE(denied, 1);
    struct polled cookie = start_poll()();
    CHECK(!poll_state()(cookie));
    STORE(leaving, 1);
    synchronize_rcu();
    CHECK(LOAD(left));
    STORE(denied, 0);
    join(thread);
    rcu_thread_online();
}

/* A section of the thread that polls blocks the grace period. */
TEST(poll_in_section)
{
    STORE(denied, 1);
    rcu_read_lock();
    struct polled cookie = start_poll()();
    CHECK(!poll_state()(cookie));
    rcu_read_unlock();
    STORE(denied, 0);
}

/* call_rcu is delayed between its choice of a CPU's worker and the queue: the head lies in memory that is read-only. */
static struct rcu_head *late;

static void permit(int signal)
{
    STORE(calling, 1);
    usleep(200000);
    mprotect(late, 4096, PROT_READ | PROT_WRITE);
}

static void call_late(void)
{
    call_rcu(late, count_call);
}

static void free_in_use(bool all)
{
    late = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(late != MAP_FAILED);
    signal(SIGSEGV, permit);
    CHECK(create_all_cpu_call_rcu_data(0) == 0);
    rcu_thread_offline();
    pthread_t thread = start_registered(call_late);
    UNTIL(LOAD(calling));
    if (all) {
        free_all_cpu_call_rcu_data();
    } else {
        for (int i = 0; i < sysconf(_SC_NPROCESSORS_CONF); i++) {
            struct call_rcu_data *data = get_cpu_call_rcu_data(i);
            CHECK(set_cpu_call_rcu_data(i, NULL) == 0);
            synchronize_rcu();
            call_rcu_data_free(data);
        }
    }
    join(thread);
    rcu_barrier();
    CHECK(LOAD(called) == 1);
    rcu_thread_online();
}

TEST(cpu_worker_in_use)
{
    free_in_use(false);
}
TEST(all_cpu_workers_in_use)
{
    free_in_use(true);
}

/* The threads of CPUs' workers are joined: their stacks do not stay. */
static unsigned long mapped(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages;
}

TEST(cpu_workers_joined)
{
    unsigned long before = 0;
    for (int i = 0; i < 60; i++) {
        if (i == 10)
            before = mapped();
        CHECK(create_all_cpu_call_rcu_data(0) == 0);
        free_all_cpu_call_rcu_data();
    }
    size_t stack = 0;
    pthread_attr_t attr;
    CHECK(pthread_getattr_default_np(&attr) == 0 && pthread_attr_getstacksize(&attr, &stack) == 0);
    CHECK((mapped() - before) * 4096 < 25 * stack * sysconf(_SC_NPROCESSORS_CONF));
}

/* Another thread is in rcu_barrier when the process forks. */
static void call_all(void)
{
    static struct rcu_head head;
    call_rcu(&head, count_call);
    rcu_barrier();
    CHECK(LOAD(called) == 11);
}

static void fork_beside_barrier(bool hooks, bool own)
{
    static struct rcu_head heads[10];
    if (own)
        set_thread_call_rcu_data(create_call_rcu_data(0, -1));
    /* Only the hooks wait for the callback. */
    STORE(held, !hooks);
    keep_worker_busy();
    for (int i = 0; i < 10; i++)
        call_rcu(&heads[i], count_call);
    pthread_t thread = start_registered(rcu_barrier);
    usleep(50000);
    fork_to(call_all, hooks);
    STORE(held, 0);
    join_offline(thread);
    CHECK(LOAD(called) == 10);
}

TEST(fork_beside_barrier)
{
    fork_beside_barrier(false, false);
}
TEST(fork_beside_barrier_hooks)
{
    fork_beside_barrier(true, false);
}
TEST(fork_beside_barrier_own_worker)
{
    fork_beside_barrier(true, true);
}

/* A caller polls when the process forks, and again in the child. */
static void poll_again(void)
{
    struct polled cookie = start_poll()();
    rcu_barrier();
    CHECK(LOAD(called) == 10);
    UNTIL_OFFLINE(poll_state()(cookie));
}

TEST(fork_beside_poll)
{
    static struct rcu_head heads[10];
    keep_worker_busy();
    start_poll()();
    for (int i = 0; i < 10; i++)
        call_rcu(&heads[i], count_call);
    fork_to(poll_again, true);
    rcu_barrier();
    CHECK(LOAD(called) == 10);
}

/* Other threads are in defer_rcu when the process forks. */
static void nothing(void *unused)
{
}

static void defer_always(void)
{
    CHECK(rcu_defer_register_thread() == 0);
    for (;;) {
        defer_rcu(nothing, (void *)8);
        quiescent();
    }
}

static void call_one(void)
{
    static struct rcu_head head;
    call_rcu(&head, count_call);
    rcu_barrier();
    CHECK(LOAD(called) == 1);
}

TEST(fork_beside_defer)
{
    for (int i = 0; i < 3; i++)
        start_registered(defer_always);
    usleep(20000);
    for (int i = 0; i < 60; i++)
        fork_to(call_one, true);
}

/* Other threads lead grace periods, which are fences above all, when the process forks. */
static void synchronize_always(void)
{
    for (;;)
        synchronize_rcu();
}

static void synchronize_and_call(void)
{
    static struct rcu_head head;
    synchronize_rcu();
    call_rcu(&head, count_call);
    rcu_barrier();
    CHECK(LOAD(called) == 1);
}

static void fork_beside_synchronize(void)
{
    for (int i = 0; i < 3; i++)
        start_registered(synchronize_always);
    usleep(20000);
    for (int i = 0; i < 60; i++)
        fork_to(synchronize_and_call, true);
}

TEST(fork_beside_synchronize)
{
    fork_beside_synchronize();
}
TEST(fork_beside_synchronize_no_handlers)
{
    make_child = _Fork;
    fork_beside_synchronize();
}

/* A thread inside a section queues its first callback while a worker's grace period and a fork wait. */
static void call_in_section(void)
{
    static struct rcu_head head;
    rcu_read_lock();
    STORE(inside, 1);
    UNTIL(LOAD(calling));
    usleep(50000);
    call_rcu(&head, count_call);
    rcu_read_unlock();
}

static void call_what_was_queued(void)
{
    rcu_barrier();
    CHECK(LOAD(called) >= 1);
}

TEST(fork_beside_section)
{
    static struct rcu_head head;
    set_thread_call_rcu_data(create_call_rcu_data(0, -1));
    rcu_thread_offline();
    pthread_t thread = start_registered(call_in_section);
    UNTIL(LOAD(inside));
    rcu_thread_online();
    call_rcu(&head, count_call);
    rcu_thread_offline();
    usleep(20000);
    STORE(calling, 1);
    fork_to(call_what_was_queued, true);
    join(thread);
}

/* A callback forks, and continues in the child: it is the worker there. */
static pthread_t worker;

static void end_child(struct rcu_head *unused)
{
    CHECK(pthread_equal(worker, pthread_self()));
    _exit(0);
}

static void fork_in_callback(struct rcu_head *unused)
{
    static struct rcu_head head;
    worker = pthread_self();
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        alarm(60);
        call_rcu(&head, end_child);
        return;
    }
    await_child(process);
}

TEST(fork_in_callback)
{
    static struct rcu_head head;
    call_rcu(&head, fork_in_callback);
    rcu_barrier();
}

/* The same, while another thread waits for the worker to pause. */
static void fork_when_paused(struct rcu_head *head)
{
    STORE(calling, 1);
    usleep(50000);
    fork_in_callback(head);
}

static void *pause_workers(void *unused)
{
    UNTIL(LOAD(calling));
    call_rcu_before_fork();
    call_rcu_after_fork_parent();
    return NULL;
}

TEST(fork_in_callback_paused)
{
    static struct rcu_head head;
    set_thread_call_rcu_data(create_call_rcu_data(0, -1));
    pthread_t thread = start(pause_workers, NULL);
    call_rcu(&head, fork_when_paused);
    join_offline(thread);
    rcu_barrier();
}

/* The thread of deferred functions is lost in a child, and so is the one that it was calling. */
static void deferred_held(void *unused)
{
    STORE(calling, 1);
    UNTIL(!LOAD(held));
}

static void deferred_count(void *unused)
{
    ADD(called, 1);
}

static void defer_in_child(void)
{
    defer_rcu(deferred_count, (void *)8);
    UNTIL_OFFLINE(LOAD(called) == 2);
}

TEST(defer_in_child)
{
    STORE(held, 1);
    CHECK(rcu_defer_register_thread() == 0);
    defer_rcu(deferred_held, (void *)8);
    UNTIL_OFFLINE(LOAD(calling));
    defer_rcu(deferred_count, (void *)8);
    fork_to(defer_in_child, false);
    STORE(held, 0);
    rcu_defer_unregister_thread();
    CHECK(LOAD(called) == 1);
}

/* Threads that are online wait for each other's deferred functions, one of which waits for a grace period. */
static void defer_some(void)
{
    CHECK(rcu_defer_register_thread() == 0);
    for (int i = 0; i < 100; i++) {
        defer_rcu(deferred_count, (void *)8);
        if (i % 3 == 1)
            rcu_defer_barrier_thread();
        if (i % 3 == 2)
            rcu_defer_barrier();
    }
    rcu_defer_unregister_thread();
}

TEST(defer_online)
{
    in_threads(3, defer_some);
    CHECK(LOAD(called) == 300);
}

/* Hooks are registered again during a fork, as by a second hash table. */
static void no_hook(void *unused)
{
}

static void *register_again(void *hooks)
{
    urcu_register_rculfhash_atfork(hooks);
    urcu_unregister_rculfhash_atfork(hooks);
    return NULL;
}

TEST(hooks_beside_fork)
{
    struct urcu_atfork hooks = {no_hook, no_hook, no_hook, NULL};
    urcu_register_rculfhash_atfork(&hooks);
    rcu_thread_offline();
    call_rcu_before_fork();
    join(start(register_again, &hooks));
    call_rcu_after_fork_parent();
    rcu_thread_online();
    urcu_unregister_rculfhash_atfork(&hooks);
}

/* A worker that chooses another one for its callbacks keeps it when it was paused. */
static struct call_rcu_data *chosen;

static void choose(struct rcu_head *unused)
{
    set_thread_call_rcu_data(chosen);
    ADD(called, 1);
}

static void check_choice(struct rcu_head *unused)
{
    CHECK(get_thread_call_rcu_data() == chosen);
    ADD(called, 1);
}

TEST(choice_beside_fork)
{
    static struct rcu_head heads[2];
    chosen = create_call_rcu_data(0, -1);
    set_thread_call_rcu_data(create_call_rcu_data(0, -1));
    call_rcu(&heads[0], choose);
    rcu_barrier();
    rcu_thread_offline();
    call_rcu_before_fork();
    call_rcu_after_fork_parent();
    rcu_thread_online();
    call_rcu(&heads[1], check_choice);
    rcu_barrier();
    CHECK(LOAD(called) == 2);
}

/* The callbacks of a worker have been called when it has been freed. */
TEST(free_calls)
{
    static struct rcu_head head;
    for (int i = 0; i < 20; i++) {
        struct call_rcu_data *data = create_call_rcu_data(0, -1);
        CHECK(data);
        pthread_t thread = get_call_rcu_thread(data);
        set_thread_call_rcu_data(data);
        call_rcu(&head, count_call);
        set_thread_call_rcu_data(NULL);
        rcu_thread_offline();
        call_rcu_data_free(data);
        CHECK(LOAD(called) == i + 1);
        join(thread);
        rcu_thread_online();
    }
}

/* Callbacks are readers, also if a barrier calls them as no thread can be started. */
static void *synchronize_beside(void *unused)
{
    UNTIL(LOAD(inside));
    synchronize_rcu();
    STORE(left, 1);
    return NULL;
}

static void read_in_callback(struct rcu_head *unused)
{
#if defined(QSBR)
    CHECK(rcu_read_ongoing());
#endif
    rcu_read_lock();
    STORE(inside, 1);
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        CHECK(!LOAD(left));
    }
    rcu_read_unlock();
    ADD(called, 1);
}

static void *read_in_barrier(void *unused)
{
    static struct rcu_head head;
    STORE(denied, 1);
    call_rcu(&head, read_in_callback);
    rcu_barrier();
    CHECK(LOAD(called) == 1);
    return NULL;
}

TEST(reader_in_barrier)
{
    pthread_t thread = start(synchronize_beside, NULL);
    read_in_barrier(NULL);
    join_offline(thread);
}

TEST(reader_in_barrier_unregistered)
{
    rcu_thread_offline();
    pthread_t thread = start(synchronize_beside, NULL);
    join(start(read_in_barrier, NULL));
    join(thread);
    rcu_thread_online();
}

/* A callback that queues itself again does not keep the barrier. */
static void call_again(struct rcu_head *head)
{
    ADD(called, 1);
    call_rcu(head, call_again);
}

TEST(barrier_without_thread)
{
    static struct rcu_head head;
    STORE(denied, 1);
    call_rcu(&head, call_again);
    rcu_barrier();
    CHECK(LOAD(called) >= 1);
    rcu_barrier();
    CHECK(LOAD(called) >= 2);
}

/* A worker is freed under a barrier, and no thread can be started for the callbacks that it leaves: those that its last
callbacks queue. */
static void call_another(struct rcu_head *head)
{
    ADD(called, 1);
    call_rcu(head, count_call);
}

static void *free_later(void *data)
{
    usleep(50000);
    STORE(denied, 1);
    call_rcu_data_free(data);
    return NULL;
}

TEST(free_beside_barrier)
{
    static struct rcu_head heads[10];
    struct call_rcu_data *data = create_call_rcu_data(0, -1);
    set_thread_call_rcu_data(data);
    keep_worker_busy();
    for (int i = 0; i < 10; i++)
        call_rcu(&heads[i], call_another);
    set_thread_call_rcu_data(NULL);
    pthread_t thread = start(free_later, data);
    rcu_barrier();
    CHECK(LOAD(called) >= 10);
    join_offline(thread);
    rcu_barrier();
    CHECK(LOAD(called) == 20);
}

#if !defined(QSBR)
/* Reports are no cancellation points. */
static void *report_cancelled(void *unused)
{
    rcu_register_thread();
    rcu_read_lock();
    pthread_cancel(pthread_self());
    rcu_barrier();
    rcu_read_unlock();
    rcu_unregister_thread();
    STORE(left, 1);
    pthread_testcancel();
    return NULL;
}

TEST(cancel)
{
    void *result;
    CHECK(pthread_join(start(report_cancelled, NULL), &result) == 0);
    CHECK(result == PTHREAD_CANCELED && LOAD(left));
}

/* Waiting inside a section is a deadlock, also of the only registered thread. */
TEST(deadlock)
{
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        rcu_read_lock();
        synchronize_rcu();
        _exit(1);
    }
    usleep(200000);
    CHECK(waitpid(process, NULL, WNOHANG) == 0);
    kill(process, SIGKILL);
    CHECK(waitpid(process, NULL, 0) == process);
}
#endif

int main(int count, char **arguments)
{
    return run_named(count > 1 ? arguments[1] : NULL);
}
