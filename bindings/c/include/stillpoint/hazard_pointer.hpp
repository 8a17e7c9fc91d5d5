// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef STILLPOINT_HAZARD_POINTER_HPP
#define STILLPOINT_HAZARD_POINTER_HPP

/*#
# C++26's `<hazard_pointer>` for C++17

`stillpoint/hazard_pointer.hpp` has the names of the header `<hazard_pointer>` ([saferecl.hp] in the C++26 draft) in
the namespace `stillpoint`. It needs C++17, GCC or Clang, and `libstillpoint`; C programs have
[`stillpoint.h`](c-api.md). The macro `STILLPOINT_STD_HAZARD_POINTER`, or `#include <hazard_pointer>` with the folder
`stddir`, adds the names to the namespace `std` and defines `__cpp_lib_hazard_pointer`, as [`rcu.hpp`](c-rcu-hpp.md)
says of its own.

The batches are those of C++29 (P3428). In C++17, which has no `std::span`, they may be arrays, `std::array` and
`std::vector`.

```cpp
struct Node : stillpoint::hazard_pointer_obj_base<Node> {
    int value;
};
std::atomic<Node *> current;

stillpoint::hazard_pointer pointer = stillpoint::make_hazard_pointer(); // a reader
use(pointer.protect(current)->value);
current.exchange(next)->retire(); // a writer: it is deleted when no hazard pointer protects it
```

## What the standard leaves open

| subject | here |
|---|---|
| when objects are reclaimed | by the thread that retires others, if its deleter is `std::default_delete` and its class has a trivial destructor; all others in a thread of the library, soon. Objects that were protected then: when others are reclaimed, or within about a second after they are no longer protected |
| waiting for that | `sp_barrier(sp_hazard_domain())` |
| a deleter that throws | `std::terminate` is called |
| `retire` | allocates nothing for the object. It blocks for ten seconds at most if more is retired than can be reclaimed. If the thread cannot be registered, `std::terminate` is called |
| `make_hazard_pointer` | takes a few nanoseconds, and allocates only if the thread has no hazard pointer to spare. Throws `std::bad_alloc` |
| hazard pointers | may be moved to other threads, and outlive the thread that made them |
*/

#if __cplusplus < 201703L
#error "stillpoint/hazard_pointer.hpp needs C++17 (-std=c++17); stillpoint.h needs C++11"
#else

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

#include "detail.hpp"

namespace stillpoint {

/// The base of classes whose objects hazard pointers protect ([saferecl.hp.base]):
/// `class Node : public hazard_pointer_obj_base<Node>`.
template <class T, class D = std::default_delete<T>>
class hazard_pointer_obj_base : private detail::sp_node_ {
public:
    /// Reclaims this object by `d(p)`, where `p` is its address, when no hazard pointer protects it.
    void retire(D d = D()) noexcept
    {
        static_assert(detail::is_protectable<stillpoint::hazard_pointer_obj_base, T>::value,
                      "T must have exactly one base hazard_pointer_obj_base<T, D>, public and not virtual");
        static_assert(std::is_base_of_v<hazard_pointer_obj_base, T>, "T must be derived from this class");
        sp_deleter_ = std::move(d);
        constexpr unsigned flags = detail::only_frees<T, D>() ? unsigned{SP_RUN_ON_RETIRING_THREAD} : 0u;
        if (sp_call_head(sp_hazard_domain(), &this->sp_head_, sp_reclaim_, detail::known_size<T, D>(), flags) != 0)
            std::terminate();
    }

protected:
    hazard_pointer_obj_base() = default;
    hazard_pointer_obj_base(const hazard_pointer_obj_base &) = default;
    hazard_pointer_obj_base(hazard_pointer_obj_base &&) = default;
    hazard_pointer_obj_base &operator=(const hazard_pointer_obj_base &) = default;
    hazard_pointer_obj_base &operator=(hazard_pointer_obj_base &&) = default;
    ~hazard_pointer_obj_base() = default;

private:
    friend class hazard_pointer;

    static const void *sp_address_(const hazard_pointer_obj_base *object) noexcept
    {
        return static_cast<const detail::sp_node_ *>(object);
    }

    static void sp_reclaim_(sp_rcu_head *head) noexcept
    {
        auto *self = static_cast<hazard_pointer_obj_base *>(sp_of_(head));
        detail::delete_by(self->sp_deleter_, static_cast<T *>(self));
    }

    D sp_deleter_{};
};

/// Owns a hazard pointer, or is empty ([saferecl.hp.holder]).
class hazard_pointer {
public:
    /// Makes an empty one.
    hazard_pointer() noexcept = default;
    hazard_pointer(hazard_pointer &&other) noexcept : owned_(std::exchange(other.owned_, sp_hazard{})) {}

    hazard_pointer &operator=(hazard_pointer &&other) noexcept
    {
        if (this != std::addressof(other)) {
            sp_hazard_destroy(&owned_);
            owned_ = std::exchange(other.owned_, sp_hazard{});
        }
        return *this;
    }

