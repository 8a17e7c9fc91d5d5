/* lookup COUNT pairs|structures: looks up so many keys, of 1,000 in the map. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stillpoint/map.h>

struct object {
    uint64_t key, value;
};

static uint64_t hash_number(const void *key)
{
    return *(const uint64_t *)key;
}

static int same_number(const void *key, const void *other)
{
    return *(const uint64_t *)key == *(const uint64_t *)other;
}

static uint64_t hash_bytes(const void *key, size_t size)
{
    return *(const uint64_t *)key;
}

int main(int argc, char **argv)
{
    enum { KEYS = 1000 };
    static struct object objects[KEYS];
    uint64_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, found = 0;
    struct sp_copy_map *pairs;
    struct sp_hash_map *map;
    if (sp_rcu_register_thread() != 0 || sp_copy_map_create(&pairs, 8, 8, hash_bytes) != 0 ||
        sp_hash_map_create(&map, offsetof(struct object, key), hash_number, same_number) != 0)
        return 1;
    for (uint64_t key = 0; key < KEYS; key++) {
        objects[key] = (struct object){key, 1};
        sp_hash_map_insert(map, &objects[key]);
        sp_copy_map_insert(pairs, &key, &objects[key].value, NULL);
    }
    /* The instructions of the library's threads are not counted, as they have nothing left to do. */
    if (sp_rcu_barrier() != 0)
        return 1;
    if (argc > 2 && strcmp(argv[2], "structures") == 0) {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t key = i % KEYS;
            sp_rcu_read_lock();
            const struct object *object = sp_hash_map_get(map, &key);
            found += object ? object->value : 0;
            sp_rcu_read_unlock();
        }
    } else {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t key = i % KEYS, value = 0;
            sp_copy_map_get(pairs, &key, &value);
            found += value;
        }
    }
    printf("%lu found\n", (unsigned long)found);
    return found != count;
}
