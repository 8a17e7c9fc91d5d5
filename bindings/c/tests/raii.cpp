// The owners of `raii.hpp`: each begins and ends what it stands for.

#include <stillpoint/raii.hpp>

#include "retired.hpp"

#include <thread>
#include <utility>
#include <vector>

using namespace stillpoint;

static_assert(!std::is_copy_constructible<section>::value && !std::is_move_constructible<counter>::value, "they stay");

struct Buffer {
    ~Buffer() { ++deleted; }
    char bytes[100];
};

int main()
{
    {
        section outer, inner;
        CHECK(sp_rcu_in_read_section() == 1);
        const cookie before = cookie::now();
        CHECK(!before.elapsed());
        bool threw = false;
        try {
            before.wait();
        } catch (const std::system_error &error) {
            threw = error.code() == std::errc::resource_deadlock_would_occur;
        }
        CHECK(threw);
    }
    CHECK(sp_rcu_in_read_section() == 0);
    CHECK(cookie::start().wait_for(std::chrono::seconds(60)));

    sleepable_domain sessions;
    {
        sleepable_section one(sessions);
        const cookie blocked = cookie::now(sessions.get());
        CHECK(!blocked.wait_for(std::chrono::milliseconds(1)) && !blocked.elapsed());
        std::thread([](sleepable_section) {}, std::move(one)).join();
        blocked.wait();
    }
    sessions.synchronize();
    sessions.barrier();

    {
        online reader;
        reader.quiescent();
        bool threw = false;
        try {
            online again;
        } catch (const std::system_error &error) {
            threw = error.code() == std::errc::device_or_resource_busy;
        }
        CHECK(threw);
        offline pause(reader);
        CHECK(sp_synchronize(sp_qsbr_domain()) == 0);
    }

    counter sum;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&sum] {
            for (int n = 0; n < 1000; ++n)
                sum.add(2);
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(sum.sum() == 8000);

    {
        pool<Buffer> buffers(4);
        CHECK(!buffers.pop());
        std::unique_ptr<Buffer> buffer(new Buffer);
        const Buffer *address = buffer.get();
        CHECK(buffers.push(buffer) && !buffer && buffers.size() == 1);
        buffer = buffers.pop();
        CHECK(buffer.get() == address && deleted == 0);
        while (buffers.push(buffer))
            buffer.reset(new Buffer);
        CHECK(buffer && deleted == 0 && buffers.size() > 0);
    }
    CHECK(deleted >= 5);
    return 0;
}
