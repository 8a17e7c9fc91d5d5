/* Sections of the rcu domain: nesting, threads that come and go, and an oracle that notices grace periods that end too
early. Built with WITHOUT_GRACE_PERIODS, it must fail. */

#include "check.h"

enum { FRESH = 1, FREED = 2, WRITERS = 2, READERS = 4, ROUNDS = 3000 };

struct object {
    int state;
    struct sp_rcu_head head;
};

static struct object *published[WRITERS];
static int stop, reading;
static unsigned long early, reads, freed;

static void check_alive(struct object *object)
{
    if (load(&object->state) != FRESH)
        __atomic_fetch_add(&early, 1, __ATOMIC_RELAXED);
}

static void *reader(void *argument)
{
    unsigned long count = 0;
    unsigned seed = (unsigned)(size_t)argument;
    while (!load(&stop)) {
        struct object *objects[WRITERS];
        seed = seed * 1664525 + 1013904223;
        CHECK(sp_rcu_read_lock() == 0);
        for (int i = 0; i < WRITERS; i++)
            objects[i] = sp_rcu_dereference(published[i]);
        if (seed >> 30 == 0) {
            CHECK(sp_rcu_read_lock() == 0);
            sched_yield();
            CHECK(sp_rcu_read_unlock() == 0);
        }
        if (seed >> 24 == 1)
            usleep(50);
        for (int i = 0; i < WRITERS; i++)
            check_alive(objects[i]);
        CHECK(sp_rcu_in_read_section() == 1);
        CHECK(sp_rcu_read_unlock() == 0);
        if (count++ == 0)
            __atomic_fetch_add(&reading, 1, __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&reads, count, __ATOMIC_RELAXED);
    return NULL;
}

/* Threads that read once and exit. */
static void *one_read(void *unused)
{
    CHECK(sp_rcu_read_lock() == 0);
    check_alive(sp_rcu_dereference(published[0]));
    CHECK(sp_rcu_read_unlock() == 0);
    return NULL;
}

static void *churn(void *unused)
{
    while (!load(&stop))
        in_threads(4, one_read, NULL);
    return NULL;
}

/* The memory goes back to the allocator later, so that an early end is seen as a state. */
static void mark(void *argument)
{
    struct object *object = argument;
    set(&object->state, FREED);
    __atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
}

static void mark_head(struct sp_rcu_head *head)
{
    mark((char *)head - offsetof(struct object, head));
}

static void *writer(void *argument)
{
    size_t own = (size_t)argument;
    struct object *objects = calloc(ROUNDS + 1, sizeof *objects);
    CHECK(objects);
    for (int i = 0; i <= ROUNDS; i++)
        set(&objects[i].state, FRESH);
    for (int i = 1; i <= ROUNDS; i++) {
        struct object *old = sp_rcu_xchg_pointer(published[own], &objects[i]);
        struct sp_cookie cookie;
#ifdef WITHOUT_GRACE_PERIODS
        mark(old);
        usleep(1); /* Readers have to run here. */
        continue;
#endif
        switch (i % 5) {
        case 0:
            CHECK(sp_synchronize_rcu() == 0);
            mark(old);
            break;
        case 1:
            CHECK(sp_call_rcu(mark, old) == 0);
            break;
        case 2:
            CHECK(sp_call_rcu_head(&old->head, mark_head) == 0);
            break;
        case 3:
            CHECK(sp_rcu_retire(old, mark, sizeof *old) == 0);
            break;
        case 4:
            CHECK(sp_cookie_now(sp_rcu_domain(), &cookie) == 0);
            CHECK(sp_cookie_wait(sp_rcu_domain(), cookie) == 0);
            CHECK(sp_cookie_elapsed(sp_rcu_domain(), cookie) == 1);
            mark(old);
            break;
        }
    }
    return objects;
}

int main(void)
{
    alarm(280);
    static struct object first[WRITERS];
    pthread_t readers[READERS], writers[WRITERS];

    CHECK(sp_rcu_in_read_section() == 0);
    CHECK(sp_rcu_read_lock() == 0 && sp_rcu_read_lock() == 0 && sp_rcu_read_lock() == 0);
    CHECK(sp_rcu_read_unlock() == 0 && sp_rcu_read_unlock() == 0);
    CHECK(sp_rcu_in_read_section() == 1);
    CHECK(sp_rcu_read_unlock() == 0);
    CHECK(sp_rcu_in_read_section() == 0);

    for (int i = 0; i < WRITERS; i++) {
        set(&first[i].state, FRESH);
        published[i] = &first[i];
    }
    for (size_t i = 0; i < READERS; i++)
        readers[i] = start(reader, (void *)(i + 1));
    /* Writers would be done before readers get a CPU. */
    UNTIL(load(&reading) == READERS);
    pthread_t churner = start(churn, NULL);
    for (size_t i = 0; i < WRITERS; i++)
        writers[i] = start(writer, (void *)i);
    void *objects[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_join(writers[i], &objects[i]) == 0);
    CHECK(sp_rcu_barrier() == 0);
    set(&stop, 1);
    for (int i = 0; i < READERS; i++)
        join(readers[i]);
    join(churner);
    CHECK(freed == (unsigned long)WRITERS * ROUNDS);
    CHECK(reads > 0);
    CHECK(early == 0);
    for (int i = 0; i < WRITERS; i++)
        free(objects[i]);
    return 0;
}
