/* tile_machine.h - a machine with AMX tiles, in plain C, that faults like a processor.
 *
 * From the pseudo-code of Intel's manual (Software Developer's Manual, volume 1 chapter 18, and
 * volume 2 under LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE and TDPBSSD): palette 1,
 * eight tiles of at most 16 rows of 64 bytes.  One machine, one thread.
 *
 * Include it after the intrinsics of AVX-512: it redefines their names for tiles. */
#ifndef TILE_MACHINE_H
#define TILE_MACHINE_H

#include "kernelcheck.h"

void tile_machine_loadconfig(const void *config);
void tile_machine_release(void);
void tile_machine_zero(uint32_t tile);
void tile_machine_load(uint32_t tile, const void *from, size_t stride);
void tile_machine_store(uint32_t tile, void *to, size_t stride);

typedef enum {
    TILE_SIGNED_SIGNED = 0, /* bytes of the first operand, of the second */
    TILE_SIGNED_UNSIGNED = 1,
    TILE_UNSIGNED_SIGNED = 2,
    TILE_UNSIGNED_UNSIGNED = 3,
} tile_signs;
void tile_machine_multiply(tile_signs signs, uint32_t sum, uint32_t a, uint32_t b);

/* Products since the program began; whether tiles are configured. */
uint64_t tile_machine_n_products(void);
bool tile_machine_configured(void);

/* True: the call faults; else faults end the running check, like on a processor. */
bool tile_machine_faults(void (*call)(void));

#define _tile_loadconfig(config)               tile_machine_loadconfig(config)
#define _tile_release()                        tile_machine_release()
#define _tile_zero(tile)                       tile_machine_zero(tile)
#define _tile_loadd(tile, from, stride)        tile_machine_load(tile, from, stride)
#define _tile_stream_loadd(tile, from, stride) tile_machine_load(tile, from, stride)
#define _tile_stored(tile, to, stride)         tile_machine_store(tile, to, stride)
#define _tile_dpbssd(sum, a, b) tile_machine_multiply(TILE_SIGNED_SIGNED, sum, a, b)
#define _tile_dpbsud(sum, a, b) tile_machine_multiply(TILE_SIGNED_UNSIGNED, sum, a, b)
#define _tile_dpbusd(sum, a, b) tile_machine_multiply(TILE_UNSIGNED_SIGNED, sum, a, b)
#define _tile_dpbuud(sum, a, b) tile_machine_multiply(TILE_UNSIGNED_UNSIGNED, sum, a, b)

#endif
