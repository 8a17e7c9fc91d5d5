/* Uses of each macro and inline function, which `ci/capi.sh` compiles with many warnings, as C and as C++. */

/* Names that programs define. */
#define noinline __attribute__((__noinline__))
#define weak __attribute__((__weak__))

#include <stillpoint/list.h>
#include <stillpoint/lock.h>
#include <stillpoint/map.h>
#ifdef __cplusplus
#include <stillpoint/lock.hpp>
#endif

struct node {
    int key;
    struct node *next;
    struct sp_rcu_head head;
};

struct element {
    int key;
    struct sp_list link;
    struct sp_hlist hash_link;
};

struct table {
    struct node *plain;
#ifdef __cplusplus
    std::atomic<struct node *> atomic;
#elif __STDC_VERSION__ >= 201112L
    _Atomic(struct node *) atomic;
#else
    struct node *atomic;
#endif
};

#ifdef __cplusplus

struct Reader {
    struct table *table;
    mutable struct sp_hazard hazard;
    int key() const;
};

int Reader::key() const
{
    const Reader *self = this;
    struct node *node = sp_hazard_protect(&self->hazard, self->table->plain);
    return node ? node->key : 0;
}

struct derived : node {};
void publish_derived(struct table *table, struct derived *node);
void publish_derived(struct table *table, struct derived *node)
{
    sp_rcu_assign_pointer(table->plain, node);
    sp_rcu_assign_pointer(table->atomic, node);
    sp_rcu_assign_pointer(table->plain, nullptr);
}
int key_of(const struct sp_list *link);
int key_of(const struct sp_list *link)
{
    const struct element *element = sp_container_of(link, struct element, link);
    return element->key;
}
#endif

int read_const(const struct table *table, struct sp_hazard *hazard);
int read_const(const struct table *table, struct sp_hazard *hazard)
{
    const struct node *plain, *atomic, *held[2];
    int sum;
    if (sp_rcu_read_lock() != 0)
        return -1;
    plain = sp_rcu_dereference(table->plain);
    atomic = sp_rcu_dereference(table->atomic);
    sum = (plain ? plain->key : 0) + (atomic ? atomic->key : 0);
    (void)sp_rcu_read_unlock();
    held[0] = sp_hazard_protect(hazard, table->plain);
    held[1] = sp_hazard_protect(hazard, table->atomic);
    sum += (held[0] ? held[0]->key : 0) + (held[1] ? held[1]->key : 0);
    sp_hazard_set(hazard, plain);
    sp_hazard_reset(hazard);
    sp_fence_light();
    return sum;
}

int walk(struct sp_list *list, struct sp_hlist_head *hash_list, struct sp_copy_map *map);
int walk(struct sp_list *list, struct sp_hlist_head *hash_list, struct sp_copy_map *map)
{
    int sum = 0;
    struct sp_list *link;
    sp_list_for_each_entry(element, list, struct element, link)
        sum += element->key;
    sp_hlist_for_each_entry(element, hash_list, struct element, hash_link)
        sum += element->key;
    sp_list_for_each(link, list)
        sp_list_for_each_entry(element, sum++ ? list : list, struct element, link)
            if (&element->link == link)
                break;
    return sum + sp_copy_map_get(map, &sum, SP_NULL_);
}

int locks(void);
int locks(void)
{
    static struct sp_mutex mutex = SP_MUTEX_INIT;
    static struct sp_cond condition = SP_COND_INIT;
    static struct sp_rwlock lock = SP_RWLOCK_INIT;
    int code;
    sp_rwlock_init(&lock);
    sp_mutex_lock(&mutex);
    code = sp_cond_wait(&condition, &mutex) + sp_cond_timedwait(&condition, &mutex, 1);
    sp_mutex_unlock(&mutex);
    sp_rwlock_rdlock(&lock);
    sp_rwlock_rdunlock(&lock);
    return code + sp_mutex_trylock(&mutex) + sp_mutex_timedlock(&mutex, 1) + sp_rwlock_timedwrlock(&lock, 1);
}

#ifdef __cplusplus
bool classes(stillpoint::mutex &mutex, stillpoint::shared_mutex &lock, stillpoint::condition_variable &condition);
bool classes(stillpoint::mutex &mutex, stillpoint::shared_mutex &lock, stillpoint::condition_variable &condition)
{
    const auto time = std::chrono::milliseconds(1);
    std::unique_lock<stillpoint::mutex> held(mutex);
    return lock.try_lock_for(time) && condition.wait_for(held, time, [] { return true; });
}
#endif

int publish(struct table *table, struct node *node, struct sp_domain *domain);
int publish(struct table *table, struct node *node, struct sp_domain *domain)
{
    struct sp_cookie cookie;
    struct node *old = sp_rcu_xchg_pointer(table->plain, node);
    old = old ? old : sp_rcu_xchg_pointer(table->atomic, node);
    sp_rcu_assign_pointer(table->plain, node);
    sp_rcu_assign_pointer(table->atomic, node);
    return sp_rcu_register_thread() + sp_synchronize_rcu() + sp_rcu_barrier() + sp_cookie_now(domain, &cookie) +
           sp_cookie_start(domain, &cookie) + sp_cookie_elapsed(domain, cookie) + sp_cookie_wait(domain, cookie) +
           sp_rcu_retire(old, free, sizeof *old) + sp_retire(domain, node, 0, free, SP_RUN_ON_RETIRING_THREAD);
}
