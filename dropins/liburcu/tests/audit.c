/* The oracle for programs that know nothing of it, preloaded into them. Two threads join the program as readers that
are inside sections nearly all of the time. A clock for each is odd inside. Each grace period that the program asks
for compares the clocks before and after: one that is odd and has not changed belongs to a section that the grace
period did not wait for. The program's own readers are watched as well if they call functions; some of their sections
are made longer.

AUDIT_LIBRARIES: the folder of the libraries that the program must run on.
AUDIT_FILE: a file of 24 bytes that gets the grace periods, those that found readers inside, and those that ended too
early. AUDIT_BARRIER: the program ends after its callbacks. AUDIT_BROKEN: no grace period waits, and the oracle must
notice it. */
#define _GNU_SOURCE
#include "flavor.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

enum { CANARIES = 2, CLOCKS = 1024 };

#define SYMBOL(x) "urcu_" FLAVOR_TEXT "_" #x

struct counters {
    unsigned long grace_periods, occupied, early;
};

struct clock {
    unsigned long time;
} __attribute__((aligned(128)));

struct snapshot {
    unsigned count;
    struct {
        unsigned clock;
        unsigned long time;
    } inside[64];
};

struct record {
    struct rcu_head head;
    struct record *next;
    struct rcu_head *client_head;
    void (*client_function)(struct rcu_head *head);
    struct snapshot snapshot;
};

static struct counters private_counters, *counters = &private_counters;
static struct clock clocks[CLOCKS];
static unsigned next_clock;
static int broken;
static pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;
static struct record *early_callbacks, **early_end = &early_callbacks;
static pid_t started_in;

static void (*real_synchronize)(void);
static void (*real_call_rcu)(struct rcu_head *head, void (*function)(struct rcu_head *head));
static void (*real_register)(void), (*real_lock)(void), (*real_unlock)(void);

static void *next(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    /* A library that is a plugin's has no place in the order of preloaded ones. */
    if (!symbol) {
        void *library = dlopen("liburcu-" FLAVOR_TEXT ".so.8", RTLD_NOW);
        symbol = library ? dlsym(library, name) : NULL;
    }
    CHECK(symbol);
    return symbol;
}

static void *canary(void *argument)
{
    struct clock *clock = argument;
    real_register();
    for (;;) {
        real_lock();
        ADD(clock->time, 1);
        usleep(500);
        ADD(clock->time, 1);
#if defined(QSBR)
        /* A quiescent state ends a section and begins the next. */
        ADD(clock->time, 1);
        rcu_quiescent_state();
        ADD(clock->time, 1);
#endif
        real_unlock();
    }
    return NULL;
}

/* The worker of a library without grace periods calls callbacks at once. They may take locks that the caller holds. */
static void *early_worker(void *argument)
{
    real_register();
    for (;;) {
        pthread_mutex_lock(&early_lock);
        struct record *record = early_callbacks;
        early_callbacks = NULL;
        early_end = &early_callbacks;
        pthread_mutex_unlock(&early_lock);
        while (record) {
            struct record *next = record->next;
            record->client_function(record->client_head);
            free(record);
            record = next;
        }
#if defined(QSBR)
        rcu_quiescent_state();
#endif
        usleep(100);
    }
    return argument;
}

static unsigned new_clock(void)
{
    unsigned clock = __atomic_fetch_add(&next_clock, 1, __ATOMIC_SEQ_CST);
    return clock < CLOCKS ? clock : CLOCKS;
}

static void initialize(void)
{
    if (LOAD(real_register))
        return;
    const char *file = getenv("AUDIT_FILE");
    int opened = file ? open(file, O_RDWR) : -1;
    if (opened >= 0) {
        void *shared = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
        if (shared != MAP_FAILED)
            counters = shared;
        close(opened);
    }
    const char *libraries = getenv("AUDIT_LIBRARIES");
    void *synchronize = next(SYMBOL(synchronize_rcu));
    Dl_info found;
    CHECK(dladdr(synchronize, &found));
    CHECK(!libraries || strncmp(found.dli_fname, libraries, strlen(libraries)) == 0);
    broken = getenv("AUDIT_BROKEN") != NULL;
    real_synchronize = (void (*)(void))synchronize;
    real_call_rcu = (void (*)(struct rcu_head *, void (*)(struct rcu_head *)))next(SYMBOL(call_rcu));
    real_lock = (void (*)(void))next(SYMBOL(read_lock));
    real_unlock = (void (*)(void))next(SYMBOL(read_unlock));
    STORE(real_register, (void (*)(void))next(SYMBOL(register_thread)));
}

