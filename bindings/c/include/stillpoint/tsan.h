/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef STILLPOINT_TSAN_H
#define STILLPOINT_TSAN_H

/* What `stillpoint.h` includes when a program is built with `-fsanitize=thread`. The library is not instrumented, so
ThreadSanitizer does not see which of its calls happen before which. The functions below call those of the library,
and tell it.

Addresses stand for what is released and acquired. Of a domain: `SP_TSAN_READERS_` from the end of a section, or from
when a hazard pointer ceases to protect, to threads that have waited, and to callbacks; `SP_TSAN_WAITERS_` from
threads that wait to later sections; the third from threads that defer to the callback, and from there to barriers. A
race is missed if another section of the domain ends between its two accesses, in the first one's thread. */

/* The library allocates memory in one thread and frees it in another. So its calls of the C library are not looked
at: this names it, and the shared library is the one to link. GCC finds a weak function. With Clang, one file of the
program defines `SP_TSAN_SUPPRESSIONS` before it includes the header; or the program has a function of its own that
returns this line too, or `TSAN_OPTIONS` names a file with it. */
#if defined(SP_TSAN_SUPPRESSIONS) || !defined(__clang__)
#ifdef SP_TSAN_SUPPRESSIONS
#define SP_TSAN_LINKAGE_ __attribute__((__visibility__("default")))
#else
#define SP_TSAN_LINKAGE_ __attribute__((__visibility__("default"), __weak__))
#endif
const char *__tsan_default_suppressions(void);
SP_TSAN_UNSEEN_ SP_TSAN_LINKAGE_ const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libstillpoint.so\n";
}
#endif

#define SP_TSAN_DEFERRED_(domain) (SP_CAST_(char *, domain) + 2)

/* Before and after a wait for readers. */
static inline void sp_tsan_wait_(struct sp_domain *domain)
{
    __tsan_release(SP_TSAN_WAITERS_(domain));
}

static inline int sp_tsan_waited_(struct sp_domain *domain, int code, int waited)
{
    if (code == waited)
        __tsan_acquire(SP_TSAN_READERS_(domain));
    return code;
}

static inline int sp_tsan_synchronize_(struct sp_domain *domain)
{
    sp_tsan_wait_(domain);
    return sp_tsan_waited_(domain, sp_synchronize(domain), 0);
}

static inline int sp_tsan_barrier_(struct sp_domain *domain)
{
    int code = sp_barrier(domain);
    if (code == 0)
        __tsan_acquire(SP_TSAN_DEFERRED_(domain));
    return code;
}

static inline int sp_tsan_cookie_now_(struct sp_domain *domain, struct sp_cookie *cookie)
{
    sp_tsan_wait_(domain);
    return sp_cookie_now(domain, cookie);
}

static inline int sp_tsan_cookie_start_(struct sp_domain *domain, struct sp_cookie *cookie)
{
    sp_tsan_wait_(domain);
    return sp_cookie_start(domain, cookie);
}

static inline int sp_tsan_cookie_elapsed_(struct sp_domain *domain, struct sp_cookie cookie)
{
    return sp_tsan_waited_(domain, sp_cookie_elapsed(domain, cookie), 1);
}

static inline int sp_tsan_cookie_wait_(struct sp_domain *domain, struct sp_cookie cookie)
{
    return sp_tsan_waited_(domain, sp_cookie_wait(domain, cookie), 0);
}

static inline int sp_tsan_cookie_wait_timeout_(struct sp_domain *domain, struct sp_cookie cookie, uint64_t nanoseconds)
{
    return sp_tsan_waited_(domain, sp_cookie_wait_timeout(domain, cookie, nanoseconds), 0);
}

/* A deferred call. */
struct sp_tsan_call_ {
    struct sp_domain *domain;
    /* Of the thread that defers: its calls run in order. */
    struct sp_thread_ *thread;
    void (*function)(void *argument);
    void (*head_function)(struct sp_rcu_head *head);
    void *argument;
};

