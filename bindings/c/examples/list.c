/* A list that is searched without locks. Removed nodes are freed by a callback, for which nothing is allocated. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <stillpoint/list.h>

struct node {
    int key;
    struct sp_list link;
    struct sp_rcu_head head;
};

static struct sp_list list = SP_LIST_INIT(list);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of writers */
static unsigned freed;

static void free_node(struct sp_rcu_head *head)
{
    __atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
    free(sp_container_of(head, struct node, head));
}

static int add(int key)
{
    struct node *node = malloc(sizeof *node);
    if (!node)
        return -1;
    pthread_mutex_lock(&lock);
    node->key = key;
    sp_list_add(&node->link, &list);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int remove_key(int key)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    sp_list_for_each_entry(node, &list, struct node, link) {
        if (node->key == key) {
            sp_list_del(&node->link);
            found = sp_call_rcu_head(&node->head, free_node) == 0;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int contains(int key)
{
    int found = 0;
    sp_rcu_read_lock();
    sp_list_for_each_entry(node, &list, struct node, link)
        found |= node->key == key;
    sp_rcu_read_unlock();
    return found;
}

static void *search(void *unused)
{
    long found = 0;
    (void)unused;
    for (int round = 0; round < 2000; round++)
        found += contains(round % 16);
    return (void *)found;
}

int main(void)
{
    pthread_t searcher;
    unsigned removed = 0;
    for (int key = 0; key < 16; key++)
        if (add(key) != 0)
            return 1;
    if (pthread_create(&searcher, NULL, search, NULL) != 0)
        return 1;
    for (int round = 0; round < 1000; round++) {
        removed += (unsigned)remove_key(round % 16);
        if (add(round % 16) != 0)
            return 1;
    }
    pthread_join(searcher, NULL);
    for (int key = 0; key < 16; key++)
        removed += (unsigned)remove_key(key);
    sp_rcu_barrier();
    printf("%u nodes removed, %u freed\n", removed, freed);
    return !(removed == 1016 && freed == removed && sp_list_is_empty(&list));
}
