/* An assertion that says which invariant of the model's head comment it checks: ci reads the number from spin's message. */
#define invariant(number, holds) assert((holds) || number == 0)
