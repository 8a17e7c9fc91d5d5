/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef STILLPOINT_LIST_H
#define STILLPOINT_LIST_H

/*#
# Lists that readers follow

`stillpoint/list.h` has doubly linked lists whose links are members of the program's structures. Readers walk them
inside read-side critical sections (`sp_rcu_read_lock`), or online in the qsbr domain. Writers exclude each other, by
a mutex. What a writer removes it frees after a grace period: readers may be at it, and find their way from there.

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

A list has two ends, and its head takes two words. */

/** The head of a list, or the link of an element. */
struct sp_list {
    struct sp_list *next;
    struct sp_list *previous;
};

/** The initializer of the head `head`, which is empty. */
#define SP_LIST_INIT(head) {&(head), &(head)}

/** Makes `head` an empty list. Not while readers walk it. */
static inline void sp_list_init(struct sp_list *head)
{
    head->next = head;
    head->previous = head;
}

/* The link is whole before readers find it. */
static inline void sp_list_add_between_(struct sp_list *link, struct sp_list *previous, struct sp_list *next)
{
    link->next = next;
    link->previous = previous;
    sp_rcu_assign_pointer(previous->next, link);
    next->previous = link;
}

/** Inserts `link` behind `place`: at the front, if that is the head. */
static inline void sp_list_add(struct sp_list *link, struct sp_list *place)
{
    sp_list_add_between_(link, place, place->next);
}

/** Inserts `link` before `place`: at the end, if that is the head. */
static inline void sp_list_add_before(struct sp_list *link, struct sp_list *place)
{
    sp_list_add_between_(link, place->previous, place);
}

/** Removes `link`. Readers that are there go on. It may be inserted again after a grace period. */
static inline void sp_list_del(struct sp_list *link)
{
    struct sp_list *next = link->next;
    next->previous = link->previous;
    /* Release: a reader that skips `link` sees the next one whole. */
    sp_rcu_assign_pointer(link->previous->next, next);
}

/** Puts `fresh` in the place of `old`. Readers find one of them. */
static inline void sp_list_replace(struct sp_list *old, struct sp_list *fresh)
{
    sp_list_add_between_(fresh, old->previous, old->next);
}

/** Returns 1 if the list is empty. */
static inline int sp_list_is_empty(const struct sp_list *head)
{
    return sp_rcu_dereference(head->next) == head;
}

/** Does what follows with `link`, a variable of type `struct sp_list *`, for each element of the list. A writer that
removes and retires elements on the way walks inside a section, too. */
#define sp_list_for_each(link, head)                                  \
    for (struct sp_list *SP_END_ = ((link) = sp_list_head_((head)));  \
         ((link) = sp_rcu_dereference((link)->next)) != SP_END_;)

/** Does what follows with `entry`, which it declares, for each element, of type `type` with the link `member`. */
#define sp_list_for_each_entry(entry, head, type, member)                                         \
    for (struct sp_list *SP_END_ = sp_list_head_((head)); SP_END_; SP_END_ = SP_NULL_)            \
        for (type *entry = sp_container_of(sp_rcu_dereference(SP_END_->next), type, member);      \
             &entry->member != SP_END_;                                                           \
             entry = sp_container_of(sp_rcu_dereference(entry->member.next), type, member))

/* The head, which is evaluated once, under a name of the line. */
#define SP_END_ SP_JOIN_(sp_end_, __LINE__)
#define SP_JOIN_(name, line) SP_JOIN_EXPANDED_(name, line)
#define SP_JOIN_EXPANDED_(name, line) name##line

static inline struct sp_list *sp_list_head_(const struct sp_list *head)
{
    return SP_CAST_(struct sp_list *, SP_CAST_(uintptr_t, head));
}

/*# ## Lists of hash tables

A list whose head takes one word. */

/** The link of an element. */
struct sp_hlist {
    struct sp_hlist *next;
    struct sp_hlist **place;
};

/** The head of such a list. All zero, it is empty. */
struct sp_hlist_head {
    struct sp_hlist *first;
};

/** Inserts `link` at the front. */
static inline void sp_hlist_add(struct sp_hlist *link, struct sp_hlist_head *head)
{
    struct sp_hlist *next = head->first;
    link->next = next;
    link->place = &head->first;
    if (next)
        next->place = &link->next;
    sp_rcu_assign_pointer(head->first, link);
}

/** Removes `link`. Readers that are there go on. It may be inserted again after a grace period. */
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

/** Does what follows with `link`, a variable of type `struct sp_hlist *`, for each element of the list. */
#define sp_hlist_for_each(link, head) \
    for ((link) = sp_rcu_dereference((head)->first); (link); (link) = sp_rcu_dereference((link)->next))

/** Does what follows with `entry`, which it declares, for each element, of type `type` with the link `member`. */
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
