/*
 * What the C library promises of its locks, and its tests leave out. `api` lists the tests, `api NAME` runs one: status 0
 * if it passes. Runs with and without the library preloaded; "ours" in the environment says that it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)
#define OK(call) CHECK((call) == 0)

static struct {
    const char *name;
    void (*run)(void);
} tests[32];
static int test_count;

/* TEST(name) { ... } defines a test. */
#define TEST(test)                                             \
    static void test(void);                                    \
    __attribute__((constructor)) static void add_##test(void)  \
    {                                                          \
        tests[test_count].name = #test;                        \
        tests[test_count++].run = test;                        \
    }                                                          \
    static void test(void)

enum { ROUNDS = 2000 };

static bool ours(void) { return getenv("ours") != NULL; }

static struct timespec after(clockid_t clock, long ns)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ns;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    OK(pthread_create(&thread, NULL, run, argument));
    return thread;
}

static void init(pthread_mutex_t *mutex, int type, int shared)
{
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, type));
    OK(pthread_mutexattr_setpshared(&attributes, shared));
    OK(pthread_mutex_init(mutex, &attributes));
}

static void init_shared(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    OK(pthread_condattr_init(&attributes));
    OK(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_cond_init(cond, &attributes));
}

/* Plain mutexes are stillpoint's, which stores no owner. Others are the C library's. */
TEST(kinds)
{
    pthread_mutex_t fixed = PTHREAD_MUTEX_INITIALIZER, adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, normal, shared;
    init(&normal, PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE);
    init(&shared, PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_SHARED);
    pthread_mutex_t *plain[] = { &fixed, &adaptive, &normal }, *others[] = { &recursive, &shared };
    for (int i = 0; i < 3; i++) {
        OK(pthread_mutex_lock(plain[i]));
        CHECK((plain[i]->__data.__owner == 0) == ours());
        CHECK(pthread_mutex_trylock(plain[i]) == EBUSY);
        CHECK(pthread_mutex_destroy(plain[i]) == EBUSY);
        OK(pthread_mutex_unlock(plain[i]));
        OK(pthread_mutex_trylock(plain[i]));
        CHECK(pthread_mutex_trylock(plain[i]) == EBUSY);
        OK(pthread_mutex_unlock(plain[i]));
        OK(pthread_mutex_destroy(plain[i]));
        CHECK(pthread_mutex_lock(plain[i]) == EINVAL);
    }
    for (int i = 0; i < 2; i++) {
        OK(pthread_mutex_lock(others[i]));
        CHECK(others[i]->__data.__owner == gettid());
        OK(pthread_mutex_unlock(others[i]));
    }
}

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_rwlock_t rwlock;
    int state, count;
};

/* Waits until a number that the mutex guards is this one. */
static void until(struct shared *shared, const int *number, int wanted)
{
    for (bool done = false; !done;) {
        OK(pthread_mutex_lock(&shared->mutex));
        done = *number == wanted;
        OK(pthread_mutex_unlock(&shared->mutex));
    }
}

static void *fresh_page(void)
{
    void *page = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

static void *unlock_mutex(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    shared->state++;
    OK(pthread_mutex_unlock(&shared->mutex));
    return NULL;
}

/* The thread that locks a mutex last unmaps it: an earlier unlock must not touch it any more. */
TEST(unmap_mutex)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct shared *shared = fresh_page();
        pthread_t thread = start(unlock_mutex, shared);
        until(shared, &shared->state, 1);
        munmap(shared, sizeof *shared);
        OK(pthread_join(thread, NULL));
    }
}

static void *unlock_rwlock(void *argument)
{
    struct shared *shared = argument;
    bool writes = shared->count;
    OK(writes ? pthread_rwlock_wrlock(&shared->rwlock) : pthread_rwlock_rdlock(&shared->rwlock));
    __atomic_store_n(&shared->state, 1, __ATOMIC_RELAXED);
    OK(pthread_rwlock_unlock(&shared->rwlock));
    return NULL;
}

