/* syscalls COUNT: COUNT grace periods beside four readers that sleep 1 ms in each section. Its system calls are counted
from outside. */
#include "flavor.h"

enum { READERS = 4 };

static int stop, ready;

static void reader(void)
{
    ADD(ready, 1);
    while (!LOAD(stop)) {
        rcu_read_lock();
        usleep(1000);
        rcu_read_unlock();
        quiescent();
    }
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++)
        threads[i] = start_registered(reader);
    UNTIL(LOAD(ready) == READERS);
    rcu_register_thread();
    for (unsigned long i = 0; i < count; i++)
        synchronize_rcu();
    rcu_thread_offline();
    STORE(stop, 1);
    for (int i = 0; i < READERS; i++)
        join(threads[i]);
    rcu_thread_online();
    rcu_unregister_thread();
    return 0;
}
