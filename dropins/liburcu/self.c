/* A thread-local pointer for each flavor of liburcu, to the thread's reader.
 *
 * A reader is aligned to 128 bytes, which the loader does not provide in its reserve of static thread-local storage. So a
 * library that is loaded by dlopen(3) cannot reach its reader by the fast model (initial-exec). These pointers of eight
 * bytes fit into the reserve. They lie in a shared library of their own, as one reserve serves a whole library. A pointer
 * is null until the thread first calls a function of its flavor. */
__thread void *stillpoint_urcu_memb_self, *stillpoint_urcu_bp_self, *stillpoint_urcu_mb_self, *stillpoint_urcu_qsbr_self;
