/*
 * The C side of the liburcu peer: its readers are inline functions of its headers, so the measured loops are here.
 * They have the shape of the loops in src/peers/mod.rs.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

/*
 * Every syscall(2) of liburcu comes here: calls of the library through its renamed symbol (build.rs), calls of its
 * inline functions through this macro.
 */
long lab_urcu_syscall(long number, ...);
#define syscall lab_urcu_syscall

/* Both: the second, meant for programs under any licence, inlines pointer accesses but not yet the readers. */
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>
#include <urcu/rculfhash.h>

#undef syscall

/* The Rust side has its own declarations of these. */
_Static_assert(sizeof(struct rcu_head) == 2 * sizeof(void *), "struct rcu_head is not a link and a function");
_Static_assert(URCU_CALL_RCU_RT == 1, "the flag of polling workers is not 1");

/* What liburcu asked of the kernel, and the grace periods it drove. */
struct lab_urcu_counters {
	uint64_t grace_periods;
	uint64_t membarriers;
	uint64_t wakes;
};
static struct lab_urcu_counters counters;
/* Calls of membarrier by this thread: only the leader of a grace period makes any. */
static __thread uint64_t my_membarriers;

long lab_urcu_syscall(long number, ...)
{
	va_list list;
	long a[6];

	/* Six words whatever the call takes, as the C library's syscall() does. */
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);

	if (number == SYS_membarrier) {
		my_membarriers++;
		__atomic_fetch_add(&counters.membarriers, 1, __ATOMIC_RELAXED);
	} else if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE) {
		__atomic_fetch_add(&counters.wakes, 1, __ATOMIC_RELAXED);
	}
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

struct lab_urcu_counters lab_urcu_counters(void)
{
	struct lab_urcu_counters now = {
		.grace_periods = __atomic_load_n(&counters.grace_periods, __ATOMIC_RELAXED),
		.membarriers = __atomic_load_n(&counters.membarriers, __ATOMIC_RELAXED),
		.wakes = __atomic_load_n(&counters.wakes, __ATOMIC_RELAXED),
	};
	return now;
}

/*
 * A call either leads exactly one grace period, and then issues its barriers, or waits for a leader and issues none.
 * With no thread registered there is nothing to wait for, and no call counts.
 */
void lab_urcu_synchronize(void)
{
	uint64_t before = my_membarriers;

	urcu_memb_synchronize_rcu();
	if (my_membarriers != before)
		__atomic_fetch_add(&counters.grace_periods, 1, __ATOMIC_RELAXED);
}

void lab_urcu_enter(void)
{
	urcu_memb_read_lock();
}

void lab_urcu_exit(void)
{
	urcu_memb_read_unlock();
}

uint64_t lab_urcu_read(uint64_t *const *slot, uint32_t pairs)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < pairs; i++) {
		urcu_memb_read_lock();
		sum += *rcu_dereference(*slot);
		urcu_memb_read_unlock();
	}
	return sum;
}

uint64_t lab_urcu_read_nested(uint64_t *const *slot, uint32_t pairs)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < pairs; i++) {
		urcu_memb_read_lock();
		urcu_memb_read_lock();
		sum += *rcu_dereference(*slot);
		urcu_memb_read_unlock();
		urcu_memb_read_unlock();
	}
	return sum;
}

uint64_t lab_qsbr_read(uint64_t *const *slot, uint32_t reads)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < reads; i++) {
		urcu_qsbr_read_lock();
		sum += *rcu_dereference(*slot);
		urcu_qsbr_read_unlock();
	}
	return sum;
}

uint64_t lab_qsbr_quiescent(uint32_t reports)
{
	for (uint32_t i = 0; i < reports; i++)
		urcu_qsbr_quiescent_state();
	return reports;
}

/* A hash map of numbers, on cds_lfht. The numbers are beside the link that a lookup reads. */
struct entry {
	struct cds_lfht_node node;
	uint64_t key;
	uint64_t value;
	struct rcu_head head;
};

static int has_key(struct cds_lfht_node *node, const void *key)
{
	return caa_container_of(node, struct entry, node)->key == *(const uint64_t *)key;
}

static void free_entry(struct rcu_head *head)
{
	free(caa_container_of(head, struct entry, head));
}

struct cds_lfht *lab_lfht_new(unsigned long buckets)
{
	return cds_lfht_new_flavor(buckets, buckets, buckets, 0, &urcu_memb_flavor, NULL);
}

bool lab_lfht_get(struct cds_lfht *map, unsigned long hash, uint64_t key, uint64_t *value)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;

	urcu_memb_read_lock();
	cds_lfht_lookup(map, hash, has_key, &key, &iter);
	node = cds_lfht_iter_get_node(&iter);
	if (node)
		*value = caa_container_of(node, struct entry, node)->value;
	urcu_memb_read_unlock();
	return node != NULL;
}

bool lab_lfht_insert(struct cds_lfht *map, unsigned long hash, uint64_t key, uint64_t value)
{
	struct entry *new = malloc(sizeof(*new));
	struct cds_lfht_node *old;

	if (!new)
		return false;
	cds_lfht_node_init(&new->node);
	new->key = key;
	new->value = value;
	urcu_memb_read_lock();
	old = cds_lfht_add_replace(map, hash, has_key, &key, &new->node);
	if (old)
		urcu_memb_call_rcu(&caa_container_of(old, struct entry, node)->head, free_entry);
	urcu_memb_read_unlock();
	return true;
}

void lab_lfht_remove(struct cds_lfht *map, unsigned long hash, uint64_t key)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;

	urcu_memb_read_lock();
	cds_lfht_lookup(map, hash, has_key, &key, &iter);
	node = cds_lfht_iter_get_node(&iter);
	if (node && cds_lfht_del(map, node) == 0)
		urcu_memb_call_rcu(&caa_container_of(node, struct entry, node)->head, free_entry);
	urcu_memb_read_unlock();
}

/* Frees a map that no other thread uses. */
void lab_lfht_free(struct cds_lfht *map)
{
	struct cds_lfht_iter iter;
	struct entry *entry;

	urcu_memb_read_lock();
	cds_lfht_for_each_entry(map, &iter, entry, node) {
		if (cds_lfht_del(map, &entry->node) == 0)
			urcu_memb_call_rcu(&entry->head, free_entry);
	}
	urcu_memb_read_unlock();
	cds_lfht_destroy(map, NULL);
}
