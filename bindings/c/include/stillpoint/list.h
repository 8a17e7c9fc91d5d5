/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef STILLPOINT_LIST_H
#define STILLPOINT_LIST_H

/*#
# Lists that readers follow

`stillpoint/list.h` has doubly linked lists. The links are members of the program's structures. Readers take no lock:
they walk a list inside read-side critical sections (`sp_rcu_read_lock`), or as threads that are online in the qsbr
domain. One thread at a time changes a list: writers share a mutex. A reader may still be at an element that a writer
has removed, and goes on to the next one from there. So the element is freed after a grace period.

```c
struct route {
    int key;
    struct sp_list link;
    struct sp_rcu_head head;
};
static struct sp_list routes = SP_LIST_INIT(routes);

sp_list_add(&route->link, &routes);             // a writer

sp_rcu_read_lock();
sp_list_for_each_entry(route, &routes, struct route, link)
    if (route->key == key)
        use(route);
sp_rcu_read_unlock();

sp_list_del(&route->link);                      // a writer
sp_call_rcu_head(&route->head, free_route);
```
*/

#include "../stillpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/*# ## Lists

Elements are inserted at either end, or beside another one. The head of a list takes two words. */

/** The head of a list, or the link of an element. */
struct sp_list {
    struct sp_list *next;
    struct sp_list *previous;
};

/** The initializer of `head`, the head of an empty list. */
#define SP_LIST_INIT(head) {&(head), &(head)}

/** Makes `head` the head of an empty list. No reader may walk it meanwhile. */
static inline void sp_list_init(struct sp_list *head)
{
    head->next = head;
    head->previous = head;
}

/* `link` has both of its pointers before readers can find it. */
static inline void sp_list_add_between_(struct sp_list *link, struct sp_list *previous, struct sp_list *next)
{
    link->next = next;
    link->previous = previous;
    sp_rcu_assign_pointer(previous->next, link);
    next->previous = link;
}

/** Inserts `link` behind `place`, which is a link of the list; or its head, for the front of the list. */
static inline void sp_list_add(struct sp_list *link, struct sp_list *place)
{
    sp_list_add_between_(link, place, place->next);
}

/** Inserts `link` before `place`, which is a link of the list; or its head, for the end of the list. */
static inline void sp_list_add_before(struct sp_list *link, struct sp_list *place)
{
    sp_list_add_between_(link, place->previous, place);
}

/** Removes `link` from its list. Readers that are at its element can still go on to the next one: the element may be
freed, or inserted again, after a grace period. */
static inline void sp_list_del(struct sp_list *link)
{
    struct sp_list *next = link->next;
    next->previous = link->previous;
    /* Release: a reader that skips `link` sees the next one whole. */
    sp_rcu_assign_pointer(link->previous->next, next);
}

/** Replaces `old` by `fresh`: each reader finds one of the two. The element of `old` may be freed after a grace
period. */
static inline void sp_list_replace(struct sp_list *old, struct sp_list *fresh)
{
    sp_list_add_between_(fresh, old->previous, old->next);
}

/** Returns 1 if the list is empty. */
static inline int sp_list_is_empty(const struct sp_list *head)
{
    return sp_rcu_dereference(head->next) == head;
}

/** Repeats the statement that follows for each element of the list: `link`, a variable of type `struct sp_list *`, is
the address of its link. A writer that removes and retires elements in such a loop is inside a section, too: otherwise
an element might be freed before the loop goes on to the next one. */
#define sp_list_for_each(link, head)                                  \
    for (struct sp_list *SP_END_ = ((link) = sp_list_head_((head)));  \
         ((link) = sp_rcu_dereference((link)->next)) != SP_END_;)

/** The same with `entry`, which this declares as the address of the element. The elements are of type `type`, and
`member` is their link. */
#define sp_list_for_each_entry(entry, head, type, member)                                         \
    for (struct sp_list *SP_END_ = sp_list_head_((head)); SP_END_; SP_END_ = SP_NULL_)            \
        for (type *entry = sp_container_of(sp_rcu_dereference(SP_END_->next), type, member);      \
             &entry->member != SP_END_;                                                           \
             entry = sp_container_of(sp_rcu_dereference(entry->member.next), type, member))

/* The head, which is evaluated once. Its name ends with the number of the line, so that loops can be nested. */
#define SP_END_ SP_JOIN_(sp_end_, __LINE__)
#define SP_JOIN_(name, line) SP_JOIN_EXPANDED_(name, line)
#define SP_JOIN_EXPANDED_(name, line) name##line

static inline struct sp_list *sp_list_head_(const struct sp_list *head)
{
    return SP_CAST_(struct sp_list *, SP_CAST_(uintptr_t, head));
}

/*# ## Lists of hash tables

The buckets of a hash table are many lists with few elements: here the head of a list takes one word, and elements are
inserted at the front only. */

/** The link of an element. */
struct sp_hlist {
    struct sp_hlist *next;
    /** Where the pointer to this link is: in the link before, or in the head. */
    struct sp_hlist **place;
};

/** The head of such a list. If it is all zero, the list is empty. */
struct sp_hlist_head {
    struct sp_hlist *first;
};

/** Inserts `link` at the front of the list. */
static inline void sp_hlist_add(struct sp_hlist *link, struct sp_hlist_head *head)
{
    struct sp_hlist *next = head->first;
    link->next = next;
    link->place = &head->first;
    if (next)
        next->place = &link->next;
    sp_rcu_assign_pointer(head->first, link);
}

/** Removes `link` from its list, as `sp_list_del` does. */
static inline void sp_hlist_del(struct sp_hlist *link)
{
    struct sp_hlist *next = link->next;
    if (next)
        next->place = link->place;
    sp_rcu_assign_pointer(*link->place, next);
}

/** Returns 1 if the list is empty. */
static inline int sp_hlist_is_empty(const struct sp_hlist_head *head)
{
    return !sp_rcu_dereference(head->first);
}

/** Repeats the statement that follows for each element of the list, as `sp_list_for_each` does. `link` is a variable of
type `struct sp_hlist *`. */
#define sp_hlist_for_each(link, head) \
    for ((link) = sp_rcu_dereference((head)->first); (link); (link) = sp_rcu_dereference((link)->next))

/** The same with `entry`, as `sp_list_for_each_entry` does. */
#define sp_hlist_for_each_entry(entry, head, type, member)                                        \
    for (type *entry = SP_ENTRY_(sp_rcu_dereference((head)->first), type, member); entry;         \
         entry = SP_ENTRY_(sp_rcu_dereference(entry->member.next), type, member))

/* The structure at a link that may be null. */
#define SP_ENTRY_(link, type, member) SP_CAST_(type *, sp_entry_((link), offsetof(type, member)))

static inline void *sp_entry_(struct sp_hlist *link, size_t offset)
{
    return link ? SP_CAST_(char *, link) - offset : SP_NULL_;
}

#ifdef __cplusplus
}
#endif

#endif
