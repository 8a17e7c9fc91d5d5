// peers [COUNT CELL]: stillpoint beside other libraries, from C and C++, in one thread. Without arguments, prints the
// times as ratios to the first of each group: medians of interleaved rounds. With them, does COUNT operations of one
// cell: for callgrind. `ci/capi.sh peers` makes the table. Needs liburcu-dev and libck-dev.

#define _LGPL_SOURCE
#include <urcu/urcu-memb.h>
#include <urcu/rculfhash.h>
extern "C" {
#include <ck_epoch.h>
#include <ck_ht.h>
#include <ck_spinlock.h>
}
#include <stillpoint/lock.h>
#include <stillpoint/map.h>

#include "check.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace {

using Count = std::uint64_t;
constexpr Count KEYS = 1000;

struct Object {
    Count key, value;
    cds_lfht_node node;
};
Object objects[KEYS];
// What sections load. Not static.
Count *volatile pointer = &objects[0].value;

std::uint64_t hash_bytes(const void *key, std::size_t) { return *static_cast<const Count *>(key); }
std::uint64_t hash_key(const void *key) { return *static_cast<const Count *>(key); }
int same_key(const void *key, const void *other) { return hash_key(key) == hash_key(other); }
int is_node(cds_lfht_node *node, const void *key) { return caa_container_of(node, Object, node)->key == hash_key(key); }
void hash_direct(ck_ht_hash_t *hash, const void *key, std::size_t, std::uint64_t) { hash->value = hash_key(key); }
void *allocate(std::size_t size) { return std::malloc(size); }
void deallocate(void *block, std::size_t, bool) { std::free(block); }
ck_malloc allocator = {allocate, nullptr, deallocate};

sp_copy_map *pairs;
sp_hash_map *structures;
cds_lfht *lfht;
ck_ht_t ht;
ck_epoch_t epoch;
ck_epoch_record_t record;
std::unordered_map<Count, Count> unordered;
std::shared_mutex shared;
std::mutex std_mutex;
sp_mutex mutex = SP_MUTEX_INIT;
sp_rwlock rwlock = SP_RWLOCK_INIT;
pthread_rwlock_t pthread_rwlock = PTHREAD_RWLOCK_INITIALIZER;
ck_spinlock_fas_t spinlock = CK_SPINLOCK_FAS_INITIALIZER;
sp_counter *counter;
std::atomic<Count> shared_count;

Count lookup_ck(Count key)
{
    ck_ht_hash_t hash;
    ck_ht_entry_t entry;
    ck_ht_hash_direct(&hash, &ht, key + 1);
    ck_ht_entry_key_set_direct(&entry, key + 1);
    return ck_ht_get_spmc(&ht, hash, &entry) ? ck_ht_entry_value_direct(&entry) : 0;
}

Count lookup_lfht(Count key)
{
    cds_lfht_iter iter;
    cds_lfht_lookup(lfht, key, is_node, &key, &iter);
    cds_lfht_node *node = cds_lfht_iter_get_node(&iter);
    return node ? caa_container_of(node, Object, node)->value : 0;
}

struct Cell {
    const char *group, *name;
    Count (*run)(Count);
};

// A function that does `count` operations, each of which adds 1 to `sum`; `key` is one of the keys.
#define CELL(group, name, ...)                          \
    {                                                   \
        group, name, [](Count count) {                  \
            Count sum = 0;                              \
            for (Count i = 0; i < count; ++i) {         \
                Count key = i % KEYS;                   \
                static_cast<void>(key);                 \
                __VA_ARGS__                             \
            }                                           \
            return sum;                                 \
        }                                               \
    }