TEST(unmap_rwlock)
{
    for (int i = 0; i < ROUNDS; i++) {
        /* Reader and writer, writer and reader, two writers. */
        bool other_writes = i % 3 != 0, writes = i % 3 != 1;
        struct shared *shared = fresh_page();
        shared->count = other_writes;
        pthread_t thread = start(unlock_rwlock, shared);
        for (bool done = false; !done;) {
            OK(writes ? pthread_rwlock_wrlock(&shared->rwlock) : pthread_rwlock_rdlock(&shared->rwlock));
            done = __atomic_load_n(&shared->state, __ATOMIC_RELAXED) == 1;
            OK(pthread_rwlock_unlock(&shared->rwlock));
        }
        munmap(shared, sizeof *shared);
        OK(pthread_join(thread, NULL));
    }
}

static void *wait_shortly(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    shared->count++;
    struct timespec until = after(CLOCK_REALTIME, 50000 * (shared->count % 4));
    while (shared->state == 0 && pthread_cond_timedwait(&shared->cond, &shared->mutex, &until) == 0)
        ;
    if (--shared->count == 0 && shared->state == 0)
        shared->state = 2;
    OK(pthread_mutex_unlock(&shared->mutex));
    return NULL;
}

/* A variable may be destroyed once all waiters have been notified, while some time out. */
TEST(unmap_cond)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct shared *shared = fresh_page();
        pthread_t threads[2] = { start(wait_shortly, shared), start(wait_shortly, shared) };
        OK(pthread_mutex_lock(&shared->mutex));
        shared->state = 1;
        OK(pthread_cond_broadcast(&shared->cond));
        OK(pthread_mutex_unlock(&shared->mutex));
        OK(pthread_cond_destroy(&shared->cond));
        memset(&shared->cond, 0xff, sizeof shared->cond);
        for (int t = 0; t < 2; t++)
            OK(pthread_join(threads[t], NULL));
        for (size_t byte = 0; byte < sizeof shared->cond; byte++)
            CHECK(((unsigned char *)&shared->cond)[byte] == 0xff);
        munmap(shared, sizeof *shared);
    }
}

static void *hold(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    OK(pthread_rwlock_wrlock(&shared->rwlock));
    __atomic_store_n(&shared->state, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == 1)
        usleep(1000);
    OK(pthread_rwlock_unlock(&shared->rwlock));
    OK(pthread_mutex_unlock(&shared->mutex));
    return NULL;
}

/* No function changes errno. */
TEST(errno_is_kept)
{
    struct shared *shared = fresh_page();
    pthread_t thread = start(hold, shared);
    while (!__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE))
        usleep(1000);
    struct timespec until = after(CLOCK_REALTIME, 10000000), monotonic = after(CLOCK_MONOTONIC, 20000000);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    errno = 77;
    CHECK(pthread_mutex_trylock(&shared->mutex) == EBUSY);
    CHECK(pthread_mutex_timedlock(&shared->mutex, &until) == ETIMEDOUT);
    CHECK(pthread_mutex_clocklock(&shared->mutex, CLOCK_MONOTONIC, &monotonic) == ETIMEDOUT);
    CHECK(pthread_mutex_clocklock(&shared->mutex, CLOCK_PROCESS_CPUTIME_ID, &until) == EINVAL);
    CHECK(pthread_rwlock_timedrdlock(&shared->rwlock, &until) == ETIMEDOUT);
    CHECK(pthread_rwlock_clockwrlock(&shared->rwlock, CLOCK_MONOTONIC, &monotonic) == ETIMEDOUT);
    OK(pthread_mutex_lock(&mutex));
    until = after(CLOCK_REALTIME, 10000000);
    while (!pthread_cond_timedwait(&cond, &mutex, &until))
        ;
    struct timespec now = after(CLOCK_REALTIME, 0);
    CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
    until.tv_nsec = 1000000000;
    CHECK(pthread_cond_timedwait(&cond, &mutex, &until) == EINVAL);
    CHECK(pthread_mutex_timedlock(&mutex, &until) == EINVAL);
    until = (struct timespec){ -1, 0 };
    CHECK(pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
    __atomic_store_n(&shared->state, 2, __ATOMIC_RELEASE);
    OK(pthread_mutex_lock(&shared->mutex));
    OK(pthread_rwlock_rdlock(&shared->rwlock));
    CHECK(errno == 77);
    OK(pthread_join(thread, NULL));
}