static inline struct sp_tsan_call_ *sp_tsan_call_new_(struct sp_domain *domain)
{
    struct sp_tsan_call_ *call = SP_CAST_(struct sp_tsan_call_ *, calloc(1, sizeof(struct sp_tsan_call_)));
    if (call) {
        call->domain = domain;
        call->thread = &sp_thread_v1_;
    }
    return call;
}

static inline int sp_tsan_deferred_(struct sp_tsan_call_ *call, int code)
{
    if (code != 0)
        free(call);
    return code;
}

/* Runs in a thread of the library. `call` is given up first: `function` may not return. */
static inline struct sp_tsan_call_ sp_tsan_begin_(void *call)
{
    struct sp_tsan_call_ taken = *SP_CAST_(struct sp_tsan_call_ *, call);
    free(call);
    __tsan_acquire(SP_TSAN_READERS_(taken.domain));
    __tsan_acquire(taken.thread);
    return taken;
}

static inline void sp_tsan_end_(struct sp_tsan_call_ taken)
{
    __tsan_release(taken.thread);
    __tsan_release(SP_TSAN_DEFERRED_(taken.domain));
}

static inline void sp_tsan_run_(void *call)
{
    struct sp_tsan_call_ taken;
    __tsan_acquire(call);
    taken = sp_tsan_begin_(call);
    taken.function(taken.argument);
    sp_tsan_end_(taken);
}

static inline void sp_tsan_run_head_(struct sp_rcu_head *head)
{
    struct sp_tsan_call_ taken;
    __tsan_acquire(head);
    taken = sp_tsan_begin_(head->reserved_);
    taken.head_function(head);
    sp_tsan_end_(taken);
}

static inline int sp_tsan_call_later_(struct sp_domain *domain, void (*function)(void *argument), void *argument,
                                   unsigned flags)
{
    struct sp_tsan_call_ *call = function ? sp_tsan_call_new_(domain) : SP_NULL_;
    if (!call)
        return function ? -ENOMEM : sp_call(domain, function, argument, flags);
    call->function = function;
    call->argument = argument;
    __tsan_release(call);
    return sp_tsan_deferred_(call, sp_call(domain, sp_tsan_run_, call, flags));
}

static inline int sp_tsan_call_head_(struct sp_domain *domain, struct sp_rcu_head *head,
                                     void (*function)(struct sp_rcu_head *head), size_t bytes, unsigned flags)
{
    struct sp_tsan_call_ *call = function ? sp_tsan_call_new_(domain) : SP_NULL_;
    if (!call)
        return function ? -ENOMEM : sp_call_head(domain, head, function, bytes, flags);
    call->head_function = function;
    head->reserved_ = call;
    __tsan_release(head);
    return sp_tsan_deferred_(call, sp_call_head(domain, head, sp_tsan_run_head_, bytes, flags));
}

static inline int sp_tsan_retire_(struct sp_domain *domain, void *pointer, size_t bytes, void (*function)(void *pointer),
                                  unsigned flags)
{
    struct sp_tsan_call_ *call;
    /* Hazard pointers protect the address: the library frees it, without a call of the program's. */
    if (domain == sp_hazard_domain())
        return sp_retire(domain, pointer, bytes, function, flags);
    call = sp_tsan_call_new_(domain);
    if (!call)
        return -ENOMEM;
    call->function = function ? function : free;
    call->argument = pointer;
    __tsan_release(call);
    return sp_tsan_deferred_(call, sp_retire(domain, call, bytes, sp_tsan_run_, flags));
}

static inline int sp_tsan_srcu_read_lock_(struct sp_domain *domain)
{
    int section = sp_srcu_read_lock(domain);
    __tsan_acquire(SP_TSAN_WAITERS_(domain));
    return section;
}

static inline int sp_tsan_srcu_read_unlock_(struct sp_domain *domain, int section)
{
    __tsan_release(SP_TSAN_READERS_(domain));
    return sp_srcu_read_unlock(domain, section);
}

static inline void sp_tsan_qsbr_left_(void)
{
    __tsan_release(SP_TSAN_READERS_(sp_qsbr_domain()));
}