    ~hazard_pointer() { sp_hazard_destroy(&owned_); }

    [[nodiscard]] bool empty() const noexcept { return owned_.reserved_slot_ == nullptr; }

    /// Loads `src`, and protects the object that it points to.
    template <class T>
    T *protect(const std::atomic<T *> &src) noexcept
    {
        T *ptr = src.load(std::memory_order_relaxed);
        while (!try_protect(ptr, src)) {
        }
        return ptr;
    }

    /// Protects `*ptr` if `src` still points to it. Otherwise stores `src` in `ptr`, protects nothing, and returns `false`.
    template <class T>
    bool try_protect(T *&ptr, const std::atomic<T *> &src) noexcept
    {
        T *old = ptr;
        reset_protection(old);
        // Pairs with the heavy fence of a grace period.
        sp_fence_light();
        ptr = src.load(std::memory_order_acquire);
        if (old != ptr) {
            reset_protection();
            return false;
        }
        return true;
    }

    /// Protects `*ptr`, which is of use only if it is not retired before this returns.
    template <class T>
    void reset_protection(const T *ptr) noexcept
    {
        static_assert(detail::is_protectable<stillpoint::hazard_pointer_obj_base, T>::value, "T must be hazard-protectable");
        using base = typename detail::is_protectable<stillpoint::hazard_pointer_obj_base, std::remove_cv_t<T>>::base;
        sp_hazard_set(&owned_, base::sp_address_(const_cast<const std::remove_cv_t<T> *>(ptr)));
    }

    /// Protects nothing.
    void reset_protection(std::nullptr_t = nullptr) noexcept { sp_hazard_reset(&owned_); }

    void swap(hazard_pointer &other) noexcept { std::swap(owned_, other.owned_); }

private:
    friend hazard_pointer make_hazard_pointer();

    sp_hazard owned_{};
};

/// Makes a hazard pointer. Throws `std::bad_alloc`.
inline hazard_pointer make_hazard_pointer()
{
    hazard_pointer made;
    if (sp_hazard_init(&made.owned_) != 0)
        detail::no_memory();
    return made;
}

inline void swap(hazard_pointer &a, hazard_pointer &b) noexcept { a.swap(b); }

namespace detail {

/// Makes a hazard pointer for each of `count` elements that is empty. Returns `false` if it has made none, as there is no
/// memory for all.
inline bool make_batch(sp_hazard *batch, std::size_t count) noexcept
{
    // The elements that were empty have a bit in their words until all are made. Slots are aligned.
    const auto flip = [](sp_hazard &one) {
        one.reserved_slot_ =
            reinterpret_cast<std::uintptr_t *>(reinterpret_cast<std::uintptr_t>(one.reserved_slot_) ^ 1);
    };
    const auto is_made = [](const sp_hazard &one) {
        return (reinterpret_cast<std::uintptr_t>(one.reserved_slot_) & 1) != 0;
    };
    std::size_t done = 0;
    bool is_complete = true;
    for (; done < count && is_complete; ++done) {
        if (batch[done].reserved_slot_ == nullptr) {
            is_complete = sp_hazard_init(&batch[done]) == 0;
            if (is_complete)
                flip(batch[done]);
        }
    }
    for (std::size_t i = 0; i < done; ++i) {
        if (is_made(batch[i])) {
            flip(batch[i]);
            if (!is_complete)
                sp_hazard_destroy(&batch[i]);
        }
    }
    return is_complete;
}

/// Elements of a batch are nothing but their words.
inline sp_hazard *words_of(hazard_pointer *batch) noexcept
{
    static_assert(std::is_standard_layout_v<hazard_pointer> && sizeof(hazard_pointer) == sizeof(sp_hazard));
    return reinterpret_cast<sp_hazard *>(batch);
}

} // namespace detail

/// Makes a hazard pointer for each element that is empty. Throws `std::bad_alloc`: then it has made none.
#ifdef __cpp_lib_span
inline void make_hazard_pointer_batch(std::span<hazard_pointer> batch)
#else
template <class Batch>
void make_hazard_pointer_batch(Batch &&batch)
#endif
{
    if (!detail::make_batch(detail::words_of(std::data(batch)), std::size(batch)))
        detail::no_memory();
}

/// Makes each element empty.
#ifdef __cpp_lib_span
inline void clear_hazard_pointer_batch(std::span<hazard_pointer> batch) noexcept
#else
template <class Batch>
void clear_hazard_pointer_batch(Batch &&batch) noexcept
#endif
{
    for (hazard_pointer &one : batch)
        one = hazard_pointer();
}

} // namespace stillpoint

#if defined(STILLPOINT_STD_HAZARD_POINTER) && !defined(__cpp_lib_hazard_pointer)
namespace std {
using stillpoint::hazard_pointer;
using stillpoint::hazard_pointer_obj_base;
using stillpoint::make_hazard_pointer;
using stillpoint::clear_hazard_pointer_batch;
using stillpoint::make_hazard_pointer_batch;
} // namespace std
#define __cpp_lib_hazard_pointer 202606L
#endif

#endif // C++17

#endif
