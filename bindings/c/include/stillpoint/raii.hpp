// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef STILLPOINT_RAII_HPP
#define STILLPOINT_RAII_HPP

/*#
# Owners for C++11

`stillpoint/raii.hpp` has classes for what `stillpoint.h` creates and begins, whose destructors free and end it. They throw
`std::bad_alloc` where the function of C returns `-ENOMEM`, and `std::system_error` for other codes.

| class | functions of [`stillpoint.h`](c-api.md) |
|---|---|
| `section` | `sp_rcu_read_lock`, `sp_rcu_read_unlock` |
| `cookie` | `sp_cookie_now`, `sp_cookie_start`, ... of any domain |
| `sleepable_domain`, `sleepable_section` | `sp_srcu_...` |
| `online`, `offline` | `sp_qsbr_...` |
| `counter`, `pool<T>` | `sp_counter_...`, `sp_pool_...` |

```cpp
stillpoint::counter requests;
{
    stillpoint::section inside;
    use(*sp_rcu_dereference(config));
    requests.add(1);
}
```
*/

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <system_error>

#include "../stillpoint.h"

namespace stillpoint {

namespace raii_detail {

/// Throws the error that a code stands for. Otherwise returns the code.
inline int check(int code)
{
    if (code >= 0)
        return code;
#ifdef __cpp_exceptions
    if (code == -ENOMEM)
        throw std::bad_alloc();
    throw std::system_error(-code, std::generic_category());
#else
    std::terminate();
#endif
}

/// A time that does not overflow.
using approximate = std::chrono::duration<double, std::nano>;

/// The time, rounded up: 0 if it is negative or not a number, the largest number, for no limit, if it is centuries.
template <class Rep, class Period>
std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time)
{
    const double count = std::ceil(approximate(time).count());
    if (!(count > 0))
        return 0;
    return count < 9e18 ? static_cast<std::uint64_t>(count) : UINT64_MAX;
}

/// What is neither copied nor moved.
class fixed {
public:
    fixed(const fixed &) = delete;
    fixed &operator=(const fixed &) = delete;

protected:
    constexpr fixed() noexcept = default;
    ~fixed() = default;
};

} // namespace raii_detail

/// A read-side critical section of the rcu domain, which ends in the thread that began it.
class section : raii_detail::fixed {
public:
    section() { raii_detail::check(sp_rcu_read_lock()); }
    ~section() { static_cast<void>(sp_rcu_read_unlock()); }
};

/// A grace period of a domain.
class cookie {
public:
    /// Starts nothing.
    static cookie now(sp_domain *domain = sp_rcu_domain())
    {
        cookie taken(domain);
        raii_detail::check(sp_cookie_now(domain, &taken.cookie_));
        return taken;
    }

    /// Starts a grace period that elapses without a waiter.
    static cookie start(sp_domain *domain = sp_rcu_domain())
    {
        cookie taken(domain);
        raii_detail::check(sp_cookie_start(domain, &taken.cookie_));
        return taken;
    }

    bool elapsed() const { return raii_detail::check(sp_cookie_elapsed(domain_, cookie_)) == 1; }
    void wait() const { raii_detail::check(sp_cookie_wait(domain_, cookie_)); }

    /// Returns `false` if the time is up.
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) const
    {
        const int code = sp_cookie_wait_timeout(domain_, cookie_, raii_detail::nanoseconds(time));
        return code != -ETIMEDOUT && raii_detail::check(code) == 0;
    }

private:
    explicit cookie(sp_domain *domain) : domain_(domain), cookie_() {}
    sp_domain *domain_;
    sp_cookie cookie_;
};

/// A domain whose sections may sleep, and end in other threads. `get` is what the functions of C take.
class sleepable_domain : raii_detail::fixed {
public:
    sleepable_domain() { raii_detail::check(sp_srcu_create(&domain_)); }
    ~sleepable_domain() { static_cast<void>(sp_srcu_destroy(domain_)); }
    sp_domain *get() const noexcept { return domain_; }
    void synchronize() { raii_detail::check(sp_synchronize(domain_)); }
    void barrier() { raii_detail::check(sp_barrier(domain_)); }

private:
    sp_domain *domain_;
};

/// A section of a sleepable domain.
class sleepable_section {
public:
    explicit sleepable_section(const sleepable_domain &domain)
        : domain_(domain.get()), section_(raii_detail::check(sp_srcu_read_lock(domain_)))
    {
    }
    sleepable_section(sleepable_section &&other) noexcept : domain_(other.domain_), section_(other.section_)
    {
        other.domain_ = nullptr;
    }
    sleepable_section &operator=(sleepable_section &&) = delete;
    ~sleepable_section()
    {
        if (domain_ != nullptr)
            static_cast<void>(sp_srcu_read_unlock(domain_, section_));
    }

private:
    sp_domain *domain_;
    int section_;
};

/// While there is one, its thread is registered with the qsbr domain, and online.
class online : raii_detail::fixed {
public:
    online() { raii_detail::check(sp_qsbr_register()); }
    ~online() { static_cast<void>(sp_qsbr_unregister()); }
    /// The thread holds no references.
    void quiescent() { raii_detail::check(sp_qsbr_quiescent()); }

private:
    friend class offline;
    unsigned offline_ = 0;
};

/// While there is one, the thread of an `online` holds no references, and may block. They may be nested.
class offline : raii_detail::fixed {
public:
    explicit offline(online &thread) : thread_(thread)
    {
        if (thread_.offline_ == 0)
            raii_detail::check(sp_qsbr_offline());
        ++thread_.offline_;
    }
    /// Terminates if there is no memory.
    ~offline()
    {
        if (--thread_.offline_ == 0 && sp_qsbr_online() != 0)
            std::terminate();
    }

private:
    online &thread_;
};

/// A counter that threads add to without contention.
class counter : raii_detail::fixed {
public:
    counter() { raii_detail::check(sp_counter_create(&counter_)); }
    ~counter() { sp_counter_destroy(counter_); }
    void add(std::uint64_t by) noexcept { sp_counter_add(counter_, by); }
    std::uint64_t sum() const noexcept { return sp_counter_sum(counter_); }

private:
    sp_counter *counter_;
};

/// A bounded pool of objects for reuse, which it deletes at its end.
template <class T>
class pool : raii_detail::fixed {
public:
    explicit pool(std::size_t capacity) { raii_detail::check(sp_pool_create(&pool_, capacity)); }
    ~pool()
    {
        static_cast<void>(sp_pool_destroy(pool_, [](void *object) { delete static_cast<T *>(object); }));
    }

    /// Takes the object, which is not null, or leaves it where it is if there is no room.
    bool push(std::unique_ptr<T> &object) noexcept
    {
        if (sp_pool_push(pool_, object.get()) != 0)
            return false;
        static_cast<void>(object.release());
        return true;
    }

    /// Returns null if there is none.
    std::unique_ptr<T> pop() noexcept { return std::unique_ptr<T>(static_cast<T *>(sp_pool_pop(pool_))); }

    std::size_t size() const noexcept { return sp_pool_len(pool_); }

private:
    sp_pool *pool_;
};

} // namespace stillpoint

#endif
