/* Asserts an invariant of the model's head comment. lab/models/run.sh reads the number from spin's message. */
#define invariant(number, holds) assert((holds) || number == 0)
