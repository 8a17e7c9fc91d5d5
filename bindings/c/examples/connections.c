/* A table of connections: threads find them by address without locks, beside one that opens and closes them. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stillpoint/map.h>

struct address {
    uint32_t ip;
    uint16_t port, reserved; /* no padding */
};

struct connection {
    struct address peer; /* the key */
    struct sp_rcu_head head;
};

static struct sp_hash_map *connections;
static struct sp_counter *packets, *unknown; /* of all threads */
static int stop;

static uint64_t hash_address(const void *key)
{
    const struct address *address = key;
    return (uint64_t)address->ip << 16 | address->port;
}

static int same_address(const void *key, const void *other)
{
    return memcmp(key, other, sizeof(struct address)) == 0;
}

static void free_connection(struct sp_rcu_head *head)
{
    free(sp_container_of(head, struct connection, head));
}

static void *receive(void *unused)
{
    (void)unused;
    for (uint32_t ip = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ip = (ip + 1) % 64) {
        struct address from = {.ip = ip, .port = 80};
        sp_rcu_read_lock();
        struct connection *connection = sp_hash_map_get(connections, &from);
        sp_counter_add(connection && connection->peer.ip == ip ? packets : unknown, 1);
        sp_rcu_read_unlock();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    if (sp_hash_map_create(&connections, offsetof(struct connection, peer), hash_address, same_address) != 0 ||
        sp_counter_create(&packets) != 0 || sp_counter_create(&unknown) != 0)
        return 1;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, receive, NULL) != 0)
            return 1;
    for (uint32_t round = 0; round < 10000 || sp_counter_sum(packets) == 0; round++) {
        struct connection *connection = calloc(1, sizeof *connection);
        if (!connection)
            return 1;
        connection->peer = (struct address){.ip = round % 64, .port = 80};
        struct connection *old = sp_hash_map_insert(connections, connection);
        if (!old && round % 2)
            old = sp_hash_map_remove(connections, &connection->peer);
        if (old)
            sp_call_rcu_head(&old->head, free_connection);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lu packets of connections, %lu of others, %zu connections\n", (unsigned long)sp_counter_sum(packets),
           (unsigned long)sp_counter_sum(unknown), sp_hash_map_len(connections));
    sp_barrier(sp_rcu_domain());
    sp_hash_map_destroy(connections, free); /* no reader is left */
    sp_counter_destroy(packets);
    sp_counter_destroy(unknown);
    return 0;
}
