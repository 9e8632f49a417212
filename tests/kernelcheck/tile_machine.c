/* tile_machine.c - tiles, their configuration, and the faults of a processor. */
#include "tile_machine.h"

#include <setjmp.h>
#include <signal.h>

enum { TILES = 8, ROWS_MAX = 16, ROW_BYTES_MAX = 64 };

static struct {
    bool configured;
    uint16_t row_bytes[TILES];
    uint8_t rows[TILES];
    uint8_t tile[TILES][ROWS_MAX][ROW_BYTES_MAX];
    uint64_t n_products;
} machine;

static jmp_buf fault_jump;
static bool fault_expected;

/* Faults of the processor: #UD (SIGILL) or #GP (SIGSEGV). */
static void fault_unless(bool good, int number, const char *why)
{
    if (good) return;
    if (fault_expected) longjmp(fault_jump, 1);
    kc_fail("tiles: %s", why);
    raise(number);
}

bool tile_machine_faults(void (*call)(void))
{
    fault_expected = true;
    const bool faulted = setjmp(fault_jump) != 0;
    if (!faulted) call();
    fault_expected = false;
    return faulted;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

void tile_machine_loadconfig(const void *config)
{
    enum { AT_ROW_BYTES = 16, AT_ROWS = 48, BYTES = 64 };
    const uint8_t *byte = config;
    const uint8_t *rows = byte + AT_ROWS;
    uint16_t row_bytes[TILES];
    if (byte[0] == 0) { /* the palette without tiles */
        tile_machine_release();
        return;
    }
    memcpy(row_bytes, byte + AT_ROW_BYTES, sizeof row_bytes);
    fault_unless(byte[0] == 1, SIGSEGV, "a palette that there is not");
    fault_unless(byte[1] == 0, SIGSEGV, "a restart in the middle of a tile");
    fault_unless(all_zero(byte + 2, AT_ROW_BYTES - 2), SIGSEGV, "reserved bytes that are not zero");
    fault_unless(all_zero(byte + AT_ROW_BYTES + 2 * TILES, AT_ROWS - AT_ROW_BYTES - 2 * TILES) &&
                     all_zero(rows + TILES, BYTES - AT_ROWS - TILES),
                 SIGSEGV, "a shape for a tile that there is not");
    for (uint32_t i = 0; i < TILES; i++) {
        fault_unless(row_bytes[i] <= ROW_BYTES_MAX && rows[i] <= ROWS_MAX, SIGSEGV,
                     "a shape larger than a tile");
        fault_unless((row_bytes[i] == 0) == (rows[i] == 0), SIGSEGV, "rows without bytes");
    }
    memset(&machine.tile, 0, sizeof machine.tile);
    memcpy(machine.row_bytes, row_bytes, sizeof row_bytes);
    memcpy(machine.rows, rows, sizeof machine.rows);
    machine.configured = true;
}

void tile_machine_release(void)
{
    const uint64_t n_products = machine.n_products;
    memset(&machine, 0, sizeof machine);
    machine.n_products = n_products;
}

static void need_tile(uint32_t tile)
{
    fault_unless(machine.configured, SIGILL, "used without a configuration");
    fault_unless(tile < TILES && machine.rows[tile] > 0, SIGILL, "a tile without a shape");
}

void tile_machine_zero(uint32_t tile)
{
    need_tile(tile);
    memset(machine.tile[tile], 0, sizeof machine.tile[tile]);
}

void tile_machine_load(uint32_t tile, const void *from, size_t stride)
{
    need_tile(tile);
    memset(machine.tile[tile], 0, sizeof machine.tile[tile]);
    for (uint32_t r = 0; r < machine.rows[tile]; r++)
        memcpy(machine.tile[tile][r], (const uint8_t *)from + r * stride, machine.row_bytes[tile]);
}

void tile_machine_store(uint32_t tile, void *to, size_t stride)
{
    need_tile(tile);
    for (uint32_t r = 0; r < machine.rows[tile]; r++)
        memcpy((uint8_t *)to + r * stride, machine.tile[tile][r], machine.row_bytes[tile]);
}

/* The sum of four products, added as on the processor: modulo 2^32. */
static uint32_t add_products(uint32_t sum, const uint8_t *a, const uint8_t *b, tile_signs signs)
{
    const bool a_signed = signs == TILE_SIGNED_SIGNED || signs == TILE_SIGNED_UNSIGNED;
    const bool b_signed = signs == TILE_SIGNED_SIGNED || signs == TILE_UNSIGNED_SIGNED;
    for (uint32_t i = 0; i < 4; i++) {
        const int32_t x = a_signed ? (int8_t)a[i] : a[i], y = b_signed ? (int8_t)b[i] : b[i];
        sum += (uint32_t)(x * y);
    }
    return sum;
}

void tile_machine_multiply(tile_signs signs, uint32_t sum, uint32_t a, uint32_t b)
{
    need_tile(sum);
    need_tile(a);
    need_tile(b);
    fault_unless(sum != a && sum != b && a != b, SIGILL, "a product of a tile with itself");
    fault_unless(machine.row_bytes[sum] % 4 == 0 && machine.row_bytes[a] % 4 == 0 &&
                     machine.row_bytes[b] % 4 == 0,
                 SIGILL, "rows that are not whole words");
    fault_unless(machine.rows[sum] == machine.rows[a] &&
                     machine.row_bytes[sum] == machine.row_bytes[b] &&
                     machine.row_bytes[a] / 4 == machine.rows[b],
                 SIGILL, "shapes that do not fit together");
    machine.n_products++;
    for (uint32_t m = 0; m < machine.rows[sum]; m++)
        for (uint32_t k = 0; k < machine.row_bytes[a] / 4u; k++)
            for (uint32_t n = 0; n < machine.row_bytes[sum] / 4u; n++) {
                uint32_t v;
                memcpy(&v, machine.tile[sum][m] + 4 * n, sizeof v);
                v = add_products(v, machine.tile[a][m] + 4 * k, machine.tile[b][k] + 4 * n, signs);
                memcpy(machine.tile[sum][m] + 4 * n, &v, sizeof v);
            }
}

uint64_t tile_machine_n_products(void) { return machine.n_products; }
bool tile_machine_configured(void) { return machine.configured; }