static void count_unlock(void *argument)
{
    struct shared *shared = argument;
    CHECK(pthread_mutex_trylock(&shared->mutex) == EBUSY); /* It is held again. */
    shared->count--;
    OK(pthread_mutex_unlock(&shared->mutex));
}

static void *wait_cancelled(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    shared->count++;
    pthread_cleanup_push(count_unlock, shared);
    while (shared->state == 0)
        OK(pthread_cond_wait(&shared->cond, &shared->mutex));
    shared->state--;
    pthread_cleanup_pop(1);
    return NULL;
}

/* Of two waiters one is cancelled and one is notified, at the same time: the other one takes the notification. */
TEST(cancelled_waiter_passes_on)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct shared shared = { .state = 0 };
        pthread_t threads[2] = { start(wait_cancelled, &shared), start(wait_cancelled, &shared) };
        until(&shared, &shared.count, 2);
        OK(pthread_mutex_lock(&shared.mutex));
        shared.state = 1;
        OK(pthread_mutex_unlock(&shared.mutex));
        if (i & 1) OK(pthread_cond_signal(&shared.cond));
        OK(pthread_cancel(threads[0]));
        if (!(i & 1)) OK(pthread_cond_signal(&shared.cond));
        OK(pthread_join(threads[0], NULL));
        OK(pthread_mutex_lock(&shared.mutex));
        bool taken = shared.state == 0; /* By either of them. */
        OK(pthread_mutex_unlock(&shared.mutex));
        if (taken)
            OK(pthread_cancel(threads[1]));
        OK(pthread_join(threads[1], NULL));
        CHECK(shared.count == 0);
        OK(pthread_cond_destroy(&shared.cond));
        OK(pthread_mutex_destroy(&shared.mutex));
    }
}

static void *notify_once(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    shared->state = 1;
    OK(pthread_cond_signal(&shared->cond));
    OK(pthread_mutex_unlock(&shared->mutex));
    return NULL;
}

/* A variable is used with mutexes of all kinds, one after the other, in either order. */
TEST(mixed_kinds)
{
    for (int first = 0; first < 2; first++) {
        for (int is_shared = 0; is_shared < 2; is_shared++) {
            struct shared shared = { .state = 0 };
            if (is_shared)
                init_shared(&shared.cond);
            for (int i = 0; i < 6; i++) {
                init(&shared.mutex, (i + first) & 1 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL, PTHREAD_PROCESS_PRIVATE);
                shared.state = 0;
                OK(pthread_mutex_lock(&shared.mutex));
                pthread_t thread = start(notify_once, &shared);
                struct timespec until = after(CLOCK_REALTIME, 1000000000);
                while (!shared.state && (i & 2) == 0)
                    OK(pthread_cond_wait(&shared.cond, &shared.mutex));
                while (!shared.state && pthread_cond_timedwait(&shared.cond, &shared.mutex, &until) == 0)
                    ;
                OK(pthread_mutex_unlock(&shared.mutex));
                OK(pthread_join(thread, NULL));
                CHECK(shared.state);
                OK(pthread_mutex_destroy(&shared.mutex));
            }
            OK(pthread_cond_destroy(&shared.cond));
        }
    }
}

int old_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int old_signal(pthread_cond_t *cond);
int old_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int old_destroy(pthread_cond_t *cond);
__asm__(".symver old_wait, pthread_cond_wait@GLIBC_2.2.5");
__asm__(".symver old_signal, pthread_cond_signal@GLIBC_2.2.5");
__asm__(".symver old_init, pthread_cond_init@GLIBC_2.2.5");
__asm__(".symver old_destroy, pthread_cond_destroy@GLIBC_2.2.5");

static struct {
    pthread_mutex_t mutex;
    void *cond[3]; /* The size of the old type. */
    uint64_t guard;
    int state;
} old = { .guard = 0x123456789abcdef };

static void *old_notify(void *none)
{
    OK(pthread_mutex_lock(&old.mutex));
    old.state = 1;
    OK(old_signal((pthread_cond_t *)old.cond));
    OK(pthread_mutex_unlock(&old.mutex));
    return none;
}