const Cell cells[] = {
    CELL("section", "stillpoint", sp_rcu_read_lock(); sum += *pointer; sp_rcu_read_unlock();),
    CELL("section", "liburcu memb", urcu_memb_read_lock(); sum += *pointer; urcu_memb_read_unlock();),
    CELL("section", "ck_epoch", ck_epoch_begin(&record, nullptr); sum += *pointer; ck_epoch_end(&record, nullptr);),
    CELL("lookup", "sp_copy_map", Count value = 0; sp_copy_map_get(pairs, &key, &value); sum += value;),
    CELL("lookup", "sp_hash_map", sp_rcu_read_lock();
         sum += static_cast<Object *>(sp_hash_map_get(structures, &key))->value; sp_rcu_read_unlock();),
    CELL("lookup", "cds_lfht", urcu_memb_read_lock(); sum += lookup_lfht(key); urcu_memb_read_unlock();),
    CELL("lookup", "ck_ht, ck_epoch", ck_epoch_begin(&record, nullptr); sum += lookup_ck(key);
         ck_epoch_end(&record, nullptr);),
    CELL("lookup", "std::unordered_map, std::shared_mutex", std::shared_lock<std::shared_mutex> read(shared);
         sum += unordered.find(key)->second;),
    CELL("lock", "sp_mutex", sp_mutex_lock(&mutex); sum += *pointer; sp_mutex_unlock(&mutex);),
    CELL("lock", "std::mutex (pthread_mutex)", std_mutex.lock(); sum += *pointer; std_mutex.unlock();),
    CELL("lock", "ck_spinlock_fas", ck_spinlock_fas_lock(&spinlock); sum += *pointer; ck_spinlock_fas_unlock(&spinlock);),
    CELL("read lock", "sp_rwlock", sp_rwlock_rdlock(&rwlock); sum += *pointer; sp_rwlock_rdunlock(&rwlock);),
    CELL("read lock", "pthread_rwlock", pthread_rwlock_rdlock(&pthread_rwlock); sum += *pointer;
         pthread_rwlock_unlock(&pthread_rwlock);),
    CELL("add", "sp_counter", sp_counter_add(counter, 1); sum += *pointer;),
    CELL("add", "std::atomic", shared_count.fetch_add(1, std::memory_order_relaxed); sum += *pointer;),
};

void prepare()
{
    urcu_memb_register_thread();
    ck_epoch_init(&epoch);
    ck_epoch_register(&epoch, &record, nullptr);
    CHECK(sp_rcu_register_thread() == 0 && sp_copy_map_create(&pairs, 8, 8, hash_bytes) == 0);
    CHECK(sp_hash_map_create(&structures, offsetof(Object, key), hash_key, same_key) == 0);
    CHECK(sp_counter_create(&counter) == 0);
    lfht = cds_lfht_new_flavor(1024, 1024, 0, CDS_LFHT_AUTO_RESIZE, &urcu_memb_flavor, nullptr);
    CHECK(lfht && ck_ht_init(&ht, CK_HT_MODE_DIRECT, hash_direct, &allocator, 2048, 1));
    for (Count key = 0; key < KEYS; ++key) {
        Object &object = objects[key];
        object.key = key;
        object.value = 1;
        sp_copy_map_insert(pairs, &key, &object.value, nullptr);
        CHECK(!sp_hash_map_insert(structures, &object));
        urcu_memb_read_lock();
        cds_lfht_add(lfht, key, &object.node);
        urcu_memb_read_unlock();
        // No key is 0 there.
        ck_ht_hash_t hash;
        ck_ht_entry_t entry;
        ck_ht_hash_direct(&hash, &ht, key + 1);
        ck_ht_entry_set_direct(&entry, hash, key + 1, 1);
        CHECK(ck_ht_put_spmc(&ht, hash, &entry));
        unordered[key] = 1;
    }
}

double seconds(const Cell &cell, Count count)
{
    const auto begin = std::chrono::steady_clock::now();
    CHECK(cell.run(count) == count);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

int main(int argc, char **argv)
{
    constexpr std::size_t CELLS = sizeof cells / sizeof *cells, ROUNDS = 101;
    prepare();
    if (argc == 3)
        return seconds(cells[std::strtoul(argv[2], nullptr, 10)], std::strtoul(argv[1], nullptr, 10)) < 0;
    std::vector<double> times[CELLS];
    for (std::size_t round = 0; round < ROUNDS; ++round)
        for (std::size_t cell = 0; cell < CELLS; ++cell)
            times[cell].push_back(seconds(cells[cell], 20000));
    double first = 0;
    for (std::size_t cell = 0; cell < CELLS; ++cell) {
        std::sort(times[cell].begin(), times[cell].end());
        const double median = times[cell][ROUNDS / 2];
        if (cell == 0 || strcmp(cells[cell].group, cells[cell - 1].group) != 0)
            first = median;
        std::printf("%zu;%s;%s;%.2f\n", cell, cells[cell].group, cells[cell].name, median / first);
    }
    return 0;
}
