/* A library without grace periods, to be preloaded: the tests must notice it. Callbacks run at once. */
#include "flavor.h"

#define PASTE_(flavor, x) urcu_##flavor##x
#define PASTE(flavor, x) PASTE_(flavor, x)
#define NAME(x) PASTE(FLAVOR, _##x)

void synchronize_rcu(void)
{
}

void call_rcu(struct rcu_head *head, void (*function)(struct rcu_head *head))
{
    function(head);
}

void defer_rcu(void (*function)(void *p), void *p)
{
    function(p);
}

struct polled NAME(start_poll_synchronize_rcu)(void)
{
    return (struct polled){0};
}

bool NAME(poll_state_synchronize_rcu)(struct polled cookie)
{
    return true;
}
