/* unload HOG PLUGIN: loads the plugin when hardly any static TLS is left, uses it, and closes it with callbacks that
have not run and a thread that has not exited. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            const char *why = dlerror();                                              \
            fprintf(stderr, "%d: %s: %s\n", __LINE__, #condition, why ? why : "");    \
            abort();                                                                  \
        }                                                                             \
    } while (0)

static int used, closed;
static void *plugin;

static void *find(const char *name)
{
    void *symbol = dlsym(plugin, name);
    CHECK(symbol);
    return symbol;
}

static void work(void)
{
    int sum = 0;
    int (*function)(int *);
    *(void **)&function = find("plugin_work");
    CHECK(function(&sum) == 0);
    CHECK(sum == 200);
}

static void *exit_after_close(void *unused)
{
    work();
    __atomic_store_n(&used, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&closed, __ATOMIC_ACQUIRE))
        usleep(100);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int (*leave)(void);
    unsigned long (*done)(void);
    alarm(200);
    CHECK(argc == 3);
    CHECK(dlopen(argv[1], RTLD_NOW));
    for (int round = 0; round < 3; round++) {
        CHECK((plugin = dlopen(argv[2], RTLD_NOW)));
        closed = used = 0;
        CHECK(pthread_create(&thread, NULL, exit_after_close, NULL) == 0);
        work();
        while (!__atomic_load_n(&used, __ATOMIC_ACQUIRE))
            usleep(100);
        *(void **)&leave = find("plugin_leave");
        CHECK(leave() == 0);
        CHECK(dlclose(plugin) == 0);
        usleep(5000); /* the worker runs what was left behind */
        __atomic_store_n(&closed, 1, __ATOMIC_RELEASE);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK((plugin = dlopen(argv[2], RTLD_NOW)));
    work();
    *(void **)&done = find("plugin_done");
    while (done() < 3 * 1400)
        usleep(100);
    return 0;
}
