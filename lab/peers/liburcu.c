/*
 * The C side of the liburcu peer: its readers are inline functions of its headers, so the measured loops are here.
 * They have the shape of the loops in src/peers/mod.rs.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

/*
 * Every syscall(2) of liburcu comes here: those of the library through its renamed symbol (build.rs), those of its
 * inline functions through this macro.
 */
long lab_urcu_syscall(long number, ...);
#define syscall lab_urcu_syscall

/* Both: the second, meant for programs under any licence, inlines pointer accesses but not yet the readers. */
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>

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
