// A program that names the standard's headers only. It is built with the folder `stillpoint/std` among those of headers.

#include <array>
#include <atomic>
#include <hazard_pointer>
#include <memory>
#include <mutex>
#include <rcu>

#ifndef __cpp_lib_rcu
#error "no macro for <rcu>"
#endif
#if __cpp_lib_hazard_pointer < 202606L
#error "no batches"
#endif

struct Config : std::rcu_obj_base<Config> {
    int value = 1;
};

struct Node : std::hazard_pointer_obj_base<Node> {
    int value = 2;
};

int main()
{
    std::atomic<Config *> config{new Config};
    std::atomic<Node *> nodes[2]{new Node, new Node};
    int sum = 0;
    {
        std::scoped_lock<std::rcu_domain> section(std::rcu_default_domain());
        sum += config.load()->value;
    }
    config.exchange(new Config)->retire();
    std::array<std::hazard_pointer, 2> hazards;
    std::make_hazard_pointer_batch(hazards);
    sum += hazards[0].protect(nodes[0])->value + hazards[1].protect(nodes[1])->value;
    std::clear_hazard_pointer_batch(hazards);
    nodes[0].load()->retire();
    nodes[1].load()->retire();
    std::rcu_synchronize();
    delete config.load();
    std::rcu_barrier();
    sp_barrier(sp_hazard_domain());
    return !(sum == 5 && hazards[0].empty());
}
