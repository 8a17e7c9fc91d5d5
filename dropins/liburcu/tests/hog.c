/* Takes static TLS, as a library does that is built with -ftls-model=initial-exec. */
__thread char hog[1400] __attribute__((tls_model("initial-exec")));

char *hog_touch(void)
{
    hog[0] = 1;
    return hog;
}
