/* Forks, signals, and threads that exit. */

#include <signal.h>

#include "check.h"

static int calls, inside, leave;

static void count(void *unused)
{
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

/* A thread that exits with callbacks pending: all of them run. */
static void *defer_and_exit(void *unused)
{
    for (int i = 0; i < 100; i++)
        CHECK(sp_call(sp_rcu_domain(), count, NULL, 0) == 0);
    return NULL;
}

/* So do those of a section that is open, which ends before the thread does. */
static void *defer_inside_and_exit(void *unused)
{
    CHECK(sp_rcu_read_lock() == 0);
    for (int i = 0; i < 100; i++)
        CHECK(sp_call_rcu(count, NULL) == 0);
    CHECK(sp_rcu_read_unlock() == 0);
    pthread_exit(NULL);
}

static void exits_with_callbacks(void)
{
    join(start(defer_and_exit, NULL));
    join(start(defer_inside_and_exit, NULL));
    CHECK(sp_rcu_barrier() == 0);
    CHECK(load(&calls) == 200);
}

/* Destructors of thread-specific data may read and defer, and are called again after that. */
static pthread_key_t key;

static void late(void *rounds)
{
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_rcu_in_read_section() == 1);
    CHECK(sp_call_rcu(count, NULL) == 0);
    CHECK(sp_rcu_read_unlock() == 0);
    if ((size_t)rounds > 1)
        CHECK(pthread_setspecific(key, (void *)((size_t)rounds - 1)) == 0);
}

static void *with_destructor(void *rounds)
{
    CHECK(pthread_setspecific(key, rounds) == 0);
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_rcu_read_unlock() == 0);
    return NULL;
}

static void reads_in_destructors(void)
{
    struct sp_stats before, after;
    calls = 0;
    CHECK(pthread_key_create(&key, late) == 0);
    join(start(with_destructor, (void *)3));
    CHECK(sp_get_stats(sp_rcu_domain(), &before) == 0);
    for (int i = 0; i < 50; i++)
        join(start(with_destructor, (void *)3));
    CHECK(sp_rcu_barrier() == 0);
    CHECK(load(&calls) == 153);
    CHECK(sp_get_stats(sp_rcu_domain(), &after) == 0);
    CHECK(after.readers <= before.readers + 2); /* no thread keeps its reader */
}

static void *exit_inside(void *unused)
{
    CHECK(sp_rcu_read_lock() == 0);
    return NULL;
}

static void on_stall(const struct sp_stall *stall, void *seen)
{
    if (stall->reader_count == 1 && stall->readers[0].has_exited)
        set(seen, 1);
}

/* In a child, as grace periods never end afterwards. */
static void section_outlives_its_thread(void)
{
    int seen = 0;
    struct sp_cookie cookie;
    CHECK(sp_set_stall_timeout(1000000) == 0 && sp_set_stall_hook(on_stall, &seen) == 0);
    join(start(exit_inside, NULL));
    CHECK(sp_cookie_start(sp_rcu_domain(), &cookie) == 0);
    UNTIL(load(&seen));
    CHECK(sp_cookie_elapsed(sp_rcu_domain(), cookie) == 0);
}

static int handled;

static void handler(int signal)
{
    CHECK(sp_rcu_read_lock() == 0);
    sp_fence_light();
    CHECK(sp_rcu_in_read_section() == 1);
    CHECK(sp_rcu_read_unlock() == 0);
    handled++;
}

static void *read_until(void *unused)
{
    CHECK(sp_rcu_register_thread() == 0);
    set(&inside, 1);
    while (!load(&leave)) {
        CHECK(sp_rcu_read_lock() == 0);
        CHECK(sp_rcu_read_lock() == 0);
        CHECK(sp_rcu_read_unlock() == 0);
        CHECK(sp_rcu_in_read_section() == 1);
        CHECK(sp_rcu_read_unlock() == 0);
        CHECK(sp_rcu_in_read_section() == 0);
    }
    return NULL;
}

