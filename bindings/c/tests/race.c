/* race WHICH: a configuration that is replaced. What WHICH names is wrong: ThreadSanitizer reports it, and nothing in the
others. */

#include "check.h"

#include <stillpoint/lock.h>

struct config {
    int value;
    struct sp_rcu_head head;
};

static struct config *current;
static struct sp_rwlock lock = SP_RWLOCK_INIT;
static int stop, reads, freed, counted;
static struct sp_domain *sessions;

static int is(const char *which, const char *name)
{
    return strcmp(which, name) == 0;
}

static struct config *make(int value)
{
    struct config *config = malloc(sizeof *config);
    CHECK(config);
    config->value = value;
    return config;
}

/* Under a lock, which would order the accesses of the other races. */
static void count(const char *which)
{
    if (is(which, "write under a lock for reading")) {
        sp_rwlock_rdlock(&lock);
        counted++;
        sp_rwlock_rdunlock(&lock);
    } else if (is(which, "")) {
        sp_rwlock_wrlock(&lock);
        counted++;
        sp_rwlock_wrunlock(&lock);
    }
}

static void *reader(void *which)
{
    long sum = 0;
    CHECK(sp_rcu_register_thread() == 0);
    while (!load(&stop)) {
        sp_rcu_read_lock();
        struct config *config = sp_rcu_dereference(current);
        if (is(which, "read after the section"))
            sp_rcu_read_unlock();
        sum += config->value;
        if (!is(which, "read after the section"))
            sp_rcu_read_unlock();
        __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
        if (is(which, "read after the section"))
            usleep(1000); /* the end of the next section would order the read */
        count(which);
    }
    return (void *)(size_t)(sum == 0);
}

static void free_config(struct sp_rcu_head *head)
{
    freed++;
    free(sp_container_of(head, struct config, head));
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    alarm(100);
    CHECK(sp_srcu_create(&sessions) == 0);
    current = make(1);
    pthread_t thread = start(reader, (void *)which);
    for (int i = 2; i < 200; i++) {
        int before = __atomic_load_n(&reads, __ATOMIC_RELAXED);
        count(which);
        if (is(which, "change in place"))
            current->value = i;
        struct config *old = sp_rcu_xchg_pointer(current, make(i));
        if (is(which, "free without waiting"))
            usleep(1000); /* beyond the section, but nothing says so */
        else if (is(which, "wait for another domain"))
            CHECK(sp_synchronize(sessions) == 0 && usleep(1000) == 0);
        else if (i % 2)
            CHECK(sp_synchronize_rcu() == 0);
        if (i % 2)
            free(old);
        else
            CHECK(sp_call_rcu_head(&old->head, free_config) == 0);
        UNTIL(__atomic_load_n(&reads, __ATOMIC_RELAXED) != before);
    }
    if (is(which, "look at what callbacks count"))
        usleep(20000);
    else
        CHECK(sp_rcu_barrier() == 0);
    CHECK(freed > 0);
    set(&stop, 1);
    join(thread);
    free(current);
    return sp_srcu_destroy(sessions);
}
