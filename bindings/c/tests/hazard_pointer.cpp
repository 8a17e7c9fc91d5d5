// The sentences of [saferecl.hp] that a test can check. Each test names its paragraph, in the draft of C++26.

#define STILLPOINT_STD_HAZARD_POINTER
#include <stillpoint/hazard_pointer.hpp>

#include "retired.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// Not stillpoint::hazard_pointer here: what follows must hold of both names.
using std::hazard_pointer;
using std::hazard_pointer_obj_base;
using std::clear_hazard_pointer_batch;
using std::make_hazard_pointer;
using std::make_hazard_pointer_batch;

namespace {

void reclaim()
{
    CHECK(sp_barrier(sp_hazard_domain()) == 0);
}

std::uint64_t kept()
{
    sp_stats stats;
    CHECK(sp_get_stats(sp_hazard_domain(), &stats) == 0);
    return stats.kept;
}

// [saferecl.hp.base]/1, /2; [saferecl.hp.general]/2.
using Test = Objects<hazard_pointer_obj_base>;
using Node = Test::Node;
using Second = Test::Second;
using Third = Test::Third;
using Function = Test::Function;

struct Plain : hazard_pointer_obj_base<Plain> {
    int value = 3;
};

// The synopses.
static_assert(!std::is_default_constructible_v<hazard_pointer_obj_base<Node>>);
static_assert(!std::is_destructible_v<hazard_pointer_obj_base<Node>>);
static_assert(std::is_nothrow_default_constructible_v<hazard_pointer>);
static_assert(std::is_nothrow_move_constructible_v<hazard_pointer>);
static_assert(std::is_nothrow_move_assignable_v<hazard_pointer>);
static_assert(!std::is_copy_constructible_v<hazard_pointer> && !std::is_copy_assignable_v<hazard_pointer>);
static_assert(noexcept(std::declval<Node &>().retire()));
static_assert(noexcept(std::declval<hazard_pointer &>().protect(std::declval<const std::atomic<Node *> &>())));
static_assert(noexcept(std::declval<hazard_pointer &>().reset_protection()));
static_assert(noexcept(std::declval<const hazard_pointer &>().empty()));
static_assert(!noexcept(make_hazard_pointer()));
static_assert(std::is_nothrow_swappable_v<hazard_pointer>);

// [saferecl.hp.holder.ctor], [saferecl.hp.holder.nonmem]/1.
void owners()
{
    hazard_pointer empty;
    CHECK(empty.empty());
    hazard_pointer first = make_hazard_pointer();
    CHECK(!first.empty());
    hazard_pointer second = std::move(first);
    CHECK(first.empty() && !second.empty());
    // /5: self-assignment has no effect.
    hazard_pointer &same = second;
    second = std::move(same);
    CHECK(!second.empty());
    // /6: the one that it owned is destroyed, and its protection ends.
    std::atomic<Node *> source{new Node(1)};
    hazard_pointer third = make_hazard_pointer();
    Node *node = third.protect(source);
    source = nullptr;
    node->retire();
    reclaim();
    CHECK(deleted == 0 && kept() == 1);
    third = std::move(second);
    CHECK(second.empty() && !third.empty());
    reclaim();
    CHECK(deleted == 1 && kept() == 0);
}

// [saferecl.hp.holder.mem]/10: swap; the protections stay with the hazard pointers.
void swaps()
{
    deleted = 0;
    std::atomic<Node *> source{new Node(2)};
    hazard_pointer first = make_hazard_pointer(), second;
    Node *node = first.protect(source);
    first.swap(second);
    CHECK(first.empty() && !second.empty());
    swap(first, second);
    CHECK(!first.empty() && second.empty());
    source = nullptr;
    node->retire();
    reclaim();
    CHECK(deleted == 0 && node->value == 2);
    {
        hazard_pointer last = std::move(first);
    }
    reclaim();
    CHECK(deleted == 1);
}

// [saferecl.hp.holder.mem]/2 to /9.
void protects()
{
    deleted = 0;
    Node *first = new Node(1), *second = new Node(2);
    std::atomic<Node *> source{first};
    hazard_pointer pointer = make_hazard_pointer();
    // /4: try_protect of another pointer assigns what it found, and protects nothing.
    Node *expected = second;
    CHECK(!pointer.try_protect(expected, source) && expected == first);
    CHECK(pointer.try_protect(expected, source) && expected == first);
    source = second;
    CHECK(!pointer.try_protect(expected, source) && expected == second);
    first->retire();
    reclaim();
    CHECK(deleted == 1);
    // /2: protect.
    CHECK(pointer.protect(source) == second);
    source = nullptr;
    second->retire();
    reclaim();
    CHECK(deleted == 1 && second->value == 2);
    // Null is protected as nothing.
    CHECK(pointer.protect(source) == nullptr);
    reclaim();
    CHECK(deleted == 2);
    // /6, /8: reset_protection.
    Node *third = new Node(3);
    pointer.reset_protection(third);
    third->retire();
    reclaim();
    CHECK(deleted == 2 && third->value == 3);
    pointer.reset_protection(nullptr);
    reclaim();
    CHECK(deleted == 3);
    pointer.reset_protection(static_cast<Node *>(nullptr));
    pointer.reset_protection();
}

// [saferecl.hp.base]/5: retire, with deleters of all kinds, and bases that do not come first.
void retires()
{
    std::atomic<int> count{0};
    std::atomic<Second *> source{new Second};
    hazard_pointer pointer = make_hazard_pointer();
    Second *second = pointer.protect(source);
    source = nullptr;
    second->retire(Count{&count});
    reclaim();
    CHECK(count == 0 && second->value == 5 && !second->name.empty());
    pointer.reset_protection();
    reclaim();
    CHECK(count == 1);
    int total = 0;
    (new Third)->retire(Assigned(&total));
    bool called = false;
    (new Function)->retire([&called](Function *p) {
        called = true;
        delete p;
    });
    // Many of a class that only frees memory: the thread reclaims them itself.
    std::atomic<Plain *> plain{new Plain};
    Plain *old = pointer.protect(plain);
    for (int i = 0; i < 10000; ++i)
        plain.exchange(new Plain)->retire();
    reclaim();
    CHECK(total == 7 && called && old->value == 3 && kept() == 1);
    pointer.reset_protection();
    plain.exchange(nullptr)->retire();
    reclaim();
    CHECK(kept() == 0);
    // An object of a constant type.
    std::atomic<const Plain *> constant{new Plain};
    const Plain *seen = pointer.protect(constant);
    constant = nullptr;
    const_cast<Plain *>(seen)->retire();
    reclaim();
    CHECK(seen->value == 3);
}

// [saferecl.hp.general]/6: no object is reclaimed while it is protected, by any thread; hazard pointers move between threads.
void threads()
{
    constexpr int count = 20000;
    std::atomic<Node *> source{new Node(0)};
    std::atomic<bool> stop{false};
    std::vector<std::thread> readers;
    for (int number = 0; number < 2; ++number) {
        readers.emplace_back([&, pointer = make_hazard_pointer()]() mutable {
            hazard_pointer other = make_hazard_pointer();
            while (!stop) {
                Node *node = pointer.protect(source);
                Node *again = other.protect(source);
                CHECK(node->value >= 0 && again->value >= node->value && node->value >= 0);
                swap(pointer, other);
            }
        });
    }
    for (int value = 1; value < count; ++value)
        source.exchange(new Node(value))->retire();
    stop = true;
    for (std::thread &reader : readers)
        reader.join();
    reclaim();
    CHECK(kept() == 0);
    source.exchange(nullptr)->retire();
    reclaim();
}

void batches()
{
    std::atomic<Plain *> source{new Plain};
    hazard_pointer own[3];
    own[1] = make_hazard_pointer();
    Plain *seen = own[1].protect(source);
    make_hazard_pointer_batch(own);
    // The one that was there still protects.
    source.exchange(nullptr)->retire();
    CHECK(sp_barrier(sp_hazard_domain()) == 0);
    for (hazard_pointer &one : own)
        CHECK(!one.empty());
    own[0].reset_protection(seen);
    clear_hazard_pointer_batch(own);
    for (hazard_pointer &one : own)
        CHECK(one.empty());
    std::vector<hazard_pointer> many(1000);
    make_hazard_pointer_batch(many);
    for (hazard_pointer &one : many)
        CHECK(!one.empty());
    clear_hazard_pointer_batch(many);
}

} // namespace

int main()
{
    batches();
    owners();
    swaps();
    protects();
    retires();
    threads();
}