static void handlers_read(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    set(&inside, 0);
    set(&leave, 0);
    pthread_t thread = start(read_until, NULL);
    UNTIL(load(&inside));
    for (int i = 0; i < 2000; i++) {
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        if (i % 20 == 0)
            CHECK(sp_synchronize_rcu() == 0);
    }
    UNTIL(load(&handled) > 0);
    set(&leave, 1);
    join(thread);
    CHECK(sp_synchronize_rcu() == 0);
}

/* Not allowed, but nothing breaks as long as the handler does not interrupt the allocator. */
static void handler_registers(void)
{
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(raise(SIGUSR2) == 0);
    CHECK(handled == 1 && sp_rcu_in_read_section() == 0);
    CHECK(sp_synchronize_rcu() == 0);
}

static void child_works(void)
{
    int before = load(&calls);
    /* The section of the thread that forked is open. */
    CHECK(sp_rcu_in_read_section() == 1);
    CHECK(sp_rcu_read_unlock() == 0);
    CHECK(sp_synchronize_rcu() == 0);
    CHECK(sp_call_rcu(count, NULL) == 0);
    CHECK(sp_rcu_barrier() == 0);
    CHECK(load(&calls) == before + 1); /* what was deferred before the fork runs in the parent only */
    pthread_t thread = start(defer_and_exit, NULL);
    join(thread);
    CHECK(sp_rcu_barrier() == 0);
    CHECK(load(&calls) == before + 101);
}

static void passes(void (*test)(void))
{
    char text[4096];
    int status = in_child(test, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "child: status %d, %s\n", status, text);
        abort();
    }
}

static void forks(void)
{
    set(&leave, 0);
    set(&inside, 0);
    pthread_t reader = start(read_until, NULL);
    UNTIL(load(&inside));
    for (int i = 0; i < 10; i++) {
        CHECK(sp_rcu_read_lock() == 0);
        CHECK(sp_call_rcu(count, NULL) == 0);
        passes(child_works);
        CHECK(sp_rcu_read_unlock() == 0);
    }
    calls = 0;
    CHECK(sp_call_rcu(count, NULL) == 0);
    CHECK(sp_rcu_barrier() == 0);
    set(&leave, 1);
    join(reader);
}

/* Where the library can tell that there is no memory, it returns an error. */
static void out_of_memory(void)
{
    struct sp_pool *pool;
    CHECK(sp_pool_create(&pool, (size_t)1 << 50) == -ENOMEM);
    CHECK(sp_pool_create(&pool, 4) == 0 && sp_pool_destroy(pool, NULL) == 0);
    CHECK(sp_synchronize_rcu() == 0);
}

/* A program may defer before `main`, and leave callbacks behind when it exits. */
__attribute__((constructor)) static void defers_before_main(void)
{
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_rcu_retire(malloc(10), NULL, 10) == 0);
    CHECK(sp_rcu_read_unlock() == 0);
}

static void retire_again(void *depth)
{
    if (depth)
        CHECK(sp_call(sp_rcu_domain(), retire_again, (void *)((size_t)depth - 1), SP_RUN_ON_RETIRING_THREAD) == 0);
    else
        count(NULL);
}

/* Callbacks that defer, inside sections and outside. */
static void callbacks_defer(void)
{
    calls = 0;
    CHECK(sp_rcu_read_lock() == 0);
    for (int i = 0; i < 100; i++)
        retire_again((void *)20);
    CHECK(sp_rcu_read_unlock() == 0);
    UNTIL(load(&calls) == 100);
}

int main(void)
{
    alarm(280);
    passes(section_outlives_its_thread);
    passes(handler_registers);
    out_of_memory();
    callbacks_defer();
    calls = 0;
    exits_with_callbacks();
    reads_in_destructors();
    handlers_read();
    forks();
    return 0;
}
