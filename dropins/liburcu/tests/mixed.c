/* All flavors in one process, each through its flavor struct, with the oracle for each; liburcu and liburcu-memb are
one library under two names. */
#include "flavor.h"
#include <urcu/call-rcu.h>
#include <urcu/flavor.h>
#include <urcu/pointer.h>

extern const struct rcu_flavor_struct urcu_memb_flavor, urcu_mb_flavor, urcu_qsbr_flavor, urcu_bp_flavor;

enum { FLAVORS = 4, UPDATES = 300, LIVE = 1, DEAD = 2, OBJECTS = 4096 };

struct object {
    struct rcu_head head;
    int state;
};

struct family {
    const struct rcu_flavor_struct *flavor;
    struct object *published, *objects;
    int stop, ready;
    unsigned long bad, reads, called;
};

static struct family families[FLAVORS] = {
    {.flavor = &urcu_memb_flavor},
    {.flavor = &urcu_mb_flavor},
    {.flavor = &urcu_qsbr_flavor},
    {.flavor = &urcu_bp_flavor},
};

static void *reader(void *argument)
{
    struct family *family = argument;
    const struct rcu_flavor_struct *flavor = family->flavor;
    flavor->register_thread();
    STORE(family->ready, 1);
    while (!LOAD(family->stop)) {
        flavor->read_lock();
        struct object *object = rcu_dereference(family->published);
        if ((family->reads & 15) == 0)
            usleep(10);
        if (CMM_LOAD_SHARED(object->state) != LIVE)
            ADD(family->bad, 1);
        flavor->read_unlock();
        flavor->read_quiescent_state();
        CMM_STORE_SHARED(family->reads, family->reads + 1);
    }
    flavor->unregister_thread();
    return NULL;
}

static void called(struct rcu_head *head)
{
    struct object *object = caa_container_of(head, struct object, head);
    STORE(object->state, DEAD);
}

static void *updater(void *argument)
{
    struct family *family = argument;
    const struct rcu_flavor_struct *flavor = family->flavor;
    flavor->register_thread();
    for (unsigned long i = 1; i < UPDATES || CMM_LOAD_SHARED(family->reads) < 100; i++) {
        struct object *next = &family->objects[i % OBJECTS], *old;
        STORE(next->state, LIVE);
        old = rcu_xchg_pointer(&family->published, next);
        if (i % 2) {
            flavor->update_call_rcu(&old->head, called);
            if (i % (OBJECTS / 2) == 1)
                flavor->barrier();
        } else {
            flavor->update_synchronize_rcu();
            STORE(old->state, DEAD);
        }
        flavor->read_quiescent_state();
    }
    flavor->barrier();
    flavor->unregister_thread();
    return NULL;
}

/* Both names give the same data, if the libraries are one. */
static int one_library(void)
{
    void *one = dlopen("liburcu.so.8", RTLD_NOW), *two = dlopen("liburcu-memb.so.8", RTLD_NOW);
    CHECK(one && two);
    return dlsym(one, "urcu_memb_gp") == dlsym(two, "urcu_memb_gp");
}

int main(int argc, char **argv)
{
    pthread_t readers[FLAVORS], updaters[FLAVORS];
    unsigned long bad = 0;
    for (int i = 0; i < FLAVORS; i++) {
        families[i].objects = calloc(OBJECTS, sizeof(struct object));
        CHECK(families[i].objects);
        families[i].published = families[i].objects;
        families[i].published->state = LIVE;
        readers[i] = start(reader, &families[i]);
    }
    for (int i = 0; i < FLAVORS; i++) {
        UNTIL(LOAD(families[i].ready));
        updaters[i] = start(updater, &families[i]);
    }
    for (int i = 0; i < FLAVORS; i++)
        join(updaters[i]);
    for (int i = 0; i < FLAVORS; i++) {
        STORE(families[i].stop, 1);
        join(readers[i]);
        bad += families[i].bad;
    }
    printf("%lu bad\n", bad);
    if (argc > 1 && strcmp(argv[1], "one") == 0)
        CHECK(one_library());
    return bad != 0;
}
