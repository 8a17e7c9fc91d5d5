/* A configuration that many threads read and one replaces: wait for the readers, then free the old one. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <stillpoint.h>

struct config {
    unsigned version;
    unsigned limit; /* always ten times the version */
};

static struct config *current;
static int stop;

static struct config *make(unsigned version)
{
    struct config *config = malloc(sizeof *config);
    if (!config)
        abort();
    *config = (struct config){.version = version, .limit = 10 * version};
    return config;
}

static void *reader(void *unused)
{
    unsigned long wrong = 0;
    (void)unused;
    if (sp_rcu_register_thread() != 0)
        return (void *)1;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        sp_rcu_read_lock();
        struct config *config = sp_rcu_dereference(current);
        wrong += config->limit != 10 * config->version;
        sp_rcu_read_unlock();
    }
    return (void *)wrong;
}

int main(void)
{
    enum { READERS = 3, VERSIONS = 200 };
    pthread_t readers[READERS];
    sp_fence_init();
    current = make(1);
    for (int i = 0; i < READERS; i++)
        if (pthread_create(&readers[i], NULL, reader, NULL) != 0)
            return 1;
    for (unsigned version = 2; version <= VERSIONS; version++) {
        struct config *old = sp_rcu_xchg_pointer(current, make(version));
        if (sp_synchronize_rcu() != 0)
            return 1;
        free(old);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    unsigned long wrong = 0;
    for (int i = 0; i < READERS; i++) {
        void *result;
        pthread_join(readers[i], &result);
        wrong += (unsigned long)result;
    }
    free(current);
    printf("%d versions, %lu wrong reads\n", VERSIONS, wrong);
    return wrong != 0;
}
