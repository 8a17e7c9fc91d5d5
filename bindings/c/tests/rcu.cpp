// The sentences of [saferecl.rcu] that a test can check. Each test names its paragraph, in the draft of C++26.

#define STILLPOINT_STD_RCU
#include <stillpoint/rcu.hpp>

#include "retired.hpp"

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Not std::rcu_domain here: what follows must hold of both names.
using std::rcu_barrier;
using std::rcu_default_domain;
using std::rcu_domain;
using std::rcu_obj_base;
using std::rcu_retire;
using std::rcu_synchronize;

namespace {

// [saferecl.rcu.base]/1, /3, /4; [saferecl.rcu.general]/2.
using Test = Objects<rcu_obj_base>;
using Node = Test::Node;
using Second = Test::Second;
using Third = Test::Third;
using Function = Test::Function;

// The protected members: derived classes are copied and moved.
struct Copied : rcu_obj_base<Copied> {
    int value = 0;
};

// [saferecl.rcu.base]/6.
static_assert(std::is_trivially_copyable_v<rcu_obj_base<Copied>>);
static_assert(std::is_trivially_copyable_v<Copied>);
static_assert(!std::is_trivially_copyable_v<rcu_obj_base<Function, std::function<void(Function *)>>>);

// The synopses: protected members, noexcept, default arguments, deleted functions.
static_assert(!std::is_default_constructible_v<rcu_obj_base<Node>> && !std::is_destructible_v<rcu_obj_base<Node>>);
static_assert(!std::is_copy_constructible_v<rcu_domain> && !std::is_copy_assignable_v<rcu_domain>);
static_assert(!std::is_move_constructible_v<rcu_domain> && !std::is_move_assignable_v<rcu_domain>);
static_assert(noexcept(std::declval<rcu_domain &>().lock()) && noexcept(std::declval<rcu_domain &>().unlock()));
static_assert(noexcept(std::declval<rcu_domain &>().try_lock()) && noexcept(rcu_default_domain()));
static_assert(noexcept(rcu_synchronize()) && noexcept(rcu_barrier()) && noexcept(std::declval<Node &>().retire()));
static_assert(!noexcept(rcu_retire(static_cast<int *>(nullptr))));
static_assert(std::is_same_v<decltype(std::declval<rcu_domain &>().try_lock()), bool>);
static_assert(std::is_same_v<decltype(rcu_default_domain()), rcu_domain &>);

// Both names are one.
static_assert(std::is_same_v<std::rcu_domain, stillpoint::rcu_domain>);

// [saferecl.rcu.domain.func]/1: the same object every time, also in other threads.
void one_default_domain()
{
    rcu_domain *first = &rcu_default_domain(), *second = nullptr;
    std::thread([&] { second = &rcu_default_domain(); }).join();
    CHECK(first == second && first == &rcu_default_domain());
}

// [saferecl.rcu.domain.general]/1: Cpp17Lockable, with the library's locks. [saferecl.rcu.domain.locks]/4, /5: try_lock
// is lock, and returns true.
void domain_is_lockable()
{
    rcu_domain &dom = rcu_default_domain();
    {
        std::scoped_lock<rcu_domain> region(dom);
        CHECK(sp_rcu_in_read_section());
        CHECK(dom.try_lock());
        dom.unlock();
        CHECK(sp_rcu_in_read_section());
    }
    CHECK(!sp_rcu_in_read_section());
    {
        std::unique_lock<rcu_domain> region(dom, std::try_to_lock);
        CHECK(region.owns_lock() && sp_rcu_in_read_section());
        std::unique_lock<rcu_domain> moved(std::move(region));
        moved.unlock();
        CHECK(!sp_rcu_in_read_section());
        moved.lock();
        CHECK(sp_rcu_in_read_section());
    }
    CHECK(!sp_rcu_in_read_section());
    {
        std::mutex mutex;
        std::scoped_lock both(mutex, dom);
        CHECK(sp_rcu_in_read_section());
    }
    CHECK(!sp_rcu_in_read_section());
}

// [saferecl.rcu.general]/3, /4: regions nest. [saferecl.rcu.domain.locks]/7: unlock closes the one opened last.
void regions_nest()
{
    rcu_domain &dom = rcu_default_domain();
    for (int i = 0; i < 5; ++i)
        dom.lock();
    for (int i = 0; i < 5; ++i) {
        CHECK(sp_rcu_in_read_section());
        dom.unlock();
    }
    CHECK(!sp_rcu_in_read_section());
}

// A thread that is inside a region until it is told.
struct Region {
    std::atomic<bool> is_open{false}, close{false}, is_closed{false};
    std::thread thread{[this] {
        rcu_default_domain().lock();
        is_open = true;
        while (!close)
            std::this_thread::yield();
        is_closed = true;
        rcu_default_domain().unlock();
    }};
    Region()
    {
        while (!is_open)
            std::this_thread::yield();
    }
    ~Region()
    {
        close = true;
        thread.join();
    }
};

// [saferecl.rcu.general]/5: a region that is open when an object is retired ends before its deleter runs. /6: it runs
// once.
void deleters_wait_for_open_regions()
{
    std::atomic<int> count{0}, plain{0};
    {
        Region region;
        auto *second = new Second;
        second->retire(Count{&count});
        rcu_retire(new int(1), Count{&plain});
        // Grace periods of other domains do not matter, nor does time.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(count == 0 && plain == 0);
        CHECK(second->value == 5 && second->name.size() > 20);
    }
    rcu_barrier();
    CHECK(count == 1 && plain == 1);
    rcu_barrier();
    CHECK(count == 1 && plain == 1);
}

// [saferecl.rcu.domain.func]/2, /3: rcu_synchronize returns after the unlock of regions that were open.
void synchronize_waits_for_open_regions()
{
    Region region;
    std::atomic<bool> done{false};
    std::thread waiter([&] {
        rcu_synchronize(rcu_default_domain());
        CHECK(region.is_closed);
        done = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!done);
    region.close = true;
    waiter.join();
    CHECK(done);
}

// [saferecl.rcu.domain.func]/4, /5: rcu_barrier returns after what was scheduled before has been evaluated, also by
// threads that have exited, and their effects are visible.
void barrier_waits_for_what_was_scheduled()
{
    int plain = 0; // not atomic: written by deleters, read after the barrier
    std::thread([&] {
        for (int i = 0; i < 100; ++i)
            rcu_retire(&plain, [](int *p) { ++*p; });
    }).join();
    rcu_barrier(rcu_default_domain());
    CHECK(plain == 100);
    // Nothing is scheduled.
    rcu_barrier();
}

// [saferecl.rcu.base]/9: evaluates `deleter = std::move(d)`, and schedules `deleter(addressof(x))`.
void objects_retire_themselves()
{
    int before = deleted, total = 0;
    std::atomic<int> count{0};
    (new Node)->retire();
    (new Node)->retire(std::default_delete<Node>(), rcu_default_domain());
    (new Third)->retire(Assigned(&total));
    (new Second)->retire({&count}, rcu_default_domain());
    auto *function = new Function;
    Function *seen = nullptr;
    std::string captured = "captured by the deleter, and destroyed with it";
    function->retire([&seen, captured](Function *p) {
        seen = p;
        delete p;
        CHECK(captured.size() > 20);
    });
    rcu_barrier();
    CHECK(deleted == before + 2 && total == 7 && count == 1 && seen == function);

    // Copies have deleters of their own, and are retired on their own.
    auto *original = new Copied;
    original->value = 3;
    auto *copy = new Copied(*original), *moved = new Copied(std::move(*original));
    *copy = *moved;
    CHECK(copy->value == 3);
    original->retire();
    copy->retire();
    moved->retire();
    rcu_barrier();
}

struct Incomplete;
Incomplete *make_incomplete();
void destroy(Incomplete *);

// A deleter that cannot be copied.
struct MoveOnly {
    std::unique_ptr<int> owned = std::make_unique<int>(4);
    std::atomic<int> *sum;
    explicit MoveOnly(std::atomic<int> *s) : sum(s) {}
    void operator()(int *p) const
    {
        *sum += *owned + *p;
        delete p;
    }
};

// [saferecl.rcu.domain.func]/6 to /8: rcu_retire takes any object and any movable deleter.
void any_object_is_retired()
{
    std::atomic<int> sum{0};
    rcu_retire(new int(3));
    rcu_retire(new const std::string("constant"));
    rcu_retire(new int(3), MoveOnly(&sum));
    rcu_retire(make_incomplete(), destroy);
    auto lambda = [&sum](int *p) {
        sum += *p;
        delete p;
    };
    rcu_retire(new int(10), lambda, rcu_default_domain());
    rcu_barrier();
    CHECK(sum == 17);
}

// A deleter whose move throws at the n-th time.
struct Throwing {
    int *moves_left;
    std::atomic<int> *calls;
    Throwing(int *left, std::atomic<int> *c) : moves_left(left), calls(c) {}
    Throwing(Throwing &&other) : moves_left(other.moves_left), calls(other.calls)
    {
        if ((*moves_left)-- == 0)
            throw std::runtime_error("moved");
    }
    void operator()(int *) const { ++*calls; }
};

// [saferecl.rcu.domain.func]/9 and Note 2: it throws what the initialization of the deleter throws, and nothing is
// scheduled.
void throwing_move_schedules_nothing()
{
    std::atomic<int> calls{0};
    int object = 0, thrown = 0, retired = 0;
    for (int left = 0; left < 4; ++left) {
        int moves = left;
        try {
            Throwing d(&moves, &calls);
            rcu_retire(&object, std::move(d));
            ++retired;
        } catch (const std::runtime_error &) {
            ++thrown;
        }
    }
    rcu_barrier();
    CHECK(thrown > 0 && retired > 0);
    CHECK(calls == retired);
}

// What the standard leaves undefined: a deleter that throws ends the program by std::terminate.
void throwing_deleters_terminate()
{
    CHECK(terminates([] {
        rcu_retire(new int, [](int *) { throw 1; });
        rcu_barrier();
    }));
    CHECK(terminates([] {
        (new Function)->retire([](Function *) { throw 1; });
        rcu_barrier();
    }));
    CHECK(!terminates([] {
        rcu_retire(new int);
        rcu_barrier();
    }));
}

// An exception that leaves a callback of the C interface ends the process too. It does not unwind through the library.
void throwing_callbacks_end_the_process()
{
    char text[4096];
    int status = in_child(
        [] {
            CHECK(sp_call_rcu([](void *) { throw 1; }, nullptr) == 0);
            CHECK(sp_rcu_barrier() == 0);
        },
        text, sizeof text);
    CHECK(WIFSIGNALED(status));
    CHECK(strstr(text, "foreign exception") || strstr(text, "terminate"));
}

// Waits that would wait for themselves end the program, instead of returning too early or hanging.
void waits_inside_regions_terminate()
{
    CHECK(terminates([] {
        rcu_default_domain().lock();
        rcu_synchronize();
    }));
    CHECK(terminates([] {
        std::scoped_lock region(rcu_default_domain());
        rcu_barrier();
    }));
    CHECK(terminates([] {
        rcu_retire(new int, [](int *p) {
            delete p;
            rcu_barrier();
        });
        rcu_barrier();
    }));
}

struct Tree : rcu_obj_base<Tree> {
    int depth;
    explicit Tree(int d) : depth(d) {}
    ~Tree()
    {
        ++deleted;
        // Retired by a deleter.
        for (int i = 0; depth > 0 && i < 2; ++i)
            (new Tree(depth - 1))->retire();
    }
};

// [saferecl.rcu.base]/9, [saferecl.rcu.domain.func]/8: both may be called in regions and in deleters.
void deleters_retire()
{
    int before = deleted;
    {
        std::scoped_lock region(rcu_default_domain());
        (new Tree(6))->retire();
        rcu_retire(new Node);
    }
    for (int depth = 0; depth <= 6; ++depth)
        rcu_barrier();
    CHECK(deleted == before + 128);
}

// Readers and writers together; the sanitizers watch it.
void readers_see_objects_that_live()
{
    std::atomic<Node *> current{new Node(1)};
    std::atomic<bool> stop{false};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i)
        readers.emplace_back([&] {
            while (!stop) {
                std::scoped_lock region(rcu_default_domain());
                CHECK(current.load(std::memory_order_acquire)->value > 0);
            }
        });
    for (int i = 2; i < 3000; ++i) {
        Node *old = current.exchange(new Node(i));
        if (i % 10 == 0) {
            rcu_synchronize();
            old->value = -1;
            delete old;
        } else if (i % 2) {
            old->retire();
        } else {
            rcu_retire(old);
        }
    }
    stop = true;
    for (auto &reader : readers)
        reader.join();
    rcu_retire(current.load());
    rcu_barrier();
}

struct Incomplete {
    int value;
};

Incomplete *make_incomplete()
{
    return new Incomplete{1};
}

void destroy(Incomplete *incomplete)
{
    delete incomplete;
}

} // namespace

int main()
{
    alarm(280);
    one_default_domain();
    domain_is_lockable();
    regions_nest();
    deleters_wait_for_open_regions();
    synchronize_waits_for_open_regions();
    barrier_waits_for_what_was_scheduled();
    objects_retire_themselves();
    any_object_is_retired();
    throwing_move_schedules_nothing();
    throwing_deleters_terminate();
    throwing_callbacks_end_the_process();
    waits_inside_regions_terminate();
    deleters_retire();
    readers_see_objects_that_live();
}
