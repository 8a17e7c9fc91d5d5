/* A library that takes most of the memory that the dynamic linker keeps for thread-local variables. */

static __thread char taken[1400] __attribute__((tls_model("initial-exec")));

char *hog(void)
{
    return taken;
}
