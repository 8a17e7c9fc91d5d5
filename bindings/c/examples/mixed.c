/* The C half of `mixed.rs`. */

#include <stillpoint.h>

int c_read_lock(void);
int c_read_unlock(void);
int c_synchronize(void);
int c_defer(int *calls);

int c_read_lock(void)
{
    return sp_rcu_read_lock();
}

int c_read_unlock(void)
{
    return sp_rcu_read_unlock();
}

int c_synchronize(void)
{
    return sp_synchronize_rcu();
}

static void count(void *calls)
{
    __atomic_fetch_add((int *)calls, 1, __ATOMIC_RELEASE);
}

int c_defer(int *calls)
{
    return sp_call_rcu(count, calls);
}
