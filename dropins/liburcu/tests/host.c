/* host LIBRARY... MODULE MODE UPDATES: loads the libraries as plugins, and runs the function `run` of the last one. */
#include "flavor.h"

int main(int argc, char **argv)
{
    void *library = NULL;
    CHECK(argc >= 4);
    for (int i = 1; i < argc - 2; i++) {
        library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
    }
    int (*run)(const char *, unsigned long) = (int (*)(const char *, unsigned long))dlsym(library, "run");
    CHECK(run);
    return run(argv[argc - 2], strtoul(argv[argc - 1], NULL, 10));
}
