/* The lists: what each function does, and readers that walk beside a writer find each element that stays. */

#include "check.h"

#include <stillpoint/list.h>

struct node {
    int key;
    struct sp_list link;
    struct sp_hlist hash_link;
    struct sp_rcu_head head;
};

static struct sp_list list = SP_LIST_INIT(list);
static struct sp_hlist_head hash_list;
static int stop;

static struct node *make(int key)
{
    struct node *node = calloc(1, sizeof *node);
    CHECK(node);
    node->key = key;
    return node;
}

static void free_node(struct sp_rcu_head *head)
{
    struct node *node = sp_container_of(head, struct node, head);
    node->key = -1;
    free(node);
}

/* Checks that the list has the keys. */
static void has(int count, const int *keys)
{
    int found = 0;
    struct sp_list *link;
    sp_list_for_each_entry(node, &list, struct node, link)
        CHECK(found < count && node->key == keys[found++]);
    CHECK(found == count);
    for (link = list.previous; link != &list; link = link->previous)
        CHECK(sp_container_of(link, struct node, link)->key == keys[--found]);
    CHECK(found == 0 && sp_list_is_empty(&list) == (count == 0));
}

static void functions(void)
{
    struct node *nodes[4];
    struct sp_list *link;
    struct sp_hlist *hash_link;
    int sum = 0;
    for (int key = 0; key < 4; key++)
        nodes[key] = make(key);
    has(0, NULL);
    sp_list_add(&nodes[1]->link, &list);
    sp_list_add(&nodes[0]->link, &list);
    sp_list_add_before(&nodes[3]->link, &list);
    sp_list_add(&nodes[2]->link, &nodes[1]->link);
    has(4, (int[]){0, 1, 2, 3});
    sp_list_del(&nodes[1]->link);
    sp_list_replace(&nodes[0]->link, &nodes[1]->link);
    has(3, (int[]){1, 2, 3});
    sp_list_for_each(link, &list)
        sum += sp_container_of(link, struct node, link)->key;
    CHECK(sum == 6);
    for (int key = 1; key < 4; key++)
        sp_list_del(&nodes[key]->link);
    has(0, NULL);

    CHECK(sp_hlist_is_empty(&hash_list));
    for (int key = 0; key < 4; key++)
        sp_hlist_add(&nodes[key]->hash_link, &hash_list);
    sp_hlist_del(&nodes[3]->hash_link); /* the first */
    sp_hlist_del(&nodes[1]->hash_link); /* in the middle */
    sp_hlist_del(&nodes[0]->hash_link); /* the last */
    sp_hlist_for_each(hash_link, &hash_list)
        CHECK(sp_container_of(hash_link, struct node, hash_link) == nodes[2]);
    sp_hlist_add(&nodes[0]->hash_link, &hash_list);
    sum = 0;
    sp_hlist_for_each_entry(node, &hash_list, struct node, hash_link)
        sum = 10 * sum + node->key + 1;
    CHECK(sum == 13);
    sp_hlist_del(&nodes[2]->hash_link);
    sp_hlist_del(&nodes[0]->hash_link);
    CHECK(sp_hlist_is_empty(&hash_list));
    for (int key = 0; key < 4; key++)
        free(nodes[key]);
}

/* The elements with even keys stay. */
static void *walk(void *unused)
{
    long walks = 0;
    while (!load(&stop)) {
        int even = 0, even_hashed = 0, last = -1;
        CHECK(sp_rcu_read_lock() == 0);
        sp_list_for_each_entry(node, &list, struct node, link) {
            CHECK(node->key > last);
            last = node->key;
            even += node->key % 2 == 0;
        }
        sp_hlist_for_each_entry(node, &hash_list, struct node, hash_link)
            even_hashed += node->key % 2 == 0;
        CHECK(sp_rcu_read_unlock() == 0);
        CHECK(even == 8 && even_hashed == 8);
        walks++;
    }
    return (void *)walks;
}

int main(void)
{
    struct node *nodes[16];
    pthread_t threads[2];
    alarm(280);
    functions();
    for (int key = 0; key < 16; key++) {
        nodes[key] = make(key);
        sp_list_add_before(&nodes[key]->link, &list);
        sp_hlist_add(&nodes[key]->hash_link, &hash_list);
    }
    for (int i = 0; i < 2; i++)
        threads[i] = start(walk, NULL);
    for (int round = 0; round < 3000; round++) {
        int key = 2 * (round % 8) + 1;
        struct node *old = nodes[key];
        sp_hlist_del(&old->hash_link);
        if (round % 3 == 0) {
            sp_list_del(&old->link);
            nodes[key] = make(key);
            sp_list_add(&nodes[key]->link, &nodes[key - 1]->link);
        } else {
            nodes[key] = make(key);
            sp_list_replace(&old->link, &nodes[key]->link);
        }
        sp_hlist_add(&nodes[key]->hash_link, &hash_list);
        CHECK(sp_call_rcu_head(&old->head, free_node) == 0);
    }
    set(&stop, 1);
    for (int i = 0; i < 2; i++)
        join(threads[i]);
    CHECK(sp_rcu_barrier() == 0);
    for (int key = 0; key < 16; key++)
        free(nodes[key]);
    return 0;
}
