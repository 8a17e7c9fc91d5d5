/* fork [WAY]: forks, ten at each of three levels: callbacks are queued before, in the parent and in the child, and each
process runs its own. With LFHT, a hash table of liburcu-cds that resizes itself is used on both sides. If the way is
`_Fork`, `syscall` or `clone`, the C library runs no handlers of pthread_atfork. */
#define _GNU_SOURCE
#include "flavor.h"
#include <signal.h>
#include <sys/syscall.h>

enum { FORKS = 10, DEPTH = 3, CALLS = 20, NODES = 600 };

static const char *way = "fork";

static pid_t make_child(void)
{
    if (strcmp(way, "fork") == 0)
        return fork();
    if (strcmp(way, "_Fork") == 0)
        return _Fork();
    if (strcmp(way, "syscall") == 0)
        return syscall(SYS_fork);
    CHECK(strcmp(way, "clone") == 0);
    return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static unsigned long called;
static void count_call(struct rcu_head *head)
{
    free(head);
    ADD(called, 1);
}

static void call_some(void)
{
    for (int i = 0; i < CALLS; i++) {
        struct rcu_head *head = malloc(sizeof *head);
        CHECK(head);
        call_rcu(head, count_call);
    }
}

#if defined(LFHT)
#include <urcu/rculfhash.h>

struct node {
    struct cds_lfht_node node;
    struct rcu_head head;
};

static void free_node(struct rcu_head *head)
{
    free(caa_container_of(head, struct node, head));
}

/* Fills and empties the table, so that it grows and shrinks in the background. */
static void use_table(struct cds_lfht *table)
{
    for (unsigned long i = 0; i < NODES; i++) {
        struct node *node = calloc(1, sizeof *node);
        CHECK(node);
        rcu_read_lock();
        cds_lfht_add(table, i * 2654435761ul, &node->node);
        rcu_read_unlock();
    }
    struct cds_lfht_iter iterator;
    struct node *node;
    unsigned long found = 0;
    rcu_read_lock();
    cds_lfht_for_each_entry(table, &iterator, node, node) {
        CHECK(cds_lfht_del(table, &node->node) == 0);
        call_rcu(&node->head, free_node);
        found++;
    }
    rcu_read_unlock();
    CHECK(found == NODES);
    quiescent();
}
#endif

static void levels(int depth)
{
    if (depth == 0)
        return;
#if defined(LFHT)
    struct cds_lfht *table =
        cds_lfht_new_flavor(1, 1, 0, CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING, &rcu_flavor, NULL);
    CHECK(table);
    use_table(table);
#endif
    for (int i = 0; i < (depth == DEPTH ? FORKS : 2); i++) {
        call_some();
        /* The workers that it pauses may wait for this thread, in qsbr. */
        rcu_thread_offline();
        call_rcu_before_fork();
#if defined(BP)
        urcu_bp_before_fork();
#endif
        pid_t child = make_child();
        CHECK(child >= 0);
        if (child == 0) {
#if defined(BP)
            urcu_bp_after_fork_child();
#endif
            call_rcu_after_fork_child();
            rcu_thread_online();
            alarm(60);
            call_some();
            synchronize_rcu();
            rcu_barrier();
            CHECK(LOAD(called) >= CALLS);
#if defined(LFHT)
            use_table(table);
#endif
            levels(depth - 1);
            rcu_barrier();
            _exit(0);
        }
#if defined(BP)
        urcu_bp_after_fork_parent();
#endif
        call_rcu_after_fork_parent();
        rcu_thread_online();
        call_some();
#if defined(LFHT)
        use_table(table);
#endif
        rcu_thread_offline();
        await_child(child);
        rcu_thread_online();
        rcu_barrier();
    }
#if defined(LFHT)
    rcu_thread_offline();
    CHECK(cds_lfht_destroy(table, NULL) == 0);
    rcu_thread_online();
#endif
}

#if !defined(LFHT)
static int hooks;

static void count_hook(void *counter)
{
    ++*(int *)counter;
}

/* The hooks that liburcu-cds registers are called once, however often they were registered. */
static void test_hooks(void)
{
    struct urcu_atfork atfork = {count_hook, count_hook, count_hook, &hooks};
    urcu_register_rculfhash_atfork(&atfork);
    urcu_register_rculfhash_atfork(&atfork);
    call_rcu_before_fork();
    CHECK(hooks == 1);
    call_rcu_after_fork_parent();
    CHECK(hooks == 2);
    urcu_unregister_rculfhash_atfork(&atfork);
    call_rcu_before_fork();
    CHECK(hooks == 3);
    call_rcu_after_fork_parent();
    CHECK(hooks == 4);
    urcu_unregister_rculfhash_atfork(&atfork);
    call_rcu_before_fork();
    call_rcu_after_fork_parent();
    CHECK(hooks == 4);
}
#endif

#if defined(BP)
/* A child has none of the parent's other threads, so it does not wait for their sections. */
static int inside, leave;

static void *stay_inside(void *unused)
{
    rcu_read_lock();
    STORE(inside, 1);
    UNTIL(LOAD(leave));
    rcu_read_unlock();
    return NULL;
}

static void test_prune(void)
{
    pthread_t thread = start(stay_inside, NULL);
    UNTIL(LOAD(inside));
    urcu_bp_before_fork();
    pid_t child = make_child();
    CHECK(child >= 0);
    if (child == 0) {
        urcu_bp_after_fork_child();
        alarm(60);
        synchronize_rcu();
        rcu_read_lock();
        rcu_read_unlock();
        synchronize_rcu();
        _exit(0);
    }
    urcu_bp_after_fork_parent();
    await_child(child);
    STORE(leave, 1);
    join(thread);
}
#endif

int main(int count, char **arguments)
{
    if (count > 1)
        way = arguments[1];
    rcu_register_thread();
#if !defined(LFHT)
    test_hooks();
#endif
#if defined(BP)
    test_prune();
#endif
    levels(DEPTH);
    rcu_barrier();
    rcu_unregister_thread();
    return 0;
}