/* A program that was linked before condition variables had their size. */
TEST(old_version)
{
    OK(old_init((pthread_cond_t *)old.cond, NULL));
    OK(pthread_mutex_lock(&old.mutex));
    pthread_t thread = start(old_notify, NULL);
    while (!old.state)
        OK(old_wait((pthread_cond_t *)old.cond, &old.mutex));
    OK(pthread_mutex_unlock(&old.mutex));
    OK(pthread_join(thread, NULL));
    OK(old_destroy((pthread_cond_t *)old.cond));
    CHECK(old.guard == 0x123456789abcdef);
}

static volatile bool stop;

static void *contend(void *argument)
{
    struct shared *shared = argument;
    while (!stop) {
        OK(pthread_mutex_lock(&shared->mutex));
        shared->count++;
        OK(pthread_mutex_unlock(&shared->mutex));
        OK(pthread_rwlock_rdlock(&shared->rwlock));
        OK(pthread_rwlock_unlock(&shared->rwlock));
    }
    return NULL;
}

static void *wait_until_state(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    shared->count = 1;
    while (!shared->state)
        OK(pthread_cond_wait(&shared->cond, &shared->mutex));
    OK(pthread_mutex_unlock(&shared->mutex));
    return NULL;
}

/* The child has what the forking thread held, and can use its locks. */
TEST(forked_child_uses_locks)
{
    struct shared *shared = fresh_page(), *waited = fresh_page();
    pthread_t threads[4], waiter = start(wait_until_state, waited);
    for (int t = 0; t < 4; t++)
        threads[t] = start(contend, shared);
    until(waited, &waited->count, 1);
    for (int i = 0; i < 100; i++) {
        OK(pthread_mutex_lock(&shared->mutex));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            struct timespec until = after(CLOCK_REALTIME, 1000000);
            alarm(60);
            if (ours()) { /* The thread that waits is the parent's. */
                OK(pthread_mutex_lock(&waited->mutex));
                if (i % 2)
                    CHECK(pthread_cond_timedwait(&waited->cond, &waited->mutex, &until) == ETIMEDOUT);
                OK(pthread_cond_destroy(&waited->cond));
            }
            OK(pthread_mutex_unlock(&shared->mutex));
            OK(pthread_mutex_lock(&shared->mutex));
            CHECK(pthread_cond_timedwait(&shared->cond, &shared->mutex, &until) == ETIMEDOUT);
            OK(pthread_mutex_unlock(&shared->mutex));
            _exit(0);
        }
        OK(pthread_mutex_unlock(&shared->mutex));
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = true;
    for (int t = 0; t < 4; t++)
        OK(pthread_join(threads[t], NULL));
    OK(pthread_mutex_lock(&waited->mutex));
    waited->state = 1;
    OK(pthread_cond_broadcast(&waited->cond));
    OK(pthread_mutex_unlock(&waited->mutex));
    OK(pthread_join(waiter, NULL));
}

/* In worker.c. */
void start_worker(void);
void do_job(void);

