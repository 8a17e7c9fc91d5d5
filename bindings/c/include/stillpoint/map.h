/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef STILLPOINT_MAP_H
#define STILLPOINT_MAP_H

/*#
# Hash maps

`stillpoint/map.h` has two maps whose lookups write nothing that other threads use, and wait for no writer.

| map | contents | lookups |
|---|---|---|
| `sp_copy_map` | keys and values of at most 64 bytes, which lie in the table | return a copy; anywhere |
| `sp_hash_map` | the program's structures, which contain their keys | return the address, inside a section |

C++17 programs have `stillpoint/map.hpp`. The tables grow and shrink while they are used. Where there is no memory for
an entry, or to register the thread, the process aborts with a message. The functions do not block, except that a
change waits for another one in the same bucket, and for the limits of what may be retired (`sp_call`). Signal
handlers may look up, and must not change. */

#include "../stillpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/*# ## Maps of plain pairs

```c
struct sp_copy_map *users; // by the number of their session
if (sp_copy_map_create(&users, sizeof(uint64_t), sizeof(uint32_t), NULL) != 0)
    abort();
sp_copy_map_insert(users, &session, &user, NULL);
if (sp_copy_map_get(users, &session, &user))
    printf("%u\\n", user);
```

Keys are the same if their bytes are: structures with padding must be cleared first. In the table a key and a value
take 8 and 8 bytes, 16 and 8, 16 and 16, or 64 and 64: the first of these that suffices. */

/** A map of keys to values of fixed sizes. */
struct sp_copy_map;

struct sp_copy_map_functions_ {
    int (*get)(const struct sp_copy_map *map, const void *key, void *value);
    int (*insert)(struct sp_copy_map *map, const void *key, const void *value, void *old);
    int (*compare_exchange)(struct sp_copy_map *map, const void *key, void *expected, const void *value);
    int (*remove)(struct sp_copy_map *map, const void *key, void *old);
    size_t (*len)(const struct sp_copy_map *map);
    int (*for_each)(struct sp_copy_map *map, int (*visit)(const void *key, const void *value, void *argument),
                    void *argument);
    int (*reserve)(struct sp_copy_map *map, size_t additional);
    void (*destroy)(struct sp_copy_map *map);
};

struct sp_copy_map {
    const struct sp_copy_map_functions_ *functions_;
};

/** Creates an empty map for keys of `key_size` bytes and values of `value_size`: 64 at most. `hash` returns the hash
of a key, and its result need not be spread. Null stands for SipHash with random keys: the right one for keys that
others choose.

Returns `-EINVAL` for other sizes, `-ENOMEM` if there is no memory. */
int sp_copy_map_create(struct sp_copy_map **map, size_t key_size, size_t value_size,
                       uint64_t (*hash)(const void *key, size_t size));

/** Frees a map, which no other call uses any more. May be called with null. */
static inline void sp_copy_map_destroy(struct sp_copy_map *map)
{
    if (map)
        map->functions_->destroy(map);
}

/** Copies the value of the key to `value`, unless that is null. Returns 1 if there is one, else 0. */
static inline int sp_copy_map_get(const struct sp_copy_map *map, const void *key, void *value)
{
    int found;
    if (sp_rcu_read_lock() != 0)
        abort();
    found = map->functions_->get(map, key, value);
    (void)sp_rcu_read_unlock();
    SP_TSAN_ACQUIRE_(SP_CAST_(void *, SP_CAST_(uintptr_t, map)));
    return found;
}

/** Inserts a pair. Returns 1 if that replaces a value, which it copies to `old`, unless that is null; else 0. */
static inline int sp_copy_map_insert(struct sp_copy_map *map, const void *key, const void *value, void *old)
{
    int code;
    SP_TSAN_RELEASE_(map);
    code = map->functions_->insert(map, key, value, old);
    SP_TSAN_ACQUIRE_(map);
    return code;
}

/** Stores `value` if the key has the value `expected`, or no value if that is null. Returns 1 if it has. Otherwise
returns 0, and has copied the value, if there is one, to `expected`, unless that is null. */
static inline int sp_copy_map_compare_exchange(struct sp_copy_map *map, const void *key, void *expected,
                                               const void *value)
{
    int code;
    SP_TSAN_RELEASE_(map);
    code = map->functions_->compare_exchange(map, key, expected, value);
    SP_TSAN_ACQUIRE_(map);
    return code;
}

/** Removes the key. Returns 1 if it had a value, which it copies to `old`, unless that is null; else 0. */
static inline int sp_copy_map_remove(struct sp_copy_map *map, const void *key, void *old)
{
    int code;
    SP_TSAN_RELEASE_(map);
    code = map->functions_->remove(map, key, old);
    SP_TSAN_ACQUIRE_(map);
    return code;
}

/** Returns the number of pairs; a snapshot while other threads change the map. */
static inline size_t sp_copy_map_len(const struct sp_copy_map *map)
{
    return map->functions_->len(map);
}

/** Calls `visit` with a copy of each pair, until it returns another code than 0. Returns that, or 0. Pairs that other
threads insert or remove meanwhile may be visited or not. `visit` may change the map. */
static inline int sp_copy_map_for_each(struct sp_copy_map *map,
                                       int (*visit)(const void *key, const void *value, void *argument), void *argument)
{
    SP_TSAN_ACQUIRE_(map);
    return map->functions_->for_each(map, visit, argument);
}

