/* The oracle: readers look at a published object at the beginning and at the end of a section; an updater replaces
the object, waits for a grace period in each way that the library offers, and marks the old object. A reader that
finds the mark has seen a grace period that ended too early.

torture MODE UPDATES: MODE is sync, call, poll, defer, or all. Exit status 0: no bad read; 1: a bad read; 77: the
library has no such mode. Built with MODULE, a library with the function `run`; built with DELAYED, the inlined
readers stop between the load of the grace period's number and the store. */

#include "flavor.h"
#include <sched.h>

enum { LIVE = 1, DEAD = 2, OBJECTS = 1 << 16, READERS = 2, OUTSTANDING = 256, LEAST_SECTIONS = 2000 };

struct object {
    struct rcu_head head;
    int state;
};

static struct object objects[OBJECTS];
static struct object *published;
static unsigned long next_object, updates, sections[READERS], bad, killed;
static int stop, ready;

static void kill_object(struct object *object)
{
    STORE(object->state, DEAD);
    ADD(killed, 1);
}

static void kill_head(struct rcu_head *head)
{
    kill_object(caa_container_of(head, struct object, head));
}

static void kill_pointer(void *object)
{
    kill_object(object);
}

static void enter(unsigned seed)
{
#if defined(DELAYED)
    unsigned long number = CMM_LOAD_SHARED(rcu_gp.ctr);
    if (seed >> 30 == 0)
        sched_yield();
    _CMM_STORE_SHARED(URCU_TLS(rcu_reader).ctr, number);
    urcu_memb_smp_mb_slave();
#else
    rcu_read_lock();
#endif
}

/* Nothing that a reader does for the oracle orders memory. */
static void *reader(void *argument)
{
    unsigned long *count = argument;
    unsigned seed = (unsigned)(count - sections) + 1;
    rcu_register_thread();
    ADD(ready, 1);
    while (!LOAD(stop)) {
        seed = seed * 1664525 + 1013904223;
        enter(seed);
        struct object *object = rcu_dereference(published);
        if (CMM_LOAD_SHARED(object->state) != LIVE)
            ADD(bad, 1);
        if (seed >> 28 == 1) {
            rcu_read_lock();
            sched_yield();
            rcu_read_unlock();
        }
        if (seed >> 26 == 5)
            usleep(20);
        if (CMM_LOAD_SHARED(object->state) != LIVE)
            ADD(bad, 1);
        rcu_read_unlock();
        quiescent();
        if (seed >> 26 == 7) {
            rcu_thread_offline();
            sched_yield();
            rcu_thread_online();
        }
        CMM_STORE_SHARED(*count, *count + 1);
    }
    rcu_unregister_thread();
    return NULL;
}

static struct object *replace(void)
{
    struct object *object = &objects[next_object++ % OBJECTS];
    STORE(object->state, LIVE);
    updates++;
    return rcu_xchg_pointer(&published, object);
}

static unsigned long total_sections(void)
{
    unsigned long total = 0;
    for (int i = 0; i < READERS; i++)
        total += CMM_LOAD_SHARED(sections[i]);
    return total;
}

/* Does one update. Returns whether the library has the mode. */
static int update(char mode)
{
    switch (mode) {
    case 's': {
        struct object *old = replace();
        synchronize_rcu();
        kill_object(old);
        return 1;
    }
    case 'c':
        UNTIL_OFFLINE(updates - LOAD(killed) < OUTSTANDING);
        call_rcu(&replace()->head, kill_head);
        return 1;
    case 'd':
        UNTIL_OFFLINE(updates - LOAD(killed) < OBJECTS / 2);
        defer_rcu(kill_pointer, replace());
        return 1;
    default: {
        if (!start_poll() || !poll_state())
            return 0;
        struct object *old = replace();
        struct polled cookie = start_poll()();
        UNTIL_OFFLINE(poll_state()(cookie));
        kill_object(old);
        return 1;
    }
    }
}

#ifdef MODULE
__attribute__((visibility("default")))
#else
static
#endif
int run(const char *mode, unsigned long asked)
{
    static const char all[] = "scpd";
    pthread_t threads[READERS];
    int skipped = 0;
    rcu_register_thread();
    rcu_defer_register_thread();
    replace();
    updates = 0;
#if defined(MEMB) && defined(_LGPL_SOURCE)
    if (getenv("STILLPOINT_URCU_FIRST_NUMBER"))
        fprintf(stderr, "number %lu\n", (unsigned long)CMM_LOAD_SHARED(rcu_gp.ctr) >> 32);
#endif
    for (int i = 0; i < READERS; i++)
        threads[i] = start(reader, &sections[i]);
    UNTIL_OFFLINE(LOAD(ready) == READERS);
    for (unsigned long i = 0; i < asked || total_sections() < LEAST_SECTIONS; i++) {
        char which = strcmp(mode, "all") == 0 ? all[i % 4] : mode[0];
        if (!update(which)) {
            skipped = which == mode[0];
            if (skipped)
                break;
        }
        quiescent();
    }
    rcu_defer_barrier();
    rcu_barrier();
    rcu_thread_offline();
    UNTIL(LOAD(killed) == updates);
    STORE(stop, 1);
    for (int i = 0; i < READERS; i++)
        join(threads[i]);
    rcu_thread_online();
    rcu_defer_unregister_thread();
    rcu_unregister_thread();
    printf("%lu updates, %lu sections, %lu bad\n", updates, total_sections(), bad);
    return bad ? 1 : skipped ? 77 : 0;
}

#ifndef MODULE
int main(int argc, char **argv)
{
    return run(argc > 1 ? argv[1] : "all", argc > 2 ? strtoul(argv[2], NULL, 10) : 2000);
}
#endif
