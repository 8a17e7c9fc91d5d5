/* With SP_DEBUG, ends of sections that have no beginning are detected. */

#define SP_DEBUG
#include <signal.h>

#include "check.h"

static void extra_unlock(void)
{
    CHECK(sp_rcu_read_lock() == 0 && sp_rcu_read_lock() == 0);
    CHECK(sp_rcu_read_unlock() == 0 && sp_rcu_read_unlock() == 0);
    sp_rcu_read_unlock();
}

int main(void)
{
    char text[4096];
    int status = in_child(extra_unlock, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strncmp(text, "stillpoint: sp_rcu_read_unlock", 30) == 0);
    return 0;
}