/* Begins the canaries, in each process that uses the library. */
static void begin(void)
{
    pid_t before = LOAD(started_in), process = getpid();
    if (before == process ||
        !__atomic_compare_exchange_n(&started_in, &before, process, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    initialize();
    /* Signals are for the program's own threads, which may block them later. */
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    for (int i = 0; i < CANARIES; i++) {
        unsigned clock = new_clock();
        CHECK(clock < CLOCKS);
        STORE(clocks[clock].time, 0);
        start(canary, &clocks[clock]);
    }
    if (broken)
        start(early_worker, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void take(struct snapshot *snapshot)
{
    unsigned used = LOAD(next_clock);
    snapshot->count = 0;
    for (unsigned i = 0; i < used && i < CLOCKS && snapshot->count < 64; i++) {
        unsigned long time = LOAD(clocks[i].time);
        if (time % 2 == 0)
            continue;
        snapshot->inside[snapshot->count].clock = i;
        snapshot->inside[snapshot->count++].time = time;
    }
}

static void compare(const struct snapshot *snapshot)
{
    int early = 0;
    for (unsigned i = 0; i < snapshot->count; i++)
        early |= LOAD(clocks[snapshot->inside[i].clock].time) == snapshot->inside[i].time;
    ADD(counters->grace_periods, 1);
    ADD(counters->occupied, snapshot->count != 0);
    ADD(counters->early, early);
}

/* Some programs end before their callbacks are called. */
__attribute__((destructor)) static void finish(void)
{
    if (LOAD(real_register) && getenv("AUDIT_BARRIER"))
        ((void (*)(void))next(SYMBOL(barrier)))();
}

void synchronize_rcu(void)
{
    struct snapshot snapshot;
    begin();
    take(&snapshot);
    if (!broken)
        real_synchronize();
    compare(&snapshot);
}

static void called(struct rcu_head *head)
{
    struct record *record = caa_container_of(head, struct record, head);
    compare(&record->snapshot);
    record->client_function(record->client_head);
    free(record);
}

void call_rcu(struct rcu_head *head, void (*function)(struct rcu_head *head))
{
    begin();
    struct record *record = malloc(sizeof *record);
    CHECK(record);
    record->client_head = head;
    record->client_function = function;
    take(&record->snapshot);
    if (!broken) {
        real_call_rcu(&record->head, called);
        return;
    }
    compare(&record->snapshot);
    record->next = NULL;
    pthread_mutex_lock(&early_lock);
    *early_end = record;
    early_end = &record->next;
    pthread_mutex_unlock(&early_lock);
}

#if !defined(BP)
void rcu_register_thread(void)
{
    initialize();
    real_register();
    begin();
}
#endif

#if defined(MEMB)
/* The program's own readers. */
static __thread unsigned own, nesting, sections;

void urcu_memb_read_lock(void)
{
    initialize();
    real_lock();
    if (nesting++ != 0)
        return;
    if (own == 0)
        own = new_clock() + 1;
    if (own <= CLOCKS)
        ADD(clocks[own - 1].time, 1);
    if (sections++ % 16 == 0)
        usleep(200);
}

void urcu_memb_read_unlock(void)
{
    if (--nesting == 0 && own <= CLOCKS)
        ADD(clocks[own - 1].time, 1);
    real_unlock();
}
#endif

#if defined(MEMB)
/* liburcu-cds and others call through the struct. Its entries are found by name: those above come first. */
DEFINE_RCU_FLAVOR(rcu_flavor);
#endif
