// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef STILLPOINT_LOCK_HPP
#define STILLPOINT_LOCK_HPP

/*#
# Locks for C++11

`stillpoint/lock.hpp` has the locks of [`stillpoint/lock.h`](c-lock.md) as classes with the functions of the standard
library's.

| class | requirements that it meets | bytes |
|---|---|---|
| `mutex` | *Mutex*, *TimedLockable*: for `std::lock_guard`, `std::unique_lock`, `std::scoped_lock` | 4 |
| `shared_mutex` | *SharedMutex*, *SharedTimedMutex*: for `std::shared_lock` too | 56 |
| `condition_variable` | the functions of `std::condition_variable`, with `std::unique_lock<stillpoint::mutex>` | 16 |

```cpp
stillpoint::mutex lock;
stillpoint::condition_variable filled;
std::deque<int> queue;

std::unique_lock<stillpoint::mutex> held(lock);
filled.wait(held, [&] { return !queue.empty(); });
```

A time may be any that its type has. One that is negative or not a number is over; a wait of centuries has no limit.
*/

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "lock.h"
#include "raii.hpp"

namespace stillpoint {

namespace raii_detail {

/// The nanoseconds until the clock shows `time`: 0 if it is over.
template <class Clock, class Duration>
std::uint64_t left(const std::chrono::time_point<Clock, Duration> &time)
{
    const auto now = Clock::now();
    const approximate rough = approximate(time.time_since_epoch()) - approximate(now.time_since_epoch());
    // The exact difference may overflow, but not within days.
    return std::abs(rough.count()) < 1e15 ? nanoseconds(time - now) : nanoseconds(rough);
}

/// Repeats `attempt`, which takes the nanoseconds that are left, until it succeeds or the clock shows `time`.
template <class Clock, class Duration, class Attempt>
bool until(const std::chrono::time_point<Clock, Duration> &time, Attempt attempt)
{
    std::uint64_t rest;
    do {
        rest = left(time);
        if (attempt(rest))
            return true;
    } while (rest > 0);
    return false;
}

} // namespace raii_detail

/// A mutex.
class mutex : raii_detail::fixed {
public:
    constexpr mutex() noexcept : mutex_ SP_MUTEX_INIT {}
    void lock() noexcept { sp_mutex_lock(&mutex_); }
    bool try_lock() noexcept { return sp_mutex_trylock(&mutex_) == 0; }
    void unlock() noexcept { sp_mutex_unlock(&mutex_); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
    {
        return sp_mutex_timedlock(&mutex_, raii_detail::nanoseconds(time)) == 0;
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time)
    {
        return raii_detail::until(time, [this](std::uint64_t left) { return sp_mutex_timedlock(&mutex_, left) == 0; });
    }

    using native_handle_type = sp_mutex *;
    native_handle_type native_handle() noexcept { return &mutex_; }

private:
    sp_mutex mutex_;
};

/// A reader-writer lock.
class shared_mutex : raii_detail::fixed {
public:
    constexpr shared_mutex() noexcept : lock_ SP_RWLOCK_INIT {}
    ~shared_mutex() { sp_rwlock_destroy(&lock_); }

    void lock() noexcept { sp_rwlock_wrlock(&lock_); }
    bool try_lock() noexcept { return sp_rwlock_trywrlock(&lock_) == 0; }
    void unlock() noexcept { sp_rwlock_wrunlock(&lock_); }
    void lock_shared() noexcept { sp_rwlock_rdlock(&lock_); }
    bool try_lock_shared() noexcept { return sp_rwlock_tryrdlock(&lock_) == 0; }
    void unlock_shared() noexcept { sp_rwlock_rdunlock(&lock_); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
    {
        return sp_rwlock_timedwrlock(&lock_, raii_detail::nanoseconds(time)) == 0;
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time)
    {
        return raii_detail::until(time, [this](std::uint64_t left) { return sp_rwlock_timedwrlock(&lock_, left) == 0; });
    }

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time)
    {
        return sp_rwlock_timedrdlock(&lock_, raii_detail::nanoseconds(time)) == 0;
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &time)
    {
        return raii_detail::until(time, [this](std::uint64_t left) { return sp_rwlock_timedrdlock(&lock_, left) == 0; });
    }

    using native_handle_type = sp_rwlock *;
    native_handle_type native_handle() noexcept { return &lock_; }

private:
    sp_rwlock lock_;
};

/// A condition variable. Its waits throw `std::system_error` if a thread waits with another mutex.
class condition_variable : raii_detail::fixed {
public:
    constexpr condition_variable() noexcept : condition_ SP_COND_INIT {}
    void notify_one() noexcept { sp_cond_signal(&condition_); }
    void notify_all() noexcept { sp_cond_broadcast(&condition_); }

    void wait(std::unique_lock<mutex> &lock)
    {
        raii_detail::check(sp_cond_wait(&condition_, lock.mutex()->native_handle()));
    }

    template <class Predicate>
    void wait(std::unique_lock<mutex> &lock, Predicate predicate)
    {
        while (!predicate())
            wait(lock);
    }

    template <class Rep, class Period>
    std::cv_status wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &time)
    {
        return timed_wait(lock, raii_detail::nanoseconds(time));
    }

    template <class Clock, class Duration>
    std::cv_status wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &time)
    {
        // If it is over, too: a thread that polls releases the mutex.
        static_cast<void>(timed_wait(lock, raii_detail::left(time)));
        return raii_detail::left(time) > 0 ? std::cv_status::no_timeout : std::cv_status::timeout;
    }

    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &time, Predicate predicate)
    {
        using clock = std::chrono::steady_clock;
        const std::chrono::time_point<clock, raii_detail::approximate> now = clock::now();
        return wait_until(lock, now + time, predicate);
    }

    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &time,
                    Predicate predicate)
    {
        while (!predicate())
            if (wait_until(lock, time) == std::cv_status::timeout)
                return predicate();
        return true;
    }

    using native_handle_type = sp_cond *;
    native_handle_type native_handle() noexcept { return &condition_; }

private:
    std::cv_status timed_wait(std::unique_lock<mutex> &lock, std::uint64_t nanoseconds)
    {
        const int code = sp_cond_timedwait(&condition_, lock.mutex()->native_handle(), nanoseconds);
        if (code == -ETIMEDOUT)
            return std::cv_status::timeout;
        raii_detail::check(code);
        return std::cv_status::no_timeout;
    }

    sp_cond condition_;
};

} // namespace stillpoint

#endif
