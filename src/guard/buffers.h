/* buffers.h - how many bytes C's buffers have, if their declaration gives it. */
#ifndef GUARD_BUFFERS_H
#define GUARD_BUFFERS_H

#include "base/base.h"

/* The value of an expression of numbers, +, *, sizeof(char) and sizeof of a buffer that text
 * declares.  False: it is anything else. */
bool buffer_number(view text, view expression, uint64_t *out);
/* Bytes of the buffer `name`, as text declares or allocates it last; false: unknown. */
bool buffer_bytes(view text, view name, uint64_t *out);

#endif
