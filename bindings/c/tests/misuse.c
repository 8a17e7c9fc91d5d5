/* What programs do wrong. With an argument, the library is a debug build, which aborts. */

#include <signal.h>

#include <stillpoint/map.h>

#include "check.h"

static int code;

static void unlock_unregistered(void)
{
    code = sp_rcu_read_unlock();
    CHECK(code == -EPERM);
}

static void synchronize_inside(void)
{
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_synchronize_rcu() == -EDEADLK);
    CHECK(sp_rcu_read_unlock() == 0);
    CHECK(sp_synchronize_rcu() == 0);
}

static void barrier_inside(void)
{
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_rcu_barrier() == -EDEADLK);
}

static void wait_inside(void)
{
    struct sp_cookie cookie;
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_cookie_now(sp_rcu_domain(), &cookie) == 0);
    CHECK(sp_cookie_wait(sp_rcu_domain(), cookie) == -EDEADLK);
}

static void timed_wait_inside(void)
{
    struct sp_cookie cookie;
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(sp_cookie_now(sp_rcu_domain(), &cookie) == 0);
    CHECK(sp_cookie_wait_timeout(sp_rcu_domain(), cookie, 1) == -EDEADLK);
}

static void barrier(void *unused)
{
    set(&code, sp_rcu_barrier());
}

static void barrier_in_callback(void)
{
    CHECK(sp_call_rcu(barrier, NULL) == 0);
    CHECK(sp_rcu_barrier() == 0);
    CHECK(load(&code) == -EDEADLK);
}

static void synchronize_online(void)
{
    CHECK(sp_qsbr_register() == 0);
    CHECK(sp_synchronize(sp_qsbr_domain()) == -EDEADLK);
}

static void quiescent_unregistered(void)
{
    CHECK(sp_qsbr_quiescent() == -EPERM);
}

static void quiescent_offline(void)
{
    CHECK(sp_qsbr_register() == 0 && sp_qsbr_offline() == 0);
    CHECK(sp_qsbr_quiescent() == -EPERM);
}

static void unknown_flags(void)
{
    CHECK(sp_call(sp_rcu_domain(), free, NULL, 64) == -EINVAL);
}

static void no_function(void)
{
    CHECK(sp_call_rcu(NULL, NULL) == -EINVAL);
}

static void unlock_of_no_section(void)
{
    struct sp_domain *domain;
    CHECK(sp_srcu_create(&domain) == 0);
    CHECK(sp_srcu_read_unlock(domain, 2) == -EINVAL);
}

static void destroy_static_domain(void)
{
    CHECK(sp_srcu_destroy(sp_rcu_domain()) == -EINVAL);
}

static void wait_in_hook(const struct sp_stall *stall, void *unused)
{
    if (load(&code) == 0)
        set(&code, sp_synchronize(sp_qsbr_domain()));
}

static void *synchronize(void *unused)
{
    CHECK(sp_synchronize_rcu() == 0);
    return NULL;
}

static void synchronize_in_hook(void)
{
    CHECK(sp_set_stall_timeout(1) == 0 && sp_set_stall_hook(wait_in_hook, NULL) == 0);
    CHECK(sp_rcu_read_lock() == 0);
    pthread_t thread = start(synchronize, NULL);
    UNTIL(load(&code) != 0);
    CHECK(sp_rcu_read_unlock() == 0);
    join(thread);
    CHECK(code == -EDEADLK);
}

static uint64_t hash(const void *key)
{
    return *(const uint64_t *)key;
}

static int equal(const void *key, const void *other)
{
    return *(const uint64_t *)key == *(const uint64_t *)other;
}

static void look_up_outside(void)
{
    uint64_t key = 1;
    struct sp_hash_map *map;
    CHECK(sp_hash_map_create(&map, 0, hash, equal) == 0);
    sp_hash_map_get(map, &key);
}

int main(int argc, char **argv)
{
    /* The last is detected in a debug build only. */
    static void (*const tests[])(void) = {
        unlock_unregistered, synchronize_inside, barrier_inside, wait_inside, timed_wait_inside,
        barrier_in_callback, synchronize_online, quiescent_unregistered, quiescent_offline, unknown_flags,
        no_function, unlock_of_no_section, destroy_static_domain, synchronize_in_hook,
        look_up_outside,
    };
    int debug = argc > 1;
    char text[4096];
    alarm(280);
    for (size_t i = 0; i < sizeof tests / sizeof *tests - !debug; i++) {
        int status = in_child(tests[i], text, sizeof text);
        int as_expected = debug ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT
                                : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!as_expected || strncmp(text, "stillpoint: sp_", 15) != 0) {
            fprintf(stderr, "test %zu: status %d, %s\n", i, status, text);
            return 1;
        }
    }
    return 0;
}
