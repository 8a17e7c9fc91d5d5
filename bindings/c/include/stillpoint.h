/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef STILLPOINT_H
#define STILLPOINT_H

/*#
# The C interface

`stillpoint.h` is for C99 and later, and for C++11 and later; C++17 programs may prefer
[`stillpoint/rcu.hpp`](c-rcu-hpp.md). [`stillpoint/list.h`](c-list.md) has lists, [`stillpoint/map.h`](c-map.md)
hash maps, and [`stillpoint/lock.h`](c-lock.md) locks. It needs 64-bit Linux, and GCC or Clang. The Rust documentation
explains the terms and the costs; this page says what is particular to C.

`bindings/c/reference.sh` makes a page of the comments in the header.

## A first program

```c
#include <stdio.h>
#include <stdlib.h>
#include <stillpoint.h>

static int *limit; // read by many threads, replaced by one

static int *make(int value)
{
    int *limit = malloc(sizeof *limit);
    if (!limit)
        abort();
    *limit = value;
    return limit;
}

static int read_limit(void)
{
    sp_rcu_read_lock();
    int value = *sp_rcu_dereference(limit);
    sp_rcu_read_unlock();
    return value;
}

int main(void)
{
    limit = make(1);
    int before = read_limit();
    int *old = sp_rcu_xchg_pointer(limit, make(2));
    sp_rcu_retire(old, NULL, sizeof *old); // freed with free(3) when no reader can hold it
    printf("%d, then %d\n", before, read_limit());
    free(limit);
    return sp_rcu_barrier(); // what has been retired is freed
}
```

After `bindings/c/install.sh DIR`, which prints these commands with its paths:

| build with | command |
|---|---|
| pkg-config | `cc first.c $(pkg-config --cflags --libs stillpoint) -Wl,-rpath,DIR/lib`, with `PKG_CONFIG_PATH=DIR/lib/pkgconfig` |
| static | `cc -static first.c $(pkg-config --static --cflags --libs stillpoint)`; only the library: name `DIR/lib/libstillpoint.a` instead of `-lstillpoint`. The linker warns of `dlopen` and two functions of Rust's library, which work or are not called |
| CMake | `find_package(stillpoint)` and `target_link_libraries(first stillpoint::stillpoint)`, or `stillpoint::static`, with `-DCMAKE_PREFIX_PATH=DIR` |

`-Wl,-rpath,DIR/lib` lets the program find the shared library. Without it, set `LD_LIBRARY_PATH`, or install below a
folder of the system (`/usr/local`) and run `ldconfig`.

Longer programs: [a configuration](examples/config.c), [a list](examples/list.c), [a table of
connections](examples/connections.c), [a queue with locks](examples/queue.c), [a tour of the other
parts](examples/tour.c), [C in a Rust program](examples/mixed.c).

## Rules

- *Errors.* Functions that return `int` return 0, another value that is not negative where stated, or a negative
  `errno`:

  | code | meaning |
  |---|---|
  | `-ENOMEM` | no memory, or no thread-specific data key |
  | `-EDEADLK` | the call would wait for itself: inside a read-side critical section, in a callback, in a stall hook |
  | `-EPERM` | the calling thread has no section to end, or is not registered |
  | `-EINVAL` | an argument is not allowed |
  | `-ENOTRECOVERABLE` | the library has panicked, with a message on the standard error: it has a bug, or the kernel denies a system call that it allowed before |

  Functions of which no code is said need no memory, with two exceptions, where the process aborts with a message.
  What `sp_call`, `sp_call_head` and `sp_retire` defer stands in a queue, which must grow. And the report of a stall
  is text.
- *Misuse* that is detected is reported on the standard error and returns an error code. In a debug build of the
  library it aborts. With `SP_DEBUG` defined before the header is included, `sp_rcu_read_unlock` detects misuse too,
  and aborts.
- *Exceptions* do not cross the library. If a callback throws, the process ends. A callback must not call
  `pthread_exit`.
- *Threads.* A thread that exits inside a section leaves the section open: grace periods wait for it, and the stall
  report names it. What an exiting thread has deferred is run by the library. Destructors of thread-specific data may
  read and defer.
- *Signals.* A handler may use sections of the rcu domain (`sp_rcu_read_lock`) if `sp_rcu_register_thread` has been
  called in its thread, whose destructors of thread-specific data do not run yet; sections of sleepable domains;
  `sp_fence_light`; and counters whose thread has used one before. It must call nothing else. Registering in a handler
  is not safe: it may allocate.
- *Fork.* The child may use the library at once. Only the thread that forked continues there, with the sections that
  it had open; other threads' sections of the rcu domain are over. What was deferred before the fork runs in the
  parent only.
- *Unloading.* After `dlclose`, the shared library stays mapped until the process ends. A library that is to be
  unloaded calls `sp_barrier` first if its functions are callbacks.
- *ThreadSanitizer* (`-fsanitize=thread`) knows what the functions order, if the file that calls them is built with it
  and the program links the shared library. With Clang, one file of the program defines `SP_TSAN_SUPPRESSIONS` before
  it includes the header.
- *Rust.* A program may mix Rust code that uses the crate `stillpoint` with C code: readers of both are readers of the
  same domain, and sections of both nest. It links `stillpoint-capi`, not `libstillpoint`.
*/

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "stillpoint runs on 64-bit Linux only"
#endif

