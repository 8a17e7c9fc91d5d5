/*
 * The C side of the liburcu peer: its readers are inline functions of its headers, so the measured loops are here.
 * They have the shape of the loops in src/peers/mod.rs.
 */
#define _GNU_SOURCE
#include <stdint.h>

/* Both: the second, meant for programs under any licence, inlines pointer accesses but not yet the readers. */
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>

/* The Rust side has its own declarations of these. */
_Static_assert(sizeof(struct rcu_head) == 2 * sizeof(void *), "struct rcu_head is not a link and a function");
_Static_assert(URCU_CALL_RCU_RT == 1, "the flag of polling workers is not 1");

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
