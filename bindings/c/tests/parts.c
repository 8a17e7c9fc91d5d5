/* Each function of the other parts: cookies, sleepable domains, quiescent states, fences, counters, pools, statistics.
*/

#include "check.h"

static int inside, leave, calls;

static void *hold(void *unused)
{
    CHECK(sp_rcu_read_lock() == 0);
    set(&inside, 1);
    UNTIL(load(&leave));
    CHECK(sp_rcu_read_unlock() == 0);
    return NULL;
}

static void count(void *by)
{
    __atomic_fetch_add(&calls, (int)(size_t)by, __ATOMIC_RELEASE);
}

static void count_head(struct sp_rcu_head *head)
{
    count((void *)1);
}

static void cookies(void)
{
    struct sp_cookie cookie, started;
    pthread_t thread = start(hold, NULL);
    UNTIL(load(&inside));
    CHECK(sp_cookie_now(sp_rcu_domain(), &cookie) == 0);
    CHECK(sp_cookie_start(sp_rcu_domain(), &started) == 0);
    CHECK(sp_cookie_wait_timeout(sp_rcu_domain(), cookie, 2000000) == -ETIMEDOUT);
    CHECK(sp_cookie_elapsed(sp_rcu_domain(), cookie) == 0 && sp_cookie_elapsed(sp_rcu_domain(), started) == 0);
    set(&leave, 1);
    UNTIL(sp_cookie_elapsed(sp_rcu_domain(), started));
    CHECK(sp_cookie_wait(sp_rcu_domain(), started) == 0);
    CHECK(sp_cookie_wait_timeout(sp_rcu_domain(), cookie, 60000000000) == 0);
    CHECK(sp_cookie_elapsed(sp_rcu_domain(), cookie) == 1);
    join(thread);
}

static void *leave_section(void *domain)
{
    usleep(2000);
    set(&leave, 1);
    CHECK(sp_srcu_read_unlock(domain, load(&inside)) == 0);
    return NULL;
}

static void sleepable(void)
{
    struct sp_domain *domain;
    struct sp_cookie cookie;
    CHECK(sp_srcu_create(&domain) == 0);
    int outer = sp_srcu_read_lock(domain), inner = sp_srcu_read_lock(domain);
    CHECK(outer >= 0 && inner >= 0);
    CHECK(sp_srcu_read_unlock(domain, outer) == 0);
    set(&leave, 0);
    set(&inside, inner);
    CHECK(sp_cookie_now(domain, &cookie) == 0);
    CHECK(sp_cookie_elapsed(domain, cookie) == 0);
    /* Another thread ends the section. */
    pthread_t thread = start(leave_section, domain);
    CHECK(sp_synchronize(domain) == 0);
    CHECK(load(&leave) == 1);
    CHECK(sp_cookie_elapsed(domain, cookie) == 1);
    join(thread);

    calls = 0;
    struct sp_rcu_head head;
    CHECK(sp_call(domain, count, (void *)1, 0) == 0);
    CHECK(sp_call_head(domain, &head, count_head, 0, 0) == 0);
    CHECK(sp_retire(domain, malloc(100), 100, NULL, 0) == 0);
    CHECK(sp_barrier(domain) == 0);
    CHECK(calls == 2);
    /* What is deferred last runs after the domain is destroyed. */
    CHECK(sp_call(domain, count, (void *)1, 0) == 0);
    CHECK(sp_srcu_destroy(domain) == 0);
    UNTIL(load(&calls) == 3);
    CHECK(sp_srcu_destroy(NULL) == 0);
}

static void *online(void *unused)
{
    CHECK(sp_qsbr_register() == 0);
    CHECK(sp_qsbr_register() == -EBUSY);
    CHECK(sp_qsbr_quiescent() == 0);
    set(&inside, 1);
    while (!load(&leave))
        CHECK(sp_qsbr_quiescent() == 0);
    CHECK(sp_qsbr_offline() == 0 && sp_qsbr_offline() == 0);
    CHECK(sp_synchronize(sp_qsbr_domain()) == 0);
    CHECK(sp_qsbr_online() == 0 && sp_qsbr_online() == 0);
    CHECK(sp_qsbr_quiescent() == 0);
    CHECK(sp_qsbr_unregister() == 0);
    return NULL;
}

static void quiescent_states(void)
{
    struct sp_cookie cookie;
    set(&inside, 0);
    set(&leave, 0);
    pthread_t thread = start(online, NULL);
    UNTIL(load(&inside));
    CHECK(sp_cookie_now(sp_qsbr_domain(), &cookie) == 0);
    CHECK(sp_synchronize(sp_qsbr_domain()) == 0);
    CHECK(sp_cookie_elapsed(sp_qsbr_domain(), cookie) == 1);
    set(&leave, 1);
    join(thread);
    calls = 0;
    CHECK(sp_call(sp_qsbr_domain(), count, (void *)1, 0) == 0);
    CHECK(sp_barrier(sp_qsbr_domain()) == 0);
    CHECK(calls == 1);
}

