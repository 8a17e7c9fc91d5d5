/*
 * The C side of the liburcu-qsbr peer: what its readers do are inline functions of its headers, so the measured loops are
 * here. They have the shape of the loops in src/peers/mod.rs.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in liburcu.c, which counts. */
long lab_urcu_syscall(long number, ...);
#define syscall lab_urcu_syscall

#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <urcu/urcu-qsbr.h>

#undef syscall

void lab_qsbr_register(void)
{
	urcu_qsbr_register_thread();
}

void lab_qsbr_unregister(void)
{
	urcu_qsbr_unregister_thread();
}

void lab_qsbr_synchronize(void)
{
	urcu_qsbr_synchronize_rcu();
}

void lab_qsbr_report(void)
{
	urcu_qsbr_quiescent_state();
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
