/* amx.h - what kernels with tiles share.
 *
 * Tiles belong to a call: it loads their shapes, and gives them back at its end.  No thread need
 * know, nothing is to be saved when a thread is switched between calls, and a processor with tiles
 * in use could not sleep deeply. */
#ifndef KERNELS_X86_AMX_H
#define KERNELS_X86_AMX_H

#ifndef KERNELS_EMULATED
#if !defined(__AMX_INT8__) && !defined(__AMXINT8__) /* gcc, clang */
#error "for files *_amx.c, which the Makefile compiles for that instruction set"
#endif
#endif

#include <stdint.h>

enum { AMX_ROWS = 16, AMX_ROW_BYTES = 64 }; /* of a tile at most */

/* Shapes of the eight tiles; one without rows and bytes is not used. */
typedef struct {
    uint8_t palette, start_row, zero[14]; /* palette 1 */
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_shapes;
_Static_assert(sizeof(amx_shapes) == 64, "as the processor reads it");

/* What the compiler has not stored yet, it stores: it does not know that tiles read memory. */
static inline void amx_all_stored(void) { __asm__ volatile("" ::: "memory"); }

#endif
