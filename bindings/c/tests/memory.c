/* Without memory, each function returns an error, or does what it does. It does not end the process. */

#include <sys/resource.h>

#include "check.h"

#include <stillpoint/lock.h>
#include <stillpoint/map.h>

static struct sp_domain *sessions, *unused;
static struct sp_copy_map *map;
static struct sp_rwlock lock = SP_RWLOCK_INIT;
static int calls;

static void count(void *unused)
{
    calls++;
}

static void on_stall(const struct sp_stall *stall, void *unused)
{
    count(unused);
}

static int register_thread(void) { return sp_rcu_register_thread(); }
static int read_lock(void) { return sp_rcu_read_lock(); }
static int qsbr_register(void) { return sp_qsbr_register(); }
static int hazard_init(void) { struct sp_hazard hazard; return sp_hazard_init(&hazard); }
static int counter_create(void) { struct sp_counter *counter; return sp_counter_create(&counter); }
static int pool_create(void) { struct sp_pool *pool; return sp_pool_create(&pool, 16); }
static int srcu_create(void) { struct sp_domain *domain; return sp_srcu_create(&domain); }
static int call(void) { return sp_call_rcu(count, NULL); }
static int retire(void) { return sp_rcu_retire(&calls, count, 1); }
static int set_hook(void) { return sp_set_stall_hook(on_stall, NULL); }

static int cookie_start(void) { struct sp_cookie cookie; return sp_cookie_start(sp_rcu_domain(), &cookie); }
static int srcu_cookie_start(void)
{
    struct sp_cookie cookie;
    return sp_cookie_start(sessions, &cookie) || sp_cookie_start(unused, &cookie);
}
static int cookie_wait(void)
{
    struct sp_cookie cookie;
    CHECK(sp_cookie_now(sp_rcu_domain(), &cookie) == 0);
    return sp_cookie_wait(sp_rcu_domain(), cookie);
}
static int synchronize(void) { return sp_synchronize_rcu(); }
static int barrier(void) { return sp_rcu_barrier(); }
static int srcu_barrier(void) { return sp_barrier(sessions) || sp_barrier(unused); }
static int hazard_barrier(void) { return sp_barrier(sp_hazard_domain()); }
static int reserve(void) { return sp_copy_map_reserve(map, 1000); }
static int read_lock_1000(void)
{
    for (int i = 0; i < 5000; i++) {
        sp_rwlock_rdlock(&lock);
        sp_rwlock_rdunlock(&lock);
    }
    return 0;
}
static int flush(void) { return sp_flush(sp_rcu_domain()); }
static int fence(void) { return sp_fence_heavy(); }
static int limits(void) { return sp_set_limits(sp_rcu_domain(), 10, 10) || sp_set_limits(unused, 10, 10); }
static int stats(void) { struct sp_stats stats; return sp_get_stats(sp_rcu_domain(), &stats); }
static int srcu_section(void) { return sp_srcu_read_unlock(sessions, sp_srcu_read_lock(sessions)); }

static const struct {
    const char *name;
    int (*function)(void);
    int code;
} functions[] = {
    {"sp_rcu_register_thread", register_thread, -ENOMEM},
    {"sp_rcu_read_lock", read_lock, -ENOMEM},
    {"sp_qsbr_register", qsbr_register, -ENOMEM},
    {"sp_hazard_init", hazard_init, -ENOMEM},
    {"sp_counter_create", counter_create, -ENOMEM},
    {"sp_pool_create", pool_create, -ENOMEM},
    {"sp_srcu_create", srcu_create, -ENOMEM},
    {"sp_call_rcu", call, -ENOMEM},
    {"sp_rcu_retire", retire, -ENOMEM},
    {"sp_copy_map_reserve", reserve, -ENOMEM},
    {"sp_set_stall_hook", set_hook, 0},
    {"sp_cookie_start", cookie_start, 0},
    {"sp_cookie_start of a sleepable domain", srcu_cookie_start, 0},
    {"sp_cookie_wait", cookie_wait, 0},
    {"sp_barrier of a sleepable domain", srcu_barrier, 0},
    {"sp_barrier of hazard pointers", hazard_barrier, 0},
    {"sp_rwlock_rdlock", read_lock_1000, 0},
    {"sp_synchronize_rcu", synchronize, 0},
    {"sp_rcu_barrier", barrier, 0},
    {"sp_flush", flush, 0},
    {"sp_fence_heavy", fence, 0},
    {"sp_set_limits", limits, 0},
    {"sp_get_stats", stats, 0},
    {"sp_srcu_read_lock", srcu_section, 0},
};

static int (*function)(void);
static int expected;

static void without_memory(void)
{
    struct rlimit limit = {80 << 20, 80 << 20};
    /* For the barriers. */
    CHECK(sp_call(sessions, count, NULL, 0) == 0 && sp_call(sp_hazard_domain(), count, NULL, 0) == 0);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    /* Down to the smallest block, in the order of sizes. Volatile: compilers may leave out what is not used. */
    void *volatile block;
    for (size_t size = 1 << 16; size > 0; size /= 2)
        do
            block = malloc(size);
        while (block);
    int code = function();
    if (code != expected) {
        char text[32];
        int length = snprintf(text, sizeof text, "returns %d\n", code);
        CHECK(write(2, text, (size_t)length) == length);
        _exit(1);
    }
}

int main(void)
{
    char text[4000];
    int failed = 0;
    alarm(280);
    CHECK(sp_srcu_create(&sessions) == 0 && sp_srcu_create(&unused) == 0 && sp_copy_map_create(&map, 8, 8, NULL) == 0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        function = functions[i].function;
        expected = functions[i].code;
        int status = in_child(without_memory, text, sizeof text);
        if (status != 0)
            fprintf(stderr, "%s ends with status %d:\n%s", functions[i].name, status, text);
        failed |= status != 0;
    }
    CHECK(sp_srcu_destroy(sessions) == 0 && sp_srcu_destroy(unused) == 0);
    return failed;
}
