// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef STILLPOINT_MAP_HPP
#define STILLPOINT_MAP_HPP

/*#
# Hash maps for C++17

`stillpoint/map.hpp` has `stillpoint::copy_map` and `stillpoint::hash_map`, which are those of
[`stillpoint/map.h`](c-map.md) with types. The constructors throw `std::bad_alloc`.

- *Moves.* A map may be moved, but not while other threads use it. What was moved to another map's constructor may only
  be destroyed or assigned to. An assignment swaps the two maps.
- *Exceptions.* Hash functions, comparisons and the functions of `for_each` must not throw: if one does, the program
  ends by `std::terminate`. They run inside functions of C, which an exception cannot leave.

```cpp
// Plain pairs, which are copied. With a third type, which is a hash function, instead of SipHash with random keys.
stillpoint::copy_map<std::uint64_t, double> prices;
prices.insert(7, 1.5);
std::optional<double> price = prices.get(7);

// Structures that the program allocates, by their member `id`.
struct Connection : stillpoint::rcu_obj_base<Connection> {
    std::string id;
};
stillpoint::hash_map<&Connection::id> connections;
if (Connection *old = connections.insert(connection))
    old->retire();
{
    std::scoped_lock section(stillpoint::rcu_default_domain());
    Connection *found = connections.get("name"); // there until the section ends
}
```
*/

#if __cplusplus < 201703L
#error "stillpoint/map.hpp needs C++17 (-std=c++17); stillpoint/map.h needs C++11"
#else

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "detail.hpp"
#include "map.h"

namespace stillpoint {

namespace map_detail {

inline void check(int code)
{
    if (code != 0)
        detail::no_memory();
}

/// Room for a T that a function of C may fill.
template <class T>
struct room {
    alignas(T) unsigned char bytes[sizeof(T)];
    std::optional<T> if_found(int found) const
    {
        return found == 1 ? std::optional<T>(*std::launder(reinterpret_cast<const T *>(bytes))) : std::nullopt;
    }
};

template <class Member>
struct member;
template <class Object, class Key>
struct member<Key Object::*> {
    using object = Object;
    using key = std::remove_const_t<Key>;
};

/// Calls `f`, of which `argument` is the address. Goes on unless it returns `false`.
template <class F, class... A>
int visit(void *argument, A &&...arguments)
{
    F &f = *static_cast<F *>(argument);
    if constexpr (std::is_void_v<std::invoke_result_t<F &, A...>>) {
        f(std::forward<A>(arguments)...);
        return 0;
    } else {
        return f(std::forward<A>(arguments)...) ? 0 : 1;
    }
}

} // namespace map_detail

/// A map of plain keys to plain values.
template <class K, class V, class Hash = void>
class copy_map {
    static_assert(std::is_trivially_copyable_v<K> && std::is_trivially_copyable_v<V>, "keys and values are copied as bytes");
    static_assert(std::has_unique_object_representations_v<K>, "keys are the same if their bytes are: no padding, no floats");
    static_assert(sizeof(K) <= 64 && sizeof(V) <= 64, "keys and values have at most 64 bytes each");

public:
    copy_map()
    {
        std::uint64_t (*hash)(const void *, std::size_t) = nullptr;
        if constexpr (!std::is_void_v<Hash>) {
            hash = [](const void *key, std::size_t) noexcept -> std::uint64_t {
                map_detail::room<K> copy;
                std::memcpy(copy.bytes, key, sizeof(K));
                return Hash{}(*copy.if_found(1));
            };
        }
        map_detail::check(sp_copy_map_create(&map_, sizeof(K), sizeof(V), hash));
    }

    copy_map(copy_map &&other) noexcept : map_(std::exchange(other.map_, nullptr)) {}
    copy_map &operator=(copy_map &&other) noexcept
    {
        std::swap(map_, other.map_);
        return *this;
    }
    ~copy_map() { sp_copy_map_destroy(map_); }

    std::optional<V> get(const K &key) const
    {
        map_detail::room<V> value;
        return value.if_found(sp_copy_map_get(map_, &key, value.bytes));
    }

    bool contains(const K &key) const { return sp_copy_map_get(map_, &key, nullptr) == 1; }

    /// Inserts a pair, and returns the value that it replaces.
    std::optional<V> insert(const K &key, const V &value)
    {
        map_detail::room<V> old;
        return old.if_found(sp_copy_map_insert(map_, &key, &value, old.bytes));
    }