static struct sp_counter *counter;

static void *add(void *unused)
{
    for (int i = 0; i < 10000; i++)
        sp_counter_add(counter, (uint64_t)(i % 2 ? 3 : -1));
    return NULL;
}

static void per_cpu(void)
{
    struct sp_pool *pool;
    int objects[20], *popped;
    CHECK(sp_counter_create(&counter) == 0);
    in_threads(4, add, NULL);
    CHECK(sp_counter_sum(counter) == 40000);
    sp_counter_destroy(counter);
    sp_counter_destroy(NULL);

    CHECK(sp_pool_create(&pool, 4) == 0);
    CHECK(!sp_pool_pop(pool));
    int pushed = 0;
    while (pushed < 20 && sp_pool_push(pool, &objects[pushed]) == 0)
        pushed++;
    CHECK(pushed >= 4);
    CHECK(sp_pool_len(pool) == (size_t)pushed);
    for (int i = 0; i < pushed - 2; i++) {
        popped = sp_pool_pop(pool);
        CHECK(popped >= objects && popped < objects + pushed);
    }
    calls = 0;
    CHECK(sp_pool_destroy(pool, count) == 0);
    CHECK(calls != 0); /* two pointers, added up */
    CHECK(sp_pool_destroy(NULL, NULL) == 0);
    CHECK(sp_pool_create(&pool, 1) == 0 && sp_pool_push(pool, malloc(1)) == 0);
    CHECK(sp_pool_destroy(pool, free) == 0);
}

static int reports;

static void on_stall(const struct sp_stall *stall, void *argument)
{
    CHECK(argument == &reports);
    CHECK(strstr(stall->domain, "Global") && stall->waited_ns > 0 && stall->reader_count == 1);
    CHECK(stall->readers[0].thread_id != 0 && !stall->readers[0].has_exited);
    CHECK(stall->readers[0].thread_name && strstr(stall->text, "has waited"));
    CHECK(sp_rcu_read_lock() == 0 && sp_rcu_read_unlock() == 0);
    set(&reports, 1);
}

static void stalls(void)
{
    struct sp_stats before, after;
    CHECK(sp_get_stats(sp_rcu_domain(), &before) == 0);
    CHECK(sp_set_stall_hook(on_stall, &reports) == 0);
    CHECK(sp_set_stall_timeout(2000000) == 0);
    set(&inside, 0);
    set(&leave, 0);
    pthread_t thread = start(hold, NULL);
    struct sp_cookie cookie;
    UNTIL(load(&inside));
    CHECK(sp_cookie_start(sp_rcu_domain(), &cookie) == 0);
    UNTIL(load(&reports));
    CHECK(sp_get_stats(sp_rcu_domain(), &after) == 0);
    CHECK(after.waiting_ns >= 2000000);
    set(&leave, 1);
    join(thread);
    CHECK(sp_cookie_wait(sp_rcu_domain(), cookie) == 0);
    CHECK(sp_set_stall_timeout(0) == 0 && sp_set_stall_hook(NULL, NULL) == 0);
    CHECK(sp_get_stats(sp_rcu_domain(), &after) == 0);
    CHECK(after.stalls > before.stalls && after.grace_periods > before.grace_periods);
    CHECK(after.sleeps > before.sleeps && after.longest_wait_ns >= 2000000);
    uint64_t longer = 0;
    for (int class = 2; class < 7; class++)
        longer += after.waits[class] - before.waits[class];
    CHECK(longer > 0);
}

static void deferring(void)
{
    calls = 0;
    CHECK(sp_set_limits(sp_rcu_domain(), 1000, 1 << 20) == 0);
    for (int i = 0; i < 5000; i++)
        CHECK(sp_call(sp_rcu_domain(), count, (void *)1, SP_RUN_ON_RETIRING_THREAD) == 0);
    for (int i = 0; i < 5000; i++)
        CHECK(sp_retire(sp_rcu_domain(), malloc(1000), 1000, i % 2 ? NULL : free, 0) == 0);
    while (sp_flush(sp_rcu_domain()) == 1)
        usleep(100);
    CHECK(sp_rcu_barrier() == 0);
    CHECK(calls == 5000);
    struct sp_stats stats;
    CHECK(sp_get_stats(sp_rcu_domain(), &stats) == 0);
    CHECK(stats.queued == 0 && stats.queued_bytes == 0 && stats.done >= 10000);
}

int main(void)
{
    alarm(280);
    CHECK(sp_fence_init() >= 0);
    sp_fence_light();
    CHECK(sp_fence_heavy() == 0);
    sp_fence_light();
    cookies();
    sleepable();
    quiescent_states();
    per_cpu();
    stalls();
    deferring();
    return 0;
}
