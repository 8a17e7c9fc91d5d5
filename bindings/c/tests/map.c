/* Both maps: keys and values of each size; changes beside lookups; structures that are freed under readers. */

#include "check.h"

#include <stillpoint/map.h>

enum { KEYS = 64 };

static int stop;

/* The bytes of a key or a value, by its number. */
static void fill(unsigned char *bytes, size_t size, unsigned number)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(number * 31 + i * 7);
    bytes[0] = (unsigned char)number;
}

static uint64_t hash_bytes(const void *key, size_t size)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < size; i++)
        hash = 31 * hash + ((const unsigned char *)key)[i];
    return hash;
}

static int add_first(const void *key, const void *value, void *sum)
{
    *(unsigned *)sum += *(const unsigned char *)key;
    return 0;
}

static int stop_at_once(const void *key, const void *value, void *argument)
{
    return 42;
}

static void sizes(size_t key_size, size_t value_size, uint64_t (*hash)(const void *, size_t))
{
    unsigned char key[64], value[64], found[64];
    struct sp_copy_map *map;
    unsigned sum = 0;
    CHECK(sp_copy_map_create(&map, key_size, value_size, hash) == 0);
    CHECK(sp_copy_map_reserve(map, 100) == 0);
    for (unsigned i = 0; i < 100; i++) {
        fill(key, key_size, i);
        fill(value, sizeof value, i + 1);
        CHECK(sp_copy_map_get(map, key, found) == 0);
        CHECK(sp_copy_map_insert(map, key, value, found) == 0);
    }
    CHECK(sp_copy_map_len(map) == 100);
    for (unsigned i = 0; i < 100; i++) {
        fill(key, key_size, i);
        fill(value, sizeof value, i + 1);
        memset(found, 0xEE, sizeof found);
        CHECK(sp_copy_map_get(map, key, found) == 1 && sp_copy_map_get(map, key, NULL) == 1);
        CHECK(memcmp(found, value, value_size) == 0);
        CHECK(value_size == 64 || found[value_size] == 0xEE);
        fill(value, sizeof value, i + 2);
        CHECK(sp_copy_map_insert(map, key, value, found) == 1);
        CHECK(value_size == 0 || found[0] == (unsigned char)(i + 1));
    }
    if (value_size > 0) {
        fill(key, key_size, 7);
        fill(found, value_size, 1);
        CHECK(sp_copy_map_compare_exchange(map, key, NULL, value) == 0);
        CHECK(sp_copy_map_compare_exchange(map, key, found, value) == 0 && found[0] == 9);
        CHECK(sp_copy_map_compare_exchange(map, key, found, value) == 1);
    }
    CHECK(sp_copy_map_for_each(map, add_first, &sum) == 0 && sum == 99 * 100 / 2);
    CHECK(sp_copy_map_for_each(map, stop_at_once, NULL) == 42);
    for (unsigned i = 0; i < 100; i++) {
        fill(key, key_size, i);
        CHECK(sp_copy_map_remove(map, key, i % 2 ? found : NULL) == 1 && sp_copy_map_remove(map, key, NULL) == 0);
    }
    CHECK(sp_copy_map_len(map) == 0);
    sp_copy_map_destroy(map);
}

static void *look_up(void *map)
{
    while (!load(&stop)) {
        for (uint32_t key = 0; key < KEYS; key++) {
            uint64_t values[2] = {1, 0};
            if (sp_copy_map_get(map, &key, values))
                CHECK(values[0] == ~values[1]); /* never half of one and half of another */
        }
    }
    return NULL;
}

static void beside_lookups(void)
{
    struct sp_copy_map *map;
    CHECK(sp_copy_map_create(&map, sizeof(uint32_t), 2 * sizeof(uint64_t), NULL) == 0);
    set(&stop, 0);
    pthread_t thread = start(look_up, map);
    for (uint64_t round = 0; round < 100 * KEYS; round++) {
        uint32_t key = (uint32_t)round % KEYS;
        uint64_t values[2] = {round, ~round};
        if (round % 5 == 0)
            sp_copy_map_remove(map, &key, NULL);
        else
            sp_copy_map_insert(map, &key, values, NULL);
    }
    set(&stop, 1);
    join(thread);
    sp_copy_map_destroy(map);
}