static inline int sp_tsan_qsbr_entered_(int code)
{
    __tsan_acquire(SP_TSAN_WAITERS_(sp_qsbr_domain()));
    return code;
}

static inline int sp_tsan_qsbr_register_(void)
{
    return sp_tsan_qsbr_entered_(sp_qsbr_register());
}

static inline int sp_tsan_qsbr_unregister_(void)
{
    sp_tsan_qsbr_left_();
    return sp_qsbr_unregister();
}

static inline int sp_tsan_qsbr_quiescent_(void)
{
    sp_tsan_qsbr_left_();
    return sp_tsan_qsbr_entered_(sp_qsbr_quiescent());
}

static inline int sp_tsan_qsbr_offline_(void)
{
    sp_tsan_qsbr_left_();
    return sp_qsbr_offline();
}

static inline int sp_tsan_qsbr_online_(void)
{
    return sp_tsan_qsbr_entered_(sp_qsbr_online());
}

static inline void sp_tsan_hazard_destroy_(struct sp_hazard *hazard)
{
    __tsan_release(SP_TSAN_READERS_(sp_hazard_domain()));
    sp_hazard_destroy(hazard);
}

static inline void sp_tsan_counter_add_(struct sp_counter *counter, uint64_t by)
{
    __tsan_release(counter);
    sp_counter_add(counter, by);
}

static inline uint64_t sp_tsan_counter_sum_(const struct sp_counter *counter)
{
    uint64_t sum = sp_counter_sum(counter);
    __tsan_acquire(SP_CAST_(void *, SP_CAST_(uintptr_t, counter)));
    return sum;
}

static inline int sp_tsan_pool_push_(struct sp_pool *pool, void *object)
{
    __tsan_release(object);
    return sp_pool_push(pool, object);
}

static inline void *sp_tsan_pool_pop_(struct sp_pool *pool)
{
    void *object = sp_pool_pop(pool);
    if (object)
        __tsan_acquire(object);
    return object;
}

#define sp_synchronize sp_tsan_synchronize_
#define sp_barrier sp_tsan_barrier_
#define sp_cookie_now sp_tsan_cookie_now_
#define sp_cookie_start sp_tsan_cookie_start_
#define sp_cookie_elapsed sp_tsan_cookie_elapsed_
#define sp_cookie_wait sp_tsan_cookie_wait_
#define sp_cookie_wait_timeout sp_tsan_cookie_wait_timeout_
#define sp_call sp_tsan_call_later_
#define sp_call_head sp_tsan_call_head_
#define sp_retire sp_tsan_retire_
#define sp_srcu_read_lock sp_tsan_srcu_read_lock_
#define sp_srcu_read_unlock sp_tsan_srcu_read_unlock_
#define sp_qsbr_register sp_tsan_qsbr_register_
#define sp_qsbr_unregister sp_tsan_qsbr_unregister_
#define sp_qsbr_quiescent sp_tsan_qsbr_quiescent_
#define sp_qsbr_offline sp_tsan_qsbr_offline_
#define sp_qsbr_online sp_tsan_qsbr_online_
#define sp_hazard_destroy sp_tsan_hazard_destroy_
#define sp_counter_add sp_tsan_counter_add_
#define sp_counter_sum sp_tsan_counter_sum_
#define sp_pool_push sp_tsan_pool_push_
#define sp_pool_pop sp_tsan_pool_pop_

/* The inline functions of `stillpoint.h` that call the library itself. */
static inline int sp_tsan_synchronize_rcu_(void) { return sp_synchronize(sp_rcu_domain()); }
#define sp_synchronize_rcu sp_tsan_synchronize_rcu_
#define sp_rcu_barrier() sp_barrier(sp_rcu_domain())
#define sp_call_rcu(function, argument) sp_call(sp_rcu_domain(), (function), (argument), 0)
#define sp_call_rcu_head(head, function) sp_call_head(sp_rcu_domain(), (head), (function), 0, 0)
#define sp_rcu_retire(pointer, function, bytes) sp_retire(sp_rcu_domain(), (pointer), (bytes), (function), 0)

#endif
