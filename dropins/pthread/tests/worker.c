/*
 * A library that is initialized before the program, with a worker that waits for jobs. In the child of a fork it starts
 * the worker again, in a handler that its constructor registers.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static pthread_mutex_t mutex;
static pthread_cond_t changed;
static int jobs, done;
static bool is_on, runs;

static void *work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    runs = true;
    while (true) {
        pthread_cond_broadcast(&changed);
        while (jobs == 0)
            pthread_cond_wait(&changed, &mutex);
        jobs--;
        done++;
    }
    return NULL;
}

void start_worker(void)
{
    pthread_t thread;
    is_on = true;
    runs = false;
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&changed, NULL);
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        abort();
    pthread_mutex_lock(&mutex);
    while (!runs)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void do_job(void)
{
    pthread_mutex_lock(&mutex);
    int before = done;
    jobs++;
    pthread_cond_broadcast(&changed);
    while (done == before)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void hold(void)
{
    if (is_on)
        pthread_mutex_lock(&mutex);
}

static void release(void)
{
    if (is_on)
        pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    if (is_on)
        start_worker();
}

__attribute__((constructor)) static void add_handlers(void)
{
    if (pthread_atfork(hold, release, in_child) != 0)
        abort();
}