#ifdef __cplusplus
#include <atomic>
#define SP_CAST_(type, value) reinterpret_cast<type>(value)
#define SP_NULL_ nullptr
extern "C" {
#else
#define SP_CAST_(type, value) ((type)(value))
#define SP_NULL_ NULL
#endif

/* For ThreadSanitizer, which does not see what the library does: `stillpoint/tsan.h`. */
#if defined(__SANITIZE_THREAD__)
#define SP_TSAN_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SP_TSAN_ 1
#endif
#endif
#ifdef SP_TSAN_
struct sp_domain;
struct sp_domain *sp_rcu_domain(void) __attribute__((__const__));
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define SP_TSAN_ACQUIRE_(address) __tsan_acquire(address)
#define SP_TSAN_RELEASE_(address) __tsan_release(address)
/* Functions that access memory of the library, which has cleared it unseen. */
#ifdef __clang__
#define SP_TSAN_UNSEEN_ __attribute__((__disable_sanitizer_instrumentation__, __noinline__))
#else
#define SP_TSAN_UNSEEN_ __attribute__((__no_sanitize_thread__))
#endif
#else
#define SP_TSAN_UNSEEN_
#define SP_TSAN_ACQUIRE_(address)
#define SP_TSAN_RELEASE_(address)
#endif
/* Of a domain: readers release the first when they leave, and waiters the second before they wait. */
#define SP_TSAN_READERS_(domain) SP_CAST_(char *, domain)
#define SP_TSAN_WAITERS_(domain) (SP_CAST_(char *, domain) + 1)

/* What the inline functions use. Not an interface: the names with v1 change with the layouts. */

struct sp_rcu_reader_ {
    uint64_t gp_seen;
    uint64_t nesting;
    uint32_t exit_flags;
};

struct sp_thread_ {
    struct sp_rcu_reader_ *reader;
    const uint64_t *counter;
    uint32_t light_is_free;
    uint32_t reserved_;
};

#ifdef __cplusplus
#define SP_STATIC_ASSERT_(condition, text) static_assert(condition, text)
#else
#define SP_STATIC_ASSERT_(condition, text) __extension__ _Static_assert(condition, text)
#endif

SP_STATIC_ASSERT_(offsetof(struct sp_rcu_reader_, gp_seen) == 0, "the layout of the library");
SP_STATIC_ASSERT_(offsetof(struct sp_rcu_reader_, nesting) == 8, "the layout of the library");
SP_STATIC_ASSERT_(offsetof(struct sp_rcu_reader_, exit_flags) == 16, "the layout of the library");
SP_STATIC_ASSERT_(offsetof(struct sp_thread_, counter) == 8, "the layout of the library");
SP_STATIC_ASSERT_(offsetof(struct sp_thread_, light_is_free) == 16, "the layout of the library");
SP_STATIC_ASSERT_(sizeof(struct sp_thread_) == 24, "the layout of the library");

#ifdef SP_INITIAL_EXEC
#define SP_TLS_MODEL_ __attribute__((__tls_model__("initial-exec")))
#else
#define SP_TLS_MODEL_
#endif

extern __thread struct sp_thread_ sp_thread_v1_ SP_TLS_MODEL_;

int sp_rcu_register_v1_(struct sp_thread_ *thread);
int sp_rcu_lock_slow_v1_(struct sp_thread_ *thread);
int sp_rcu_unlock_checked_v1_(void);
int sp_rcu_exited_v1_(void);
void sp_fence_light_slow_v1_(struct sp_thread_ *thread);

#define SP_LIKELY_(condition) __builtin_expect(!!(condition), 1)

/* A pointer of any type. */
typedef void *sp_pointer_ __attribute__((__may_alias__));

#ifdef __cplusplus
extern "C++" {
template <class T>
T *sp_load_(T *const *from) noexcept
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
template <class T>
T *sp_load_(const std::atomic<T *> *from) noexcept
{
    return from->load(std::memory_order_acquire);
}
/* The type of a value follows from the pointer alone, so that a derived class and `nullptr` are converted. */
template <class T>
struct sp_value_ {
    typedef T *pointer;
};
template <class T>
void sp_store_(T **to, typename sp_value_<T>::pointer value) noexcept
{
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
template <class T>
void sp_store_(std::atomic<T *> *to, typename sp_value_<T>::pointer value) noexcept
{
    to->store(value, std::memory_order_release);
}
template <class T>
T *sp_exchange_(T **to, typename sp_value_<T>::pointer value) noexcept
{
    return __atomic_exchange_n(to, value, __ATOMIC_ACQ_REL);
}
template <class T>
T *sp_exchange_(std::atomic<T *> *to, typename sp_value_<T>::pointer value) noexcept
{
    return to->exchange(value, std::memory_order_acq_rel);
}
template <class T>
T *sp_container_(void *member, std::size_t offset) noexcept
{
    return static_cast<T *>(static_cast<void *>(static_cast<char *>(member) - offset));
}
template <class T>
const T *sp_container_(const void *member, std::size_t offset) noexcept
{
    return static_cast<const T *>(static_cast<const void *>(static_cast<const char *>(member) - offset));
}
}
#define SP_CONTAINER_(pointer, type, offset) sp_container_<type>((pointer), (offset))
#define SP_LOAD_(pointer) sp_load_(&(pointer))
#define SP_STORE_(pointer, value) sp_store_(&(pointer), (value))
#define SP_EXCHANGE_(pointer, value) sp_exchange_(&(pointer), (value))
#else
#define SP_CONTAINER_(pointer, type, offset) ((type *)((char *)(pointer) - (offset)))
/* The type of what is loaded: without `_Atomic` and `const`. */
#define SP_LOADED_(pointer) __typeof__(((void)0, (pointer)))
#define SP_LOAD_(pointer) __atomic_load_n((SP_LOADED_(pointer) const *)&(pointer), __ATOMIC_ACQUIRE)
/* The value, of which the compiler says if it is a pointer of another type. */
#define SP_VALUE_(pointer, value) (1 ? (value) : (SP_LOADED_(pointer))0)
#define SP_STORE_(pointer, value) \
    __atomic_store_n((SP_LOADED_(pointer) *)&(pointer), SP_VALUE_(pointer, value), __ATOMIC_RELEASE)
#define SP_EXCHANGE_(pointer, value) \
    __atomic_exchange_n((SP_LOADED_(pointer) *)&(pointer), SP_VALUE_(pointer, value), __ATOMIC_ACQ_REL)
#endif

/*# ## Pointers

A pointer that readers follow is a pointer variable, which these macros access. It may be plain (`struct node *head`),
atomic in C (`_Atomic(struct node *) head`), or a `std::atomic<node *>`. */

/** Loads a pointer inside a read-side critical section. What it points to stays valid until the section ends. */
#define sp_rcu_dereference(pointer) SP_LOAD_(pointer)

/** Publishes `value`: readers that load it see what was written to it before. */
#define sp_rcu_assign_pointer(pointer, value) SP_STORE_(pointer, value)

/** Publishes `value`. Returns the pointer that it replaces. */
#define sp_rcu_xchg_pointer(pointer, value) SP_EXCHANGE_(pointer, value)

/** Returns the structure of type `type` whose member `member` is at `pointer`. */
#define sp_container_of(pointer, type, member) SP_CONTAINER_(pointer, type, offsetof(type, member))

/*# ## Readers

The fast paths are inlined: no function call, no locked instruction, and no fence on machines with `membarrier(2)`.

In a program, the thread-local variable that they use costs one instruction to find. In a shared library, the compiler
finds it by a function call. A library that is never loaded by `dlopen` defines `SP_INITIAL_EXEC` before it includes
this header, to avoid that. */

/** Registers the calling thread with the rcu domain, instead of at its first section. Does nothing if it is
registered. Returns `-ENOMEM` if it cannot be.

After it has returned 0, `sp_rcu_read_lock` does not fail in this thread. */
static inline int sp_rcu_register_thread(void)
{
    return sp_rcu_register_v1_(&sp_thread_v1_);
}

/** Begins a read-side critical section of the rcu domain. Sections nest.

Returns `-ENOMEM` if this thread is not registered and cannot be. Then there is no section. */
SP_TSAN_UNSEEN_ static inline int sp_rcu_read_lock(void)
{
    struct sp_rcu_reader_ *reader = sp_thread_v1_.reader;
    uint64_t seen = __atomic_load_n(&reader->gp_seen, __ATOMIC_RELAXED);
    if (SP_LIKELY_(seen == 0)) {
        /* Release: the store may be read instead of the one by the last unlock. */
        __atomic_store_n(&reader->gp_seen, __atomic_load_n(sp_thread_v1_.counter, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
        /* The light fence: pairs with the heavy fence of a grace period. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        SP_TSAN_ACQUIRE_(SP_TSAN_WAITERS_(sp_rcu_domain()));
        return 0;
    }
    if (SP_LIKELY_(seen != UINT64_MAX)) {
        uint64_t nesting = __atomic_load_n(&reader->nesting, __ATOMIC_RELAXED);
        __atomic_store_n(&reader->nesting, nesting + 1, __ATOMIC_RELAXED);
        return 0;
    }
    {
        int code = sp_rcu_lock_slow_v1_(&sp_thread_v1_);
        SP_TSAN_ACQUIRE_(SP_TSAN_WAITERS_(sp_rcu_domain()));
        return code;
    }
}

/** Ends a read-side critical section, in the thread that began it.

Blocks if values were retired inside the section and the backlog exceeds its limits, as `sp_call` does. Returns
`-EPERM` if misuse is detected: always with `SP_DEBUG`, otherwise in threads that are not registered, or idle.
Without `SP_DEBUG`, a call without a section does nothing in other threads. */
SP_TSAN_UNSEEN_ static inline int sp_rcu_read_unlock(void)
{
    SP_TSAN_RELEASE_(SP_TSAN_READERS_(sp_rcu_domain()));
#ifdef SP_DEBUG
    int code = sp_rcu_unlock_checked_v1_();
    if (code != 0)
        abort();
    return code;
#else
    struct sp_rcu_reader_ *reader = sp_thread_v1_.reader;
    uint64_t nesting = __atomic_load_n(&reader->nesting, __ATOMIC_RELAXED);
    if (SP_LIKELY_(nesting == 0)) {
        /* Release: publishes the section to the scan of a grace period. */
        __atomic_store_n(&reader->gp_seen, 0, __ATOMIC_RELEASE);
        /* The light fence: a leader that sleeps has set a flag, or sees the store. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (SP_LIKELY_(__atomic_load_n(&reader->exit_flags, __ATOMIC_RELAXED) == 0))
            return 0;
        return sp_rcu_exited_v1_();
    }
    if (SP_LIKELY_(nesting != UINT64_MAX)) {
        /* The loads of the section stay above: for signal handlers. */
        __atomic_signal_fence(__ATOMIC_RELEASE);
        __atomic_store_n(&reader->nesting, nesting - 1, __ATOMIC_RELAXED);
        return 0;
    }
    return sp_rcu_unlock_checked_v1_();
#endif
}

/** Returns 1 inside a read-side critical section of the rcu domain. */
int sp_rcu_in_read_section(void);

/*# ## Domains

A domain is a set of readers, with the grace periods that wait for these readers only. There is one for
`sp_rcu_read_lock`, one for `sp_qsbr_register`, and sleepable ones that programs create. The functions below take any
domain; those with `rcu` in their names use the first. */

struct sp_domain;

/** Returns the domain of `sp_rcu_read_lock`. */
struct sp_domain *sp_rcu_domain(void) __attribute__((__const__));

/** Returns the domain of `sp_qsbr_register`. */
struct sp_domain *sp_qsbr_domain(void) __attribute__((__const__));

/*# ## Waiting */

/** Blocks until every section that is open now has ended; or, in the qsbr domain, until every online thread has
reported.

Concurrent callers share grace periods. Returns `-EDEADLK` inside a section of the domain, or online in the qsbr
domain. A wait inside a section of a *sleepable* domain never returns, as such sections do not belong to threads. */
int sp_synchronize(struct sp_domain *domain);

/** Blocks until all callbacks have run that any thread deferred before.

Returns `-EDEADLK` also in a callback of the domain. */
int sp_barrier(struct sp_domain *domain);

/** `sp_synchronize` in the rcu domain. */
static inline int sp_synchronize_rcu(void)
{
    return sp_synchronize(sp_rcu_domain());
}

/** `sp_barrier` in the rcu domain. */
static inline int sp_rcu_barrier(void)
{
    return sp_barrier(sp_rcu_domain());
}

/*# ## Deferring

A callback runs after a grace period, in a thread of the library. The callbacks of one thread run in order. A callback
may read, defer, and wait in other domains. The library's threads have the normal scheduling policy, and the CPUs and
the nice value of the main thread. They block all signals. So does a process that a callback starts, unless it
unblocks them: `SIGTERM` does not end it. The end of the program does not wait for callbacks: end `main` with
`sp_barrier` for each domain.

Deferring is allowed inside sections and in callbacks. Outside of them it blocks while the backlog exceeds its limits,
for ten seconds at most. While it exceeds them for longer, it grows by about a mebibyte a second.

The memory that a callback frees counts towards the limits. If it is not known (`sp_call`, or `bytes` is 0), the
callback counts as 16 KiB while a grace period has taken longer than 100 ms: so behind a stalled reader a few thousand
of them may wait with the default limits. */

/** Flags of `sp_call`, `sp_call_head` and `sp_retire`. */
enum {
    /** The thread that defers it may call it, in a later call of these functions or when its section ends. */
    SP_RUN_ON_RETIRING_THREAD = 2,
};

/** A part of a structure that is to be reclaimed. Its contents are the library's from `sp_call_head` on. */
struct sp_rcu_head {
    void (*function_)(struct sp_rcu_head *head);
    void *reserved_;
};

/** Calls `function` with `argument` after a grace period. Allocates a few words; returns `-ENOMEM` if it cannot. */
int sp_call(struct sp_domain *domain, void (*function)(void *argument), void *argument, unsigned flags);

/** Calls `function` with `head` after a grace period. Allocates nothing for it.

`bytes` is the memory that the call frees, which counts towards the limits; 0 if it is not known. */
int sp_call_head(struct sp_domain *domain, struct sp_rcu_head *head, void (*function)(struct sp_rcu_head *head),
                 size_t bytes, unsigned flags);

/** Frees `pointer` after a grace period: by `function`, or by `free(3)` if `function` is null.

`bytes` is the memory that this frees, which counts towards the limits; 0 if it is not known. If `function` is not
null, allocates a few words, and returns `-ENOMEM` if it cannot. */
int sp_retire(struct sp_domain *domain, void *pointer, size_t bytes, void (*function)(void *pointer), unsigned flags);

/** Runs or hands over what the calling thread has deferred, without blocking. Returns 1 if any of it is left, else 0.
*/
int sp_flush(struct sp_domain *domain);

/** Sets the limits of what may be deferred in the domain: the number of callbacks, and their bytes. */
int sp_set_limits(struct sp_domain *domain, uint64_t count, uint64_t bytes);

/** `sp_call` in the rcu domain. */
static inline int sp_call_rcu(void (*function)(void *argument), void *argument)
{
    return sp_call(sp_rcu_domain(), function, argument, 0);
}

/** `sp_call_head` in the rcu domain. */
static inline int sp_call_rcu_head(struct sp_rcu_head *head, void (*function)(struct sp_rcu_head *head))
{
    return sp_call_head(sp_rcu_domain(), head, function, 0, 0);
}

/** `sp_retire` in the rcu domain. */
static inline int sp_rcu_retire(void *pointer, void (*function)(void *pointer), size_t bytes)
{
    return sp_retire(sp_rcu_domain(), pointer, bytes, function, 0);
}

/*# ## Cookies

A cookie stands for a grace period: the one that ends after every section that was open when the cookie was taken. It
is plain data, to be stored beside what it protects. */

/** A grace period of a domain. */
struct sp_cookie {
    uint64_t opaque_[2];
};

/** Takes a cookie. Starts nothing: it elapses only if some thread waits for a grace period. */
int sp_cookie_now(struct sp_domain *domain, struct sp_cookie *cookie);

/** Takes a cookie, and starts a grace period that elapses without a waiter. If there is no thread and no memory for
one, it elapses as that of `sp_cookie_now`. */
int sp_cookie_start(struct sp_domain *domain, struct sp_cookie *cookie);

/** Returns 1 once the grace period has ended, else 0. */
int sp_cookie_elapsed(struct sp_domain *domain, struct sp_cookie cookie);

/** Blocks until the grace period has ended. Returns `-EDEADLK` as `sp_synchronize`. */
int sp_cookie_wait(struct sp_domain *domain, struct sp_cookie cookie);

/** Blocks until the grace period has ended, for at most `nanoseconds`. Returns `-ETIMEDOUT` if the time is up.

Allocates a few words, and aborts if it cannot. */
int sp_cookie_wait_timeout(struct sp_domain *domain, struct sp_cookie cookie, uint64_t nanoseconds);

/*# ## Sleepable domains

Their readers may sleep, and a section may end in another thread than it began in. */

/** Creates a sleepable domain. Returns `-ENOMEM` if there is no memory. */
int sp_srcu_create(struct sp_domain **domain);

/** Destroys a sleepable domain, which no section and no other call uses any more. Its callbacks still run;
`sp_barrier` before this waits for them.

`domain` may be null. */
int sp_srcu_destroy(struct sp_domain *domain);

/** Begins a section. Returns its number, for `sp_srcu_read_unlock`. Does not fail for a sleepable domain. */
int sp_srcu_read_lock(struct sp_domain *domain);

/** Ends the section for which `sp_srcu_read_lock` returned `section`. */
int sp_srcu_read_unlock(struct sp_domain *domain, int section);

/*# ## Quiescent states (QSBR)

A thread that is registered is *online*: it may load pointers at any time, without sections. Now and then it reports
that it holds no references. Before it blocks, it goes offline. Signal handlers must not call these functions. */

/** Registers the calling thread, which is then online. Returns `-EBUSY` if it is registered, `-ENOMEM` if it cannot
be. */
int sp_qsbr_register(void);

/** Unregisters the calling thread. */
int sp_qsbr_unregister(void);

/** Reports that the calling thread holds no references. Returns `-EPERM` if it is not online. */
int sp_qsbr_quiescent(void);

/** Takes the calling thread offline: it holds no references, and grace periods do not wait for it. */
int sp_qsbr_offline(void);

/** Takes the calling thread online. Returns `-ENOMEM` if there is no memory. */
int sp_qsbr_online(void);

/*# ## Fences

A process-wide fence whose frequent side costs nothing. A light fence orders nothing against other light fences. */

/** Chooses how fences work, if that has not been done. Returns 1 with `membarrier(2)`, else 0.

Optional: takes half a microsecond while the process has one thread, and about ten milliseconds later. */
int sp_fence_init(void);

/** The frequent side: a compiler fence, or a full fence on machines without `membarrier(2)`. Never blocks. */
static inline void sp_fence_light(void)
{
    if (SP_LIKELY_(sp_thread_v1_.light_is_free != 0))
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    else
        sp_fence_light_slow_v1_(&sp_thread_v1_);
}

/** The rare side: orders what this thread did before against what it does afterwards, for every thread that executes
a light or heavy fence. */
int sp_fence_heavy(void);

/*# ## Hazard pointers

A hazard pointer protects one object from being freed, for as long as it likes. All other objects that are retired in
its domain are freed. The Rust documentation of `stillpoint::hazard` says when to take it.

Objects are retired in `sp_hazard_domain()`: by `sp_retire` without a function, for objects that `free(3)` frees, or
by `sp_call_head`. An object that is retired by its head is protected by the address of its head, so the head comes
first. What is deferred there by `sp_call` waits for no hazard pointer. `sp_barrier` waits for no hazard pointer
either: when it returns, what was retired before is freed, unless a hazard pointer protected it in the meantime. */

/** A hazard pointer. It belongs to no thread, but only one uses it at a time. */
struct sp_hazard {
    uintptr_t *reserved_slot_;
};

/** Returns the domain in which objects are retired that hazard pointers protect. */
struct sp_domain *sp_hazard_domain(void) __attribute__((__const__));

/** Makes a hazard pointer, which protects nothing. Returns `-ENOMEM` if there is no memory.

Allocates only if the thread has none to spare. */
int sp_hazard_init(struct sp_hazard *hazard);

/** Gives a hazard pointer back: it protects nothing. Does nothing if it has been given back. Never blocks. */
void sp_hazard_destroy(struct sp_hazard *hazard);

/** Protects the object at `address`, or nothing if it is null. That is of use only if the object is not retired
before this returns. */
SP_TSAN_UNSEEN_ static inline void sp_hazard_set(struct sp_hazard *hazard, const void *address)
{
    SP_TSAN_RELEASE_(SP_TSAN_READERS_(sp_hazard_domain()));
    /* Release: uses of the object that was protected before come before it is freed. */
    __atomic_store_n(hazard->reserved_slot_, address ? SP_CAST_(uintptr_t, address) : UINTPTR_MAX, __ATOMIC_RELEASE);
}

/** Protects nothing. */
static inline void sp_hazard_reset(struct sp_hazard *hazard)
{
    sp_hazard_set(hazard, SP_NULL_);
}

static inline void *sp_hazard_protect_(struct sp_hazard *hazard, const sp_pointer_ *source)
{
    void *seen = __atomic_load_n(source, __ATOMIC_ACQUIRE);
    for (;;) {
        void *now;
        sp_hazard_set(hazard, seen);
        /* Pairs with the heavy fence of a grace period. */
        sp_fence_light();
        now = __atomic_load_n(source, __ATOMIC_ACQUIRE);
        if (SP_LIKELY_(now == seen))
            return now;
        seen = now;
    }
}

#ifdef __cplusplus
extern "C++" {
template <class P>
inline auto sp_hazard_protect_in_(struct sp_hazard *hazard, const P *source) noexcept -> decltype(sp_load_(source))
{
    return static_cast<decltype(sp_load_(source))>(
        sp_hazard_protect_(hazard, static_cast<const sp_pointer_ *>(static_cast<const void *>(source))));
}
}
#define SP_PROTECT_(hazard, pointer) sp_hazard_protect_in_((hazard), &(pointer))
#else
#define SP_PROTECT_(hazard, pointer) \
    ((SP_LOADED_(pointer))sp_hazard_protect_((hazard), (const sp_pointer_ *)&(pointer)))
#endif

/** Loads a pointer, and protects what it points to: until `hazard` protects something else, or is reset. Never
blocks. */
#define sp_hazard_protect(hazard, pointer) SP_PROTECT_(hazard, pointer)

/*# ## Per-CPU counters and pools */

/** A counter that threads add to without contention. */
struct sp_counter;

/** Creates a counter of zero, which takes eight bytes for each CPU that adds to it. Returns `-ENOMEM` if there is no
memory. */
int sp_counter_create(struct sp_counter **counter);

/** Frees a counter, which no other call uses any more. May be called with null. */
void sp_counter_destroy(struct sp_counter *counter);

/** Adds, wrapping around. To subtract, add the negative number. Never blocks. */
void sp_counter_add(struct sp_counter *counter, uint64_t by);

/** Returns the sum of all adds. It is exact if all adds happened before. */
uint64_t sp_counter_sum(const struct sp_counter *counter);

/** A bounded pool of objects for reuse. */
struct sp_pool;

/** Creates an empty pool for `2 * capacity` objects for each CPU. Returns `-ENOMEM` if there is no memory. */
int sp_pool_create(struct sp_pool **pool, size_t capacity);

/** Calls `function`, if it is not null, with each object in the pool, and frees the pool, which no other call uses
any more. `pool` may be null. */
int sp_pool_destroy(struct sp_pool *pool, void (*function)(void *object));

/** Puts an object, which is not null, into the pool. Returns `-ENOSPC` if there is no room: the object stays the
caller's. Never blocks. */
int sp_pool_push(struct sp_pool *pool, void *object);

/** Takes an object, usually the one that was put back last on this CPU. Returns null if there is none. Never blocks.
*/
void *sp_pool_pop(struct sp_pool *pool);

/** Returns the number of objects; a snapshot while other threads use the pool. */
size_t sp_pool_len(const struct sp_pool *pool);

/*# ## Statistics and stalls */

/** Counters of a domain since the start of the process, and what waits in it now. Times are in nanoseconds. */
struct sp_stats {
    /** Grace periods completed. */
    uint64_t grace_periods;
    /** Calls that waited for a grace period. */
    uint64_t callers;
    /** Heavy fences issued by grace periods. */
    uint64_t heavy_fences;
    /** Grace periods that slept until readers left. */
    uint64_t sleeps;
    /** System calls with which readers woke the leader of a grace period. */
    uint64_t wakeups;
    /** The longest that a grace period has waited for readers. */
    uint64_t longest_wait_ns;
    /** Reports of stalled grace periods. */
    uint64_t stalls;
    /** The peak number of threads that read or deferred. */
    uint64_t readers;
    /** Callbacks that wait now. */
    uint64_t queued;
    /** Their bytes. */
    uint64_t queued_bytes;
    /** How long the oldest of them has waited. */
    uint64_t oldest_ns;
    /** Callbacks that have run. */
    uint64_t done;
    /** How often a caller above the limits had to wait. */
    uint64_t limit_waits;
    /** How often such a wait timed out. */
    uint64_t limit_overruns;
    /** Callbacks and destructors of Rust code that panicked, in all domains. */
    uint64_t panics;
    /** How long the grace period in progress has waited for readers until now; 0 if none does. */
    uint64_t waiting_ns;
    /** The number of grace periods by how long they waited for readers: at most 100 us, 1 ms, 10 ms, 100 ms, 1 s,
    10 s, and longer. */
    uint64_t waits[7];
    /** Of those that wait, the objects that hazard pointers protected when their grace period had ended. */
    uint64_t kept;
    uint64_t reserved_[4];
};

/** Copies the counters of the domain. */
int sp_get_stats(struct sp_domain *domain, struct sp_stats *stats);

/** A thread that blocks a grace period. */
struct sp_stalled_reader {
    /** As of `gettid(2)`. */
    uint32_t thread_id;
    /** 1 if the thread has exited inside a section, or is exiting. */
    uint32_t has_exited;
    /** Its name; null if that is not known. */
    const char *thread_name;
};

/** A grace period that has waited for too long. Valid until the hook returns. */
struct sp_stall {
    /** The name of the domain's Rust type. */
    const char *domain;
    /** The number of the grace period in its domain. */
    uint64_t grace_period;
    /** How long it has waited. */
    uint64_t waited_ns;
    /** The threads that it waits for. None for a sleepable domain. */
    const struct sp_stalled_reader *readers;
    size_t reader_count;
    /** The number of open sections that it waits for, for a sleepable domain. */
    uint64_t sections;
    /** The report as text, of one or more lines. */
    const char *text;
};

/** Sets the function that is called when a grace period stalls, in any domain. Null restores the report on the
standard error.

The grace period waits until the hook returns. The hook may read, and must not wait for grace periods. */
int sp_set_stall_hook(void (*hook)(const struct sp_stall *stall, void *argument), void *argument);

/** Sets how long a grace period waits before it is reported; 0 for ever. The default is ten seconds. */
int sp_set_stall_timeout(uint64_t nanoseconds);

#ifdef SP_TSAN_
#include "stillpoint/tsan.h"
#endif

/* The library has these sizes too. */
SP_STATIC_ASSERT_(sizeof(struct sp_rcu_head) == 16, "the layout of the library");
SP_STATIC_ASSERT_(sizeof(struct sp_cookie) == 16, "the layout of the library");
SP_STATIC_ASSERT_(sizeof(struct sp_stats) == 224, "the layout of the library");
SP_STATIC_ASSERT_(sizeof(struct sp_stalled_reader) == 16, "the layout of the library");
SP_STATIC_ASSERT_(sizeof(struct sp_stall) == 56, "the layout of the library");

#ifdef __cplusplus
}
#endif

#endif
