// What the tests in C++ share: a child that terminates, deleters, a base that comes first, and classes that are
// retired.

#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "check.h"

#include <stillpoint/detail.hpp>

namespace {

std::atomic<int> deleted{0};

[[maybe_unused]] bool terminates(void (*f)())
{
    static void (*function)();
    char text[4096];
    function = f;
    int status = in_child(
        [] {
            std::set_terminate([] { _exit(42); });
            function();
        },
        text, sizeof text);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

// A base that comes first, so that the base of `retire` is not at the beginning.
struct Named {
    std::string name = "a string that is too long to be stored in place";
    virtual ~Named() = default;
};

struct Count {
    std::atomic<int> *count = nullptr;
    template <class T>
    void operator()(T *p) const
    {
        ++*count;
        delete p;
    }
};

// A deleter need be default constructible and move assignable only.
struct Assigned {
    Assigned() = default;
    explicit Assigned(int *t) : total(t) {}
    Assigned(Assigned &&) = delete;
    Assigned &operator=(Assigned &&other) noexcept
    {
        total = other.total;
        return *this;
    }
    template <class T>
    void operator()(T *p)
    {
        *total += p->value;
        delete p;
    }
    int *total = nullptr;
};

// Classes with the base that is tested.
template <template <class, class> class Base>
struct Objects {
    // T may be incomplete where the base is named.
    struct Node : Base<Node, std::default_delete<Node>> {
        explicit Node(int v = 0) : value(v) {}
        ~Node()
        {
            value = -1;
            ++deleted;
        }
        int value;
    };
    struct Second : Named, Base<Second, Count> {
        int value = 5;
    };
    struct Third : Base<Third, Assigned> {
        int value = 7;
    };
    struct Function : Base<Function, std::function<void(Function *)>> {};

    struct Virtual : virtual Base<Virtual, std::default_delete<Virtual>> {};
    struct Private : private Base<Private, std::default_delete<Private>> {};
    struct Other : Base<Node, std::default_delete<Node>> {};
    struct Twice : Base<Twice, std::default_delete<Twice>>, Base<Twice, Count> {};
    struct Derived : Node {};
    struct None {};
    template <class T>
    static constexpr bool is = stillpoint::detail::is_protectable<Base, T>::value;
    static_assert(is<Node> && is<Second>);
    static_assert(!is<Virtual> && !is<Private> && !is<Other> && !is<Twice> && !is<Derived> && !is<None>);
};

} // namespace
