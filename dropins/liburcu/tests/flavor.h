/* What the tests share. One of MEMB, MB, QSBR and BP says which of liburcu's flavors a test is built for. The headers
are those of the installed liburcu-dev: with _LGPL_SOURCE, readers are inlined. */
#ifndef FLAVOR_H
#define FLAVOR_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Keeps the names without a flavor, as `rcu_read_lock`. */
#define URCU_API_MAP
#if defined(MEMB)
#define FLAVOR memb
#include <urcu/urcu-memb.h>
#elif defined(MB)
#define FLAVOR mb
#include <urcu/urcu-mb.h>
#elif defined(QSBR)
#define FLAVOR qsbr
#include <urcu/urcu-qsbr.h>
#elif defined(BP)
#define FLAVOR bp
#include <urcu/urcu-bp.h>
#endif
#include <urcu/futex.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define FLAVOR_TEXT TEXT(FLAVOR)

/* Ends the test if the condition does not hold. */
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, __LINE__, #condition, errno);  \
            fflush(NULL);                                                                                    \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* Waits until the condition holds. A test that hangs is ended by its script. */
#define UNTIL(condition)    \
    while (!(condition))    \
        usleep(100)

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define ADD(x, value) __atomic_add_fetch(&(x), value, __ATOMIC_SEQ_CST)

static inline pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, function, argument);
    CHECK(error == 0);
    return thread;
}

static inline void join(pthread_t thread)
{
    int error = pthread_join(thread, NULL);
    CHECK(error == 0);
}

/* The child process must succeed. */
static inline void await_child(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

#ifdef FLAVOR
/* The headers of 0.13 do not declare the functions for polled grace periods. */
struct polled {
    unsigned long cookie;
};

typedef struct polled start_function(void);
typedef bool poll_function(struct polled);

static inline start_function *start_poll(void)
{
    return (start_function *)dlsym(RTLD_DEFAULT, "urcu_" FLAVOR_TEXT "_start_poll_synchronize_rcu");
}

static inline poll_function *poll_state(void)
{
    return (poll_function *)dlsym(RTLD_DEFAULT, "urcu_" FLAVOR_TEXT "_poll_state_synchronize_rcu");
}

/* Lets the qsbr flavor know that the thread holds no references. The others know it. */
static inline void quiescent(void)
{
    rcu_quiescent_state();
}

/* Waits until the condition holds, as a thread that holds no references. */
#define UNTIL_OFFLINE(condition) \
    do {                         \
        rcu_thread_offline();    \
        UNTIL(condition);        \
        rcu_thread_online();     \
    } while (0)

static inline void join_offline(pthread_t thread)
{
    rcu_thread_offline();
    join(thread);
    rcu_thread_online();
}

static inline void *run_registered(void *function)
{
    rcu_register_thread();
    ((void (*)(void))function)();
    rcu_unregister_thread();
    return NULL;
}

/* Starts a thread that is registered while the function runs. */
static inline pthread_t start_registered(void (*function)(void))
{
    return start(run_registered, (void *)function);
}

/* Runs the function in so many threads at once. */
static inline void in_threads(int count, void (*function)(void))
{
    pthread_t threads[16];
    for (int i = 0; i < count; i++)
        threads[i] = start_registered(function);
    rcu_thread_offline();
    for (int i = 0; i < count; i++)
        join(threads[i]);
    rcu_thread_online();
}

/* The tests of a program, in their order. */
static struct test {
    const char *name;
    void (*run)(void);
} tests[64];

static inline void add_test(const char *name, void (*run)(void))
{
    static int count;
    tests[count++] = (struct test){name, run};
}

/* TEST(name) { ... } defines a test. */
#define TEST(name)                                                                                \
    static void test_##name(void);                                                                \
    __attribute__((constructor)) static void add_##name(void) { add_test(#name, test_##name); }   \
    static void test_##name(void)

/* Runs the test of this name; without one, lists the names. Returns the status of the program. */
static inline int run_named(const char *name)
{
    for (struct test *test = tests; test->name; test++) {
        if (!name) {
            puts(test->name);
        } else if (strcmp(name, test->name) == 0) {
            rcu_register_thread();
            test->run();
            return 0;
        }
    }
    return name ? 2 : 0;
}
#endif

#endif