    /// Stores `value` if the key has the value `expected`, byte by byte, or none. Otherwise stores in `expected` what
    /// it has.
    bool compare_exchange(const K &key, std::optional<V> &expected, const V &value)
    {
        static_assert(std::has_unique_object_representations_v<V>, "equal values have equal bytes");
        for (;;) {
            std::optional<V> current = expected;
            if (sp_copy_map_compare_exchange(map_, &key, current ? &*current : nullptr, &value) == 1)
                return true;
            current = get(key);
            // Where it is again what was expected, it was something else in between.
            if (current.has_value() == expected.has_value() &&
                (!current || std::memcmp(std::addressof(*current), std::addressof(*expected), sizeof(V)) == 0))
                continue;
            expected = current;
            return false;
        }
    }

    /// Removes the key, and returns its value.
    std::optional<V> remove(const K &key)
    {
        map_detail::room<V> old;
        return old.if_found(sp_copy_map_remove(map_, &key, old.bytes));
    }

    std::size_t size() const { return sp_copy_map_len(map_); }

    /// Makes room for so many more pairs. Throws `std::bad_alloc`.
    void reserve(std::size_t additional) { map_detail::check(sp_copy_map_reserve(map_, additional)); }

    /// Calls `f(key, value)` for each pair, until it returns `false`.
    template <class F>
    void for_each(F f) const
    {
        const auto each = [](const void *key, const void *value, void *argument) noexcept {
            map_detail::room<K> k;
            map_detail::room<V> v;
            std::memcpy(k.bytes, key, sizeof(K));
            std::memcpy(v.bytes, value, sizeof(V));
            return map_detail::visit<F>(argument, *k.if_found(1), *v.if_found(1));
        };
        static_cast<void>(sp_copy_map_for_each(map_, each, std::addressof(f)));
    }

private:
    sp_copy_map *map_ = nullptr;
};

/// A map of structures by their member `Member`. It does not own them.
template <auto Member, class Hash = std::hash<typename map_detail::member<decltype(Member)>::key>, class Equal = std::equal_to<>>
class hash_map {
public:
    using object_type = typename map_detail::member<decltype(Member)>::object;
    using key_type = typename map_detail::member<decltype(Member)>::key;

    hash_map()
    {
        const auto hash = [](const void *key) noexcept -> std::uint64_t { return Hash{}(*static_cast<const key_type *>(key)); };
        const auto equal = [](const void *key, const void *other) noexcept -> int {
            return Equal{}(*static_cast<const key_type *>(key), *static_cast<const key_type *>(other));
        };
        map_detail::check(sp_hash_map_create(&map_, offset(), hash, equal));
    }

    hash_map(hash_map &&other) noexcept : map_(std::exchange(other.map_, nullptr)) {}
    hash_map &operator=(hash_map &&other) noexcept
    {
        std::swap(map_, other.map_);
        return *this;
    }
    ~hash_map() { static_cast<void>(sp_hash_map_destroy(map_, nullptr)); }

    /// Returns the structure with the key, which is there until the section ends.
    object_type *get(const key_type &key) const { return static_cast<object_type *>(sp_hash_map_get(map_, &key)); }

    /// Inserts a structure, and returns the one that it replaces: to be retired.
    object_type *insert(object_type *object) { return static_cast<object_type *>(sp_hash_map_insert(map_, object)); }

    /// Inserts a structure, or returns the one that there is with its key.
    object_type *get_or_insert(object_type *object)
    {
        return static_cast<object_type *>(sp_hash_map_get_or_insert(map_, object));
    }

    /// Removes the structure with the key, and returns it: to be retired.
    object_type *remove(const key_type &key) { return static_cast<object_type *>(sp_hash_map_remove(map_, &key)); }

    std::size_t size() const { return sp_hash_map_len(map_); }

    /// Calls `f(object)`, with a reference to each structure, until it returns `false`.
    template <class F>
    void for_each(F f) const
    {
        const auto each = [](void *object, void *argument) noexcept {
            return map_detail::visit<F>(argument, *static_cast<object_type *>(object));
        };
        static_cast<void>(sp_hash_map_for_each(map_, each, std::addressof(f)));
    }

private:
    /// Where the member is in a structure.
    static std::size_t offset() noexcept
    {
        alignas(object_type) unsigned char bytes[sizeof(object_type)];
        const object_type *object = reinterpret_cast<const object_type *>(bytes);
        return static_cast<std::size_t>(reinterpret_cast<const unsigned char *>(std::addressof(object->*Member)) - bytes);
    }

    sp_hash_map *map_ = nullptr;
};

} // namespace stillpoint

#endif // C++17

#endif
