/* Weakly ordered stores, included by the models.
 *
 * Each thread has a store buffer with a slot for each variable, and the slots drain in any order, as with SPARC's
 * PSO. This is weaker than x86, whose buffers are first in, first out. A thread sees its own stores at once. Other
 * threads see them when they have drained.
 *
 *   load(t, v)              an atomic load; loads take effect in program order
 *   store(t, v, x)          Relaxed. Replaces a store to v that has not drained; a counter may still drain through the
 *                           values between
 *   store_release(t, v, x)  drains after all earlier stores of the thread
 *   fenced(t)               guard of operations that come after all stores of the thread: read-modify-writes, system
 *                           calls
 *   answer(asked, t)        a heavy fence reaches thread t: its buffer is empty at some moment between the start and
 *                           the end of the fence, at a separate moment for each thread. The fence asks all threads
 *                           (`asked`, a bit for each), and ends when all have answered
 *   light fence             nothing at all: it constrains the compiler, not the processor. The models have a comment
 *                           there
 *
 * The model defines THREADS, VARIABLES (at most 15) and COUNTER(v), which is true if v only increases by one. It has a
 * process that offers drain(t, v) for each store that occurs. Abstracted: a read-modify-write is a full fence, unless
 * the model says that it is not. */

byte mem[VARIABLES];
byte buffered[THREADS * VARIABLES];
short pending[THREADS];             /* a bit for each variable: its store has not drained */
short before[THREADS * VARIABLES];  /* a bit for each variable: its store drains before this one */

#define at(t, v)   ((t) * VARIABLES + (v))
#define bit_of(v)  (1 << (v))
#define load(t, v) ((pending[t] & bit_of(v)) -> buffered[at(t, v)] : mem[v])
#define fenced(t)  (pending[t] == 0)

inline store(t, v, x) {
    d_step { buffered[at(t, v)] = x; pending[t] = pending[t] | bit_of(v) }
}

inline store_release(t, v, x) {
    atomic {
        !(pending[t] & bit_of(v)) ->
        before[at(t, v)] = pending[t];
        buffered[at(t, v)] = x;
        pending[t] = pending[t] | bit_of(v)
    }
}

inline drain(t, v) {
    atomic {
        (pending[t] & bit_of(v)) && !(before[at(t, v)] & pending[t]) ->
        if
        :: COUNTER(v) && buffered[at(t, v)] > mem[v] + 1 -> mem[v]++
        :: d_step {
               mem[v] = buffered[at(t, v)];
               buffered[at(t, v)] = 0;
               before[at(t, v)] = 0;
               pending[t] = pending[t] & ~bit_of(v)
           }
        fi
    }
}

inline answer(asked, t) {
    atomic { (asked & bit_of(t)) && fenced(t) -> asked = asked & ~bit_of(t) }
}
