// Hazard pointers by the C interface.
#include "check.h"

#include <stdatomic.h>

struct node {
    struct sp_rcu_head head; // first: hazard pointers protect its address
    int value;
};

static atomic_int freed;
static struct node *current;
static atomic_int stop;

static struct node *make(int value)
{
    struct node *node = malloc(sizeof *node);
    CHECK(node);
    node->value = value;
    return node;
}

static void reclaim(struct sp_rcu_head *head)
{
    struct node *node = (struct node *)head;
    node->value = -1;
    free(node);
    freed++;
}

static void retire(struct node *node)
{
    CHECK(sp_call_head(sp_hazard_domain(), &node->head, reclaim, sizeof *node, 0) == 0);
}

static void *read_all(void *unused)
{
    struct sp_hazard hazard[2];
    CHECK(sp_hazard_init(&hazard[0]) == 0 && sp_hazard_init(&hazard[1]) == 0);
    while (!stop) {
        struct node *first = sp_hazard_protect(&hazard[0], current);
        struct node *second = sp_hazard_protect(&hazard[1], current);
        CHECK(first->value >= 0 && second->value >= first->value);
    }
    sp_hazard_destroy(&hazard[0]);
    sp_hazard_destroy(&hazard[1]);
    return NULL;
}

static void replace_all(void)
{
    for (int value = 3; value < 20000; value++)
        retire(sp_rcu_xchg_pointer(current, make(value)));
    stop = 1;
}

int main(void)
{
    struct sp_hazard hazard;
    CHECK(sp_hazard_init(&hazard) == 0);
    current = make(1);
    struct node *seen = sp_hazard_protect(&hazard, current);
    retire(sp_rcu_xchg_pointer(current, make(2)));
    CHECK(sp_barrier(sp_hazard_domain()) == 0);
    CHECK(freed == 0 && seen->value == 1);
    struct sp_stats stats;
    CHECK(sp_get_stats(sp_hazard_domain(), &stats) == 0);
    CHECK(stats.queued == 1 && stats.kept == 1);
    sp_hazard_reset(&hazard);
    CHECK(sp_barrier(sp_hazard_domain()) == 0);
    CHECK(freed == 1);

    // What free(3) frees is protected by its own address. Another function is refused.
    int *number = malloc(sizeof *number);
    CHECK(number);
    *number = 7;
    sp_hazard_set(&hazard, number);
    CHECK(sp_retire(sp_hazard_domain(), number, sizeof *number, free, 0) == -EINVAL);
    CHECK(sp_retire(sp_hazard_domain(), number, sizeof *number, NULL, 0) == 0);
    CHECK(sp_barrier(sp_hazard_domain()) == 0);
    CHECK(*number == 7);

    in_threads(2, read_all, replace_all);
    retire(current);
    sp_hazard_destroy(&hazard);
    sp_hazard_destroy(&hazard);
    CHECK(sp_barrier(sp_hazard_domain()) == 0);
    CHECK(freed == 19999);
    return 0;
}
