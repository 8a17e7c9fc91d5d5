// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef STILLPOINT_RCU_HPP
#define STILLPOINT_RCU_HPP

/*#
# C++26's `<rcu>` for C++17

`stillpoint/rcu.hpp` has the names of the header `<rcu>` ([saferecl.rcu] in the C++26 draft) in the namespace
`stillpoint`. It needs C++17, GCC or Clang, and `libstillpoint`; C++11 and C++14 have [`stillpoint.h`](c-api.md). With
`STILLPOINT_STD_RCU` defined before it is included, the names are in the namespace `std` as well, and `__cpp_lib_rcu`
is defined, unless the implementation has the header. With the folder `include/stillpoint/std` among those of the
headers (`pkg-config --variable=stddir stillpoint`), `#include <rcu>` does the same, so that a program need not name
this library.

```cpp
struct Config : stillpoint::rcu_obj_base<Config> {
    int limit;
};
std::atomic<Config *> config;

{
    std::scoped_lock region(stillpoint::rcu_default_domain()); // a reader
    use(config.load()->limit);
}
config.exchange(next)->retire(); // a writer: it is deleted when no region is open that may have it
```

## What the standard leaves open

| subject | here |
|---|---|
| domains | there is one: `rcu_default_domain()`, the domain of `sp_rcu_read_lock` in C and of `rcu::enter` in Rust |
| scheduled evaluations run | in a thread of the library, one after the other; those of one thread in the order in which they were scheduled. Never in `lock` or `try_lock` |
| `unlock` | runs no deleter. It blocks if objects were retired inside the region and the backlog exceeds its limits |
| a deleter that throws | `std::terminate` is called |
| memory of `rcu_retire` | comes from `operator new`. If the library's own queue cannot grow, the process aborts |
| `rcu_obj_base::retire` | allocates nothing for the object. If the thread cannot be registered, `std::terminate` is called |
| `lock` that cannot register the thread | calls `std::terminate`. `sp_rcu_register_thread` returns an error code instead |
| `rcu_synchronize`, `rcu_barrier` inside a region, `rcu_barrier` in a deleter | call `std::terminate`, after a message. By the standard the first blocks for ever. The second would have to run deleters that were scheduled before the region began; here it does not |
| `unlock` without a region | is undefined, as in the standard. With `SP_DEBUG` the program aborts |
*/

#if __cplusplus < 201703L
#error "stillpoint/rcu.hpp needs C++17 (-std=c++17); stillpoint.h needs C++11"
#else

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#if __has_include(<version>)
#include <version>
#endif

#include "detail.hpp"

namespace stillpoint {

namespace detail {

/// Schedules `function`, which gets the head of `node`.
inline int schedule(sp_node_ *node, void (*function)(sp_rcu_head *), std::size_t bytes) noexcept
{
    return sp_call_head(sp_rcu_domain(), &node->sp_head_, function, bytes, 0);
}

inline void terminate_on_error(int code) noexcept
{
    if (code != 0)
        std::terminate();
}

} // namespace detail

/// A domain of regions of RCU protection ([saferecl.rcu.domain]). It meets *Cpp17Lockable*: for `std::scoped_lock`,
/// `std::unique_lock` and `std::lock_guard`. A region ends in the thread that began it.
class rcu_domain {
public:
    rcu_domain(const rcu_domain &) = delete;
    rcu_domain &operator=(const rcu_domain &) = delete;

    void lock() noexcept { detail::terminate_on_error(sp_rcu_read_lock()); }

    bool try_lock() noexcept
    {
        lock();
        return true;
    }

    void unlock() noexcept { static_cast<void>(sp_rcu_read_unlock()); }

private:
    constexpr rcu_domain() noexcept = default;
    friend rcu_domain &rcu_default_domain() noexcept;
};

/// Returns the only domain.
inline rcu_domain &rcu_default_domain() noexcept
{
    static rcu_domain domain;
    return domain;
}

/// Blocks until every region that is open now has ended.
inline void rcu_synchronize(rcu_domain &dom = rcu_default_domain()) noexcept
{
    static_cast<void>(dom);
    detail::terminate_on_error(sp_synchronize_rcu());
}

/// Blocks until everything has been evaluated that was scheduled before.
inline void rcu_barrier(rcu_domain &dom = rcu_default_domain()) noexcept
{
    static_cast<void>(dom);
    detail::terminate_on_error(sp_rcu_barrier());
}

/// The base of classes whose objects retire themselves ([saferecl.rcu.base]): `class Node : public rcu_obj_base<Node>`.
template <class T, class D = std::default_delete<T>>
class rcu_obj_base : private detail::sp_node_ {
public:
    /// Schedules `d(p)`, where `p` is the address of this object, once.
    void retire(D d = D(), rcu_domain &dom = rcu_default_domain()) noexcept
    {
        static_assert(detail::is_protectable<stillpoint::rcu_obj_base, T>::value,
                      "T must have exactly one base rcu_obj_base<T, D>, public and not virtual");
        static_assert(std::is_base_of_v<rcu_obj_base, T>, "T must be derived from this class");
        static_cast<void>(dom);
        sp_deleter_ = std::move(d);
        detail::terminate_on_error(detail::schedule(this, sp_evaluate_, detail::known_size<T, D>()));
    }

protected:
    rcu_obj_base() = default;
    rcu_obj_base(const rcu_obj_base &) = default;
    rcu_obj_base(rcu_obj_base &&) = default;
    rcu_obj_base &operator=(const rcu_obj_base &) = default;
    rcu_obj_base &operator=(rcu_obj_base &&) = default;
    ~rcu_obj_base() = default;

private:
    static void sp_evaluate_(sp_rcu_head *head) noexcept
    {
        auto *self = static_cast<rcu_obj_base *>(sp_of_(head));
        detail::delete_by(self->sp_deleter_, static_cast<T *>(self));
    }

    D sp_deleter_{};
};

/// Schedules `d(p)`. Throws `std::bad_alloc`, and what moving `d` throws: then nothing is scheduled.
template <class T, class D = std::default_delete<T>>
void rcu_retire(T *p, D d = D(), rcu_domain &dom = rcu_default_domain())
{
    static_assert(std::is_move_constructible_v<D>, "the deleter must be movable");
    static_assert(std::is_invocable_v<D &, T *>, "d(p) must be well-formed");
    static_cast<void>(dom);

    struct scheduled : detail::sp_node_ {
        scheduled(T *pointer, D &&d) : p(pointer), deleter(std::move(d)) {}

        static void evaluate(sp_rcu_head *head) noexcept
        {
            std::unique_ptr<scheduled> self(static_cast<scheduled *>(scheduled::sp_of_(head)));
            self->deleter(self->p);
        }

        T *p;
        D deleter;
    };

    std::unique_ptr<scheduled> node(new scheduled(p, std::move(d)));
    constexpr std::size_t known = detail::known_size<T, D>();
    constexpr std::size_t bytes = known == 0 ? 0 : sizeof(scheduled) + known;
    if (detail::schedule(node.get(), scheduled::evaluate, bytes) != 0)
        detail::no_memory();
    static_cast<void>(node.release());
}

} // namespace stillpoint

#if defined(STILLPOINT_STD_RCU) && !defined(__cpp_lib_rcu)
namespace std {
using stillpoint::rcu_barrier;
using stillpoint::rcu_default_domain;
using stillpoint::rcu_domain;
using stillpoint::rcu_obj_base;
using stillpoint::rcu_retire;
using stillpoint::rcu_synchronize;
} // namespace std
#define __cpp_lib_rcu 202306L
#endif

#endif // C++17

#endif