struct connection {
    unsigned requests;
    char name[16];
    struct sp_rcu_head head;
};

static unsigned freed;

static uint64_t hash_name(const void *name)
{
    return hash_bytes(name, strlen(name));
}

static int same_name(const void *name, const void *other)
{
    return strcmp(name, other) == 0;
}

static struct connection *connect_to(unsigned number)
{
    struct connection *connection = malloc(sizeof *connection);
    CHECK(connection);
    connection->requests = number;
    snprintf(connection->name, sizeof connection->name, "peer %u", number);
    return connection;
}

static void free_connection(struct sp_rcu_head *head)
{
    struct connection *connection = sp_container_of(head, struct connection, head);
    connection->requests = UINT32_MAX;
    free(connection);
    __atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
}

static void *find(void *map)
{
    char name[16];
    while (!load(&stop)) {
        for (unsigned number = 0; number < KEYS; number++) {
            snprintf(name, sizeof name, "peer %u", number);
            CHECK(sp_rcu_read_lock() == 0);
            struct connection *found = sp_hash_map_get(map, name);
            CHECK(!found || (found->requests == number && strcmp(found->name, name) == 0));
            CHECK(sp_rcu_read_unlock() == 0);
        }
    }
    return NULL;
}

static int count_objects(void *object, void *count)
{
    CHECK(((struct connection *)object)->requests < KEYS);
    return ++*(unsigned *)count == KEYS / 2 ? 5 : 0;
}

static void retire_object(void *object)
{
    CHECK(sp_call_rcu_head(&((struct connection *)object)->head, free_connection) == 0);
}

static void structures(void)
{
    struct sp_hash_map *map;
    unsigned made = 0, count = 0;
    CHECK(sp_hash_map_create(&map, offsetof(struct connection, name), hash_name, same_name) == 0);
    CHECK(sp_rcu_read_lock() == 0);
    CHECK(!sp_hash_map_get(map, "nobody") && !sp_hash_map_remove(map, "nobody") && sp_hash_map_len(map) == 0);
    CHECK(sp_rcu_read_unlock() == 0);
    set(&stop, 0);
    pthread_t thread = start(find, map);
    for (unsigned round = 0; round < 60 * KEYS; round++) {
        struct connection *connection = connect_to(round % KEYS), *old;
        made++;
        switch (round / KEYS % 3) {
        case 0:
            if ((old = sp_hash_map_insert(map, connection)))
                retire_object(old);
            break;
        case 1:
            old = sp_hash_map_get_or_insert(map, connection);
            CHECK(old && old != connection && strcmp(old->name, connection->name) == 0);
            free_connection(&connection->head);
            break;
        default:
            CHECK((old = sp_hash_map_remove(map, connection->name)) && old != connection);
            retire_object(old);
            CHECK(!sp_hash_map_get_or_insert(map, connection));
        }
    }
    set(&stop, 1);
    join(thread);
    CHECK(sp_hash_map_len(map) == KEYS);
    CHECK(sp_hash_map_for_each(map, count_objects, &count) == 5 && count == KEYS / 2);
    CHECK(sp_hash_map_destroy(map, retire_object) == 0 && sp_hash_map_destroy(NULL, free) == 0);
    CHECK(sp_rcu_barrier() == 0);
    CHECK(freed == made);
}

int main(void)
{
    static const size_t key_sizes[] = {1, 3, 4, 8, 9, 16, 17, 64}, value_sizes[] = {0, 1, 4, 8, 16, 33, 64};
    alarm(280);
    for (size_t k = 0; k < sizeof key_sizes / sizeof *key_sizes; k++)
        for (size_t v = 0; v < sizeof value_sizes / sizeof *value_sizes; v++)
            sizes(key_sizes[k], value_sizes[v], v % 2 ? hash_bytes : NULL);
    sp_copy_map_destroy(NULL);
    beside_lookups();
    structures();
    return 0;
}
