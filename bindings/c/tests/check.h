/* What the tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stillpoint.h>

/* Ends the test if the condition does not hold, in release builds too. */
#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);         \
            fflush(NULL);                                                                         \
            abort();                                                                              \
        }                                                                                         \
    } while (0)

/* Waits until the condition holds. A test that hangs is ended by `main`. */
#define UNTIL(condition)      \
    while (!(condition))      \
        usleep(100)

static inline int load(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void set(int *flag, int value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static inline pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static inline void join(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Runs the function in so many threads at once, and `meanwhile` beside them, if it is not null. */
static inline void in_threads(int count, void *(*function)(void *), void (*meanwhile)(void))
{
    pthread_t threads[16];
    for (int i = 0; i < count; i++)
        threads[i] = start(function, NULL);
    if (meanwhile)
        meanwhile();
    for (int i = 0; i < count; i++)
        join(threads[i]);
}

/* Runs the test in a process of its own, with its standard error in `text`. Returns how it ended, as of `waitpid`. */
static inline int in_child(void (*test)(void), char *text, size_t size)
{
    int ends[2], status;
    size_t length = 0;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        alarm(200);
        test();
        _exit(0);
    }
    close(ends[1]);
    ssize_t got;
    while (length + 1 < size && (got = read(ends[0], text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

#endif
