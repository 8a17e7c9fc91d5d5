// The classes of `lock.hpp` with the locks and the functions of the standard library.

#include <stillpoint/lock.hpp>

#include "check.h"

#include <cmath>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;

namespace {

static_assert(sizeof(stillpoint::mutex) == 4 && sizeof(stillpoint::shared_mutex) == 56, "as the header says");
static_assert(std::is_nothrow_default_constructible<stillpoint::mutex>::value, "as std::mutex");
static_assert(!std::is_copy_constructible<stillpoint::shared_mutex>::value, "they stay");

stillpoint::mutex lock_a, lock_b;
stillpoint::shared_mutex shared;
stillpoint::condition_variable filled;
int a, b, parts[2];

void run(int threads, void (*function)())
{
    std::vector<std::thread> started;
    for (int i = 0; i < threads; ++i)
        started.emplace_back(function);
    for (std::thread &thread : started)
        thread.join();
}

void add()
{
    for (int i = 0; i < 5000; ++i) {
        {
            std::scoped_lock both(lock_a, lock_b);
            ++a;
            ++b;
        }
        if (i % 4 == 0) {
            std::unique_lock<stillpoint::shared_mutex> write(shared, 1s);
            if (!write)
                write.lock();
            ++parts[0];
            ++parts[1];
        } else {
            std::shared_lock<stillpoint::shared_mutex> read(shared);
            CHECK(parts[0] == parts[1]);
        }
    }
}

void refused()
{
    std::unique_lock<stillpoint::mutex> held(lock_a, std::try_to_lock);
    CHECK(!held && !held.try_lock_for(1ms) && !held.try_lock_until(std::chrono::system_clock::now() + 1ms));
    CHECK(!shared.try_lock() && !shared.try_lock_for(1ms) && !shared.try_lock_until(std::chrono::steady_clock::now()));
    std::shared_lock<stillpoint::shared_mutex> read(shared, std::defer_lock);
    CHECK(!read.try_lock() && !read.try_lock_for(1ms) && !read.try_lock_until(std::chrono::steady_clock::now()));
}

/// A clock that shows a negative time, as `std::chrono::file_clock` does.
struct before_epoch {
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<before_epoch>;
    static time_point now() { return time_point(std::chrono::steady_clock::now().time_since_epoch() - 1500000h); }
};

template <class Clock, class Duration>
using point = std::chrono::time_point<Clock, Duration>;

/// `wait`, which takes a predicate, returns when another thread has got the mutex and notified.
template <class Wait>
void is_notified(Wait wait)
{
    bool ready = false;
    std::unique_lock<stillpoint::mutex> held(lock_a);
    std::thread notifier([&] {
        std::lock_guard<stillpoint::mutex> its(lock_a);
        ready = true;
        filled.notify_one();
    });
    CHECK(wait(held, [&] { return ready; }));
    held.unlock();
    notifier.join();
}

template <class Duration>
void waits_for(Duration time)
{
    is_notified([=](auto &held, auto ready) { return filled.wait_for(held, time, ready); });
}

template <class Clock, class Duration>
void waits_until(point<Clock, Duration> time)
{
    is_notified([=](auto &held, auto ready) {
        while (!ready())
            CHECK(filled.wait_until(held, time) == std::cv_status::no_timeout);
        return true;
    });
    CHECK(lock_b.try_lock_until(time));
    lock_b.unlock();
}

/// A thread that polls until a time that is over lets others have the mutex.
template <class Clock, class Duration>
void polls_until(point<Clock, Duration> time)
{
    is_notified([=](auto &held, auto ready) {
        while (!ready())
            CHECK(filled.wait_until(held, time) == std::cv_status::timeout);
        return true;
    });
    CHECK(!lock_b.try_lock_until(time));
}

void extreme_times()
{
    using namespace std::chrono;
    waits_for(nanoseconds::max());
    waits_for(hours::max());
    waits_for(duration<double>(INFINITY));
    waits_until(steady_clock::time_point::max());
    waits_until(point<steady_clock, seconds>::max());
    waits_until(point<system_clock, seconds>::max());
    waits_until(before_epoch::time_point::max());

    std::lock_guard<stillpoint::mutex> held(lock_b);
    std::thread([] {
        CHECK(!lock_b.try_lock_for(nanoseconds::min()));
        CHECK(!lock_b.try_lock_for(seconds(-10000000000)));
        CHECK(!lock_b.try_lock_for(hours(-3000000)));
        CHECK(!lock_b.try_lock_for(duration<double>(-INFINITY)));
        CHECK(!lock_b.try_lock_for(duration<double>(NAN)));
        polls_until(steady_clock::time_point());
        polls_until(point<steady_clock, seconds>::min());
        polls_until(point<system_clock, seconds>::min());
        polls_until(point<steady_clock, duration<double>>(duration<double>(NAN)));
        std::unique_lock<stillpoint::mutex> own(lock_a);
        CHECK(!filled.wait_for(own, hours::min(), [] { return false; }));
    }).join();
}

void is_not_notified()
{
    std::unique_lock<stillpoint::mutex> held(lock_a);
    CHECK(!filled.wait_for(held, 1ms, [] { return false; }));
    CHECK(filled.wait_until(held, std::chrono::steady_clock::now()) == std::cv_status::timeout);
    while (filled.wait_for(held, 1ms) == std::cv_status::no_timeout)
        ;
    CHECK(held.owns_lock());
    filled.notify_all();
}

} // namespace

int main()
{
    alarm(280);
    run(4, add);
    CHECK(a == 20000 && b == 20000 && parts[0] == 5000 && parts[1] == 5000);
    {
        std::lock_guard<stillpoint::mutex> held(lock_a);
        std::lock_guard<stillpoint::shared_mutex> write(shared);
        run(1, refused);
    }

    extreme_times();

    is_notified([](auto &held, auto ready) {
        filled.wait(held, ready);
        return true;
    });
    is_not_notified();
    return 0;
}