/* A handler of a library that was initialized before the program starts a thread in the child, which waits. */
TEST(forked_child_wakes_worker)
{
    start_worker();
    for (int i = 0; i < 20; i++) {
        do_job();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            do_job();
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

static void *wait_interrupted(void *argument)
{
    struct shared *shared = argument;
    OK(pthread_mutex_lock(&shared->mutex));
    struct timespec until = after(CLOCK_REALTIME, 200000000);
    shared->count = 1;
    while (!shared->state)
        CHECK(pthread_cond_timedwait(&shared->cond, &shared->mutex, &until) != EINTR);
    OK(pthread_mutex_unlock(&shared->mutex));
    return NULL;
}

static void ignore(int signal) { (void)signal; }

TEST(signals_do_not_end_waits)
{
    struct shared *shared = fresh_page();
    struct sigaction action = { .sa_handler = ignore };
    sigaction(SIGUSR1, &action, NULL);
    OK(pthread_mutex_lock(&shared->mutex));
    pthread_t thread = start(wait_interrupted, shared);
    for (int i = 0; i < 100; i++) {
        OK(pthread_kill(thread, SIGUSR1));
        usleep(100);
    }
    OK(pthread_mutex_unlock(&shared->mutex));
    for (int i = 0; i < 100; i++) {
        OK(pthread_kill(thread, SIGUSR1));
        usleep(100);
    }
    OK(pthread_mutex_lock(&shared->mutex));
    shared->state = 1;
    OK(pthread_cond_broadcast(&shared->cond));
    OK(pthread_mutex_unlock(&shared->mutex));
    OK(pthread_join(thread, NULL));
}

static void *shared_section(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < 20000; i++) {
        OK(pthread_spin_lock((pthread_spinlock_t *)&shared->state));
        shared->count++;
        OK(pthread_spin_unlock((pthread_spinlock_t *)&shared->state));
    }
    return NULL;
}

TEST(spin_kinds)
{
    for (int kind = 0; kind < 2; kind++) {
        struct shared *shared = fresh_page();
        pthread_spinlock_t *lock = (pthread_spinlock_t *)&shared->state;
        OK(pthread_spin_init(lock, kind));
        OK(pthread_spin_lock(lock));
        CHECK(pthread_spin_trylock(lock) == EBUSY);
        OK(pthread_spin_unlock(lock));
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            threads[t] = start(shared_section, shared);
        for (int t = 0; t < 4; t++)
            OK(pthread_join(threads[t], NULL));
        CHECK(shared->count == 80000);
        OK(pthread_spin_destroy(lock));
    }
}

struct sleeper {
    struct shared *shared;
    int (*wait)(struct shared *);
    int thread;
};

static void *sleep_and_count(void *argument)
{
    struct sleeper *sleeper = argument;
    __atomic_store_n(&sleeper->thread, gettid(), __ATOMIC_RELEASE);
    OK(sleeper->wait(sleeper->shared));
    return NULL;
}

/* Returns true if the thread sleeps in a call of futex. */
static bool sleeps(int thread)
{
    char path[64], call[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%15s", call) == 1);
    fclose(file);
    return !strcmp(call, "202");
}

/* A thread that sleeps in `wait` returns from it after `wake`. */
static void is_woken(struct shared *shared, int (*wait)(struct shared *), int (*wake)(struct shared *))
{
    struct sleeper sleeper = { shared, wait, 0 };
    pthread_t thread = start(sleep_and_count, &sleeper);
    while (!__atomic_load_n(&sleeper.thread, __ATOMIC_ACQUIRE) || !sleeps(sleeper.thread))
        usleep(1000);
    OK(wake(shared));
    OK(pthread_join(thread, NULL));
}

static int lock(struct shared *shared) { return pthread_mutex_lock(&shared->mutex); }
static int unlock(struct shared *shared) { return pthread_mutex_unlock(&shared->mutex); }
static int read_lock(struct shared *shared) { return pthread_rwlock_rdlock(&shared->rwlock); }
static int write_lock(struct shared *shared) { return pthread_rwlock_wrlock(&shared->rwlock); }
static int rw_unlock(struct shared *shared) { return pthread_rwlock_unlock(&shared->rwlock); }

static int wait_for_state(struct shared *shared)
{
    OK(lock(shared));
    while (!shared->state)
        OK(pthread_cond_wait(&shared->cond, &shared->mutex));
    return unlock(shared);
}

static int set_state(struct shared *shared)
{
    OK(lock(shared));
    shared->state = 1;
    OK(pthread_cond_signal(&shared->cond));
    return unlock(shared);
}

TEST(unlock_wakes)
{
    struct shared shared = { .state = 0 };
    OK(lock(&shared));
    is_woken(&shared, lock, unlock);
}

TEST(signal_wakes)
{
    struct shared shared = { .state = 0 };
    is_woken(&shared, wait_for_state, set_state);
}

TEST(writer_wakes_reader)
{
    struct shared shared = { .state = 0 };
    OK(write_lock(&shared));
    is_woken(&shared, read_lock, rw_unlock);
}

TEST(writer_wakes_writer)
{
    struct shared shared = { .state = 0 };
    OK(write_lock(&shared));
    is_woken(&shared, write_lock, rw_unlock);
}

TEST(reader_wakes_writer)
{
    struct shared shared = { .state = 0 };
    OK(read_lock(&shared));
    is_woken(&shared, write_lock, rw_unlock);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < test_count; i++) {
        if (argc < 2) {
            puts(tests[i].name);
        } else if (!strcmp(argv[1], tests[i].name)) {
            tests[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
