// An exception that leaves a callback of the C interface ends the process. It does not unwind through the library.

#include "check.h"

static void thrower(void *)
{
    throw 1;
}

static void test()
{
    CHECK(sp_call_rcu(thrower, nullptr) == 0);
    CHECK(sp_rcu_barrier() == 0);
}

int main()
{
    char text[4096];
    int status = in_child(test, text, sizeof text);
    CHECK(WIFSIGNALED(status));
    CHECK(strstr(text, "foreign exception") || strstr(text, "terminate"));
    return 0;
}
