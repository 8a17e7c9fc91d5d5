// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef STILLPOINT_DETAIL_HPP
#define STILLPOINT_DETAIL_HPP

/* What the headers for C++17 share. Not an interface. */

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "../stillpoint.h"

namespace stillpoint::detail {

[[noreturn]] inline void no_memory()
{
#ifdef __cpp_exceptions
    throw std::bad_alloc();
#else
    std::terminate();
#endif
}

/// The first base of all objects that are retired. Its address is what hazard pointers protect. Names in bases hide those of
/// the program, so they all begin with `sp_`.
struct sp_node_ {
    sp_rcu_head sp_head_;

    /// Returns the node of a head, which is the first member.
    static sp_node_ *sp_of_(sp_rcu_head *head) noexcept { return reinterpret_cast<sp_node_ *>(head); }
};

/// The deleter frees memory and runs no code of the program.
template <class T, class D>
constexpr bool only_frees() noexcept
{
    // With another deleter T may be incomplete.
    if constexpr (std::is_same_v<D, std::default_delete<T>>)
        return std::is_trivially_destructible_v<T>;
    else
        return false;
}

/// What deleting a T frees, or 0 if it may own more.
template <class T, class D>
constexpr std::size_t known_size() noexcept
{
    if constexpr (only_frees<T, D>())
        return sizeof(T);
    else
        return 0;
}

/// Deletes an object by the deleter that is in it: not from inside, as it destroys the object.
template <class T, class D>
void delete_by(D &own, T *object)
{
    D deleter{};
    deleter = std::move(own);
    deleter(object);
}

/// Finds the only base that is a specialization of `Base`. Ambiguous if there are several.
template <template <class, class> class Base, class T, class D>
Base<T, D> base_of(const volatile Base<T, D> *);

/// [saferecl.rcu.general]/2, [saferecl.hp.general]/2.
template <template <class, class> class Base, class T, class = void>
struct is_protectable : std::false_type {};

template <template <class, class> class Base, class T>
struct is_protectable<Base, T, std::void_t<decltype(base_of<Base>(static_cast<T *>(nullptr)))>> {
    using base = decltype(base_of<Base>(static_cast<T *>(nullptr)));
    template <class X, class D>
    static std::is_same<X, std::remove_cv_t<T>> is_of(const Base<X, D> *);
    // A base that is virtual does not convert back.
    template <class B, class X, class = decltype(static_cast<X *>(static_cast<B *>(nullptr)))>
    static std::true_type is_direct(int);
    template <class B, class X>
    static std::false_type is_direct(...);
    static constexpr bool value = decltype(is_of(static_cast<const base *>(nullptr)))::value &&
                                  decltype(is_direct<base, std::remove_cv_t<T>>(0))::value;
};

} // namespace stillpoint::detail

#endif