/** Makes room for `additional` pairs. Returns `-ENOMEM` if there is no memory. */
static inline int sp_copy_map_reserve(struct sp_copy_map *map, size_t additional)
{
    int code = sp_rcu_register_thread();
    return code != 0 ? code : map->functions_->reserve(map, additional);
}

/*# ## Maps of structures

```c
struct connection {
    uint64_t id;
    struct sp_rcu_head head;
};

sp_hash_map_create(&connections, offsetof(struct connection, id), hash_id, equal_ids);
struct connection *old = sp_hash_map_insert(connections, connection);
if (old)
    sp_call_rcu_head(&old->head, free_connection);

sp_rcu_read_lock();
struct connection *connection = sp_hash_map_get(connections, &id);
if (connection)
    use(connection);
sp_rcu_read_unlock();
```

Keys do not change while their structures are in the map. What the functions return is the program's to free: a
structure that has been removed or replaced, after a grace period of the rcu domain. */

/** A map of structures by their keys. */
struct sp_hash_map;

int sp_hash_map_create_v1_(struct sp_hash_map **map, size_t offset, uint64_t (*hash)(const void *key),
                           int (*equal)(const void *key, const void *other), void (*found)(void *object));

#ifdef SP_TSAN_
/* From the insertion of a structure to the threads that find it. */
static inline void sp_tsan_found_(void *object)
{
    __tsan_acquire(object);
}
#else
#define sp_tsan_found_ SP_NULL_
#endif

/** Creates an empty map of structures that have their keys `offset` bytes behind their beginning. `hash` returns the
hash of a key, and its result need not be spread; `equal` another number than 0 if two keys are equal. Returns
`-ENOMEM` if there is no memory.

The functions are called inside a section, with the addresses of keys. They must not change the map. */
static inline int sp_hash_map_create(struct sp_hash_map **map, size_t offset, uint64_t (*hash)(const void *key),
                                     int (*equal)(const void *key, const void *other))
{
    return sp_hash_map_create_v1_(map, offset, hash, equal, sp_tsan_found_);
}

/** Calls `function`, if it is not null, with each structure in the map, and frees the map, which no other call uses
any more. `map` may be null. */
int sp_hash_map_destroy(struct sp_hash_map *map, void (*function)(void *object));

/** Returns the structure with the key, or null. Only inside a section of the rcu domain, to the end of which it is
there. */
void *sp_hash_map_get(const struct sp_hash_map *map, const void *key);

/** Inserts a structure, which is not in the map. Returns the one that it replaces, or null. */
void *sp_hash_map_insert(struct sp_hash_map *map, void *object);

/** Inserts a structure, which is not in the map, if there is none with its key, and returns null. Otherwise returns
the one that there is: only inside a section, to the end of which it is there. */
void *sp_hash_map_get_or_insert(struct sp_hash_map *map, void *object);

/** Removes the structure with the key. Returns it, or null. */
void *sp_hash_map_remove(struct sp_hash_map *map, const void *key);

/** Returns the number of structures; a snapshot while other threads change the map. */
size_t sp_hash_map_len(const struct sp_hash_map *map);

/** Calls `visit` with each structure, until it returns another code than 0. Returns that, or 0. Those that other
threads insert or remove meanwhile may be visited or not. `visit` may change the map. */
int sp_hash_map_for_each(const struct sp_hash_map *map, int (*visit)(void *object, void *argument), void *argument);

#ifdef SP_TSAN_
static inline void *sp_tsan_hash_map_insert_(struct sp_hash_map *map, void *object)
{
    void *old;
    int code = sp_rcu_read_lock();
    __tsan_release(object);
    old = sp_hash_map_insert(map, object);
    if (code == 0)
        sp_rcu_read_unlock();
    return old;
}

static inline void *sp_tsan_hash_map_get_or_insert_(struct sp_hash_map *map, void *object)
{
    __tsan_release(object);
    return sp_hash_map_get_or_insert(map, object);
}

static inline void *sp_tsan_hash_map_remove_(struct sp_hash_map *map, const void *key)
{
    void *old;
    int code = sp_rcu_read_lock();
    old = sp_hash_map_remove(map, key);
    if (code == 0)
        sp_rcu_read_unlock();
    return old;
}
#define sp_hash_map_remove sp_tsan_hash_map_remove_

struct sp_tsan_visit_ {
    int (*visit)(void *object, void *argument);
    void *argument;
};

static inline int sp_tsan_visit_object_(void *object, void *call)
{
    struct sp_tsan_visit_ *visit = SP_CAST_(struct sp_tsan_visit_ *, call);
    __tsan_acquire(object);
    return visit->visit(object, visit->argument);
}

static inline int sp_tsan_hash_map_for_each_(const struct sp_hash_map *map, int (*visit)(void *object, void *argument),
                                             void *argument)
{
    struct sp_tsan_visit_ call;
    int code = sp_rcu_read_lock(), result;
    call.visit = visit;
    call.argument = argument;
    result = sp_hash_map_for_each(map, sp_tsan_visit_object_, &call);
    if (code == 0)
        sp_rcu_read_unlock();
    return result;
}

#define sp_hash_map_insert sp_tsan_hash_map_insert_
#define sp_hash_map_get_or_insert sp_tsan_hash_map_get_or_insert_
#define sp_hash_map_for_each sp_tsan_hash_map_for_each_
#endif

#ifdef __cplusplus
}
#endif

#endif
