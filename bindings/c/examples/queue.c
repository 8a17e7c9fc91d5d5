/* A bounded queue of jobs with a mutex and two condition variables, and limits that a reader-writer lock guards. */

#include <pthread.h>
#include <stdio.h>

#include <stillpoint/lock.h>

enum { CAPACITY = 16, THREADS = 4, JOBS = 10000 };

static struct sp_mutex lock = SP_MUTEX_INIT; /* of the queue */
static struct sp_cond filled = SP_COND_INIT, drained = SP_COND_INIT;
static int queue[CAPACITY], first, count;

static struct sp_rwlock limits_lock = SP_RWLOCK_INIT;
static struct { int lowest, highest; } limits = {0, 100};

static void push(int job)
{
    sp_mutex_lock(&lock);
    while (count == CAPACITY)
        sp_cond_wait(&drained, &lock);
    queue[(first + count++) % CAPACITY] = job;
    sp_mutex_unlock(&lock);
    sp_cond_signal(&filled);
}

static int pop(void)
{
    sp_mutex_lock(&lock);
    while (count == 0)
        sp_cond_wait(&filled, &lock);
    int job = queue[first];
    first = (first + 1) % CAPACITY;
    count--;
    sp_mutex_unlock(&lock);
    sp_cond_signal(&drained);
    return job;
}

static void *work(void *accepted)
{
    for (int job; (job = pop()) >= 0;) {
        sp_rwlock_rdlock(&limits_lock);
        *(long *)accepted += job >= limits.lowest && job < limits.highest;
        sp_rwlock_rdunlock(&limits_lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    long accepted[THREADS] = {0}, sum = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &accepted[i]) != 0)
            return 1;
    for (int i = 0; i < JOBS; i++) {
        push(i % 1000);
        if (i % 1000 == 0) {
            sp_rwlock_wrlock(&limits_lock);
            limits.lowest++;
            limits.highest++;
            sp_rwlock_wrunlock(&limits_lock);
        }
    }
    for (int i = 0; i < THREADS; i++)
        push(-1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += accepted[i];
    }
    printf("%ld of %d jobs accepted\n", sum, JOBS);
    return sum == 0;
}
