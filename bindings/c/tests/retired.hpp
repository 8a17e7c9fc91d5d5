// What the tests of retirement share: deleters, and a base that comes first.

#pragma once

#include <atomic>
#include <string>

#include "check.h"

namespace {

std::atomic<int> deleted{0};

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

} // namespace
