/* The bp flavor registers readers by itself: in signal handlers, before main, and until their threads exit. */
#include "flavor.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { THREADS = 3000 };

static int handled, stop;
static unsigned long *published;
static unsigned long bad;

static void handler(int signal)
{
    rcu_read_lock();
    unsigned long *object = rcu_dereference(published);
    for (int i = 0; i < 100; i++)
        if (CMM_LOAD_SHARED(*object) != 1)
            ADD(bad, 1);
    rcu_read_unlock();
    ADD(handled, 1);
}

static void *reader(void *unused)
{
    while (!LOAD(stop)) {
        rcu_read_lock();
        unsigned long *object = rcu_dereference(published);
        if (CMM_LOAD_SHARED(*object) != 1)
            ADD(bad, 1);
        rcu_read_unlock();
    }
    return NULL;
}

static void *once(void *unused)
{
    rcu_read_lock();
    rcu_read_unlock();
    return NULL;
}

/* Without those of files, and exact: what statm has may lag by some dozens of pages for each CPU. */
static long resident_pages(void)
{
    long kilobytes = -1;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file);
    while (kilobytes < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "Anonymous: %ld kB", &kilobytes);
    CHECK(kilobytes >= 0);
    fclose(file);
    return kilobytes / 4;
}

__attribute__((constructor)) static void before_main(void)
{
    rcu_read_lock();
    rcu_read_unlock();
}

int main(void)
{
    static unsigned long objects[2] = {1, 1};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval interval = {{0, 500}, {0, 500}};
    published = &objects[0];
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    pthread_t thread = start(reader, NULL);
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
    for (int i = 0; i < 20 || LOAD(handled) < 20; i++) {
        unsigned long *next = &objects[published == &objects[0]], *old;
        STORE(*next, 1);
        old = rcu_xchg_pointer(&published, next);
        synchronize_rcu();
        STORE(*old, 0);
    }
    interval = (struct itimerval){{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
    STORE(stop, 1);
    join(thread);
    CHECK(bad == 0);

    for (int i = 0; i < 100; i++)
        join(start(once, NULL));
    long before = resident_pages();
    for (int i = 0; i < THREADS; i++)
        join(start(once, NULL));
    synchronize_rcu();
    /* A record is 256 bytes: they would take 3000 * 256 / 4096 = 187 pages. */
    CHECK(resident_pages() - before < 100);
    return 0;
}
