// The maps and the lists in C++.

#include <stillpoint/list.h>
#include <stillpoint/map.hpp>
#include <stillpoint/rcu.hpp>

#include "retired.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace {

struct Point {
    std::int32_t x, y;
};

struct Id {
    std::uint64_t high, low;
};

void plain_pairs()
{
    stillpoint::copy_map<Id, Point> points;
    points.reserve(10);
    CHECK(!points.get({1, 2}) && !points.insert({1, 2}, {3, 4}));
    CHECK(points.get({1, 2})->y == 4 && points.contains({1, 2}) && !points.contains({2, 1}));
    CHECK(points.insert({1, 2}, {5, 6})->x == 3);
    std::optional<Point> expected;
    CHECK(!points.compare_exchange({1, 2}, expected, {7, 8}) && expected->x == 5);
    CHECK(points.compare_exchange({1, 2}, expected, {7, 8}));
    int sum = 0;
    points.for_each([&](Id id, Point point) { sum += static_cast<int>(id.low) * point.x; });
    CHECK(sum == 14 && points.size() == 1);
    stillpoint::copy_map<Id, Point> moved(std::move(points)), other;
    CHECK(moved.remove({1, 2})->y == 8 && !moved.remove({1, 2}));
    points = std::move(other);
    CHECK(points.size() == 0);

    struct Low {
        std::uint64_t operator()(std::uint32_t key) const { return key; }
    };
    stillpoint::copy_map<std::uint32_t, char, Low> letters;
    for (std::uint32_t key = 0; key < 1000; ++key)
        letters.insert(key, static_cast<char>('a' + key % 26));
    int seen = 0;
    letters.for_each([&](std::uint32_t key, char letter) {
        CHECK(letter == static_cast<char>('a' + key % 26));
        return ++seen < 500;
    });
    CHECK(seen == 500);
}

// A hash function that throws, at the second call. The first one is by an insertion.
struct Throwing {
    std::size_t operator()(std::uint64_t key) const
    {
        static std::atomic<int> calls{0};
        if (calls++ == 1)
            throw key;
        return key;
    }
};

struct Number {
    std::uint64_t key;
};

void throwing_hashes_terminate()
{
    CHECK(terminates([] {
        stillpoint::copy_map<std::uint64_t, int, Throwing> map;
        map.insert(1, 2);
        map.get(1);
    }));
    CHECK(terminates([] {
        stillpoint::hash_map<&Number::key, Throwing> map;
        Number one{1}, two{2};
        map.insert(&one);
        map.insert(&two);
    }));
}

struct Connection : Named, stillpoint::rcu_obj_base<Connection, Count> {
    explicit Connection(std::string peer, int n) : id(std::move(peer)), number(n) {}
    std::string id;
    int number;
};

void structures()
{
    stillpoint::hash_map<&Connection::id> connections;
    std::atomic<bool> stop{false};
    const auto name = [](int n) { return "a peer with a long name, number " + std::to_string(n); };
    std::thread reader([&] {
        while (!stop) {
            for (int n = 0; n < 50; ++n) {
                const std::lock_guard<stillpoint::rcu_domain> section(stillpoint::rcu_default_domain());
                if (const Connection *found = connections.get(name(n)))
                    CHECK(found->number % 50 == n && found->id == name(n));
            }
        }
    });
    int made = 0;
    for (int round = 0; round < 2000; ++round, ++made) {
        if (Connection *old = connections.insert(new Connection(name(round % 50), round)))
            old->retire(Count{&deleted});
        if (round % 3 == 0)
            connections.remove(name(round % 50))->retire(Count{&deleted});
    }
    stop = true;
    reader.join();
    auto *again = new Connection(name(1), 1);
    Connection *there = connections.get_or_insert(again);
    CHECK(there && there != again);
    delete again;
    connections.for_each([&](Connection &connection) { connections.remove(connection.id)->retire(Count{&deleted}); });
    CHECK(connections.size() == 0);
    stillpoint::rcu_barrier();
    CHECK(deleted == made);
}

struct Element {
    int key;
    sp_list link;
};

void lists()
{
    sp_list list = SP_LIST_INIT(list);
    Element one{1, {}}, two{2, {}};
    int sum = 0;
    sp_list_add(&two.link, &list);
    sp_list_add(&one.link, &list);
    sp_list_for_each_entry(element, &list, Element, link) sum = 10 * sum + element->key;
    sp_list_del(&one.link);
    CHECK(sum == 12 && sp_container_of(list.next, Element, link) == &two);
}

} // namespace

int main()
{
    plain_pairs();
    throwing_hashes_terminate();
    structures();
    lists();
    return 0;
}
