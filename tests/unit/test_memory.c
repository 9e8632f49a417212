/* test_memory.c - byte buffers: content survives every growth, also where it gets
 * pages of its own; a growth that fails changes nothing. */
#include "base/memory.h"
#include "unit.h"

static char byte_at(size_t i) { return (char)(i * 131 >> 3); }

/* Index of the first wrong byte; len if all are right. */
static size_t first_wrong(const bytes *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (b->ptr[i] != byte_at(i)) return i;
    return b->len;
}

/* Pieces of up to n bytes, until there are `len`. */
static int put(bytes *b, size_t len, size_t n)
{
    char piece[4096];
    while (b->len < len) {
        size_t part = len - b->len < n ? len - b->len : n;
        for (size_t i = 0; i < part; i++) piece[i] = byte_at(b->len + i);
        RETURN_IF(bytes_append(b, piece, part));
    }
    return CERIUM_OK;
}

static void test_growth(void)
{
    static const size_t lens[] = {0, 1, 256, 257, BYTES_MAPPED_MIN - 1, BYTES_MAPPED_MIN,
                                  BYTES_MAPPED_MIN + 1, 5 * BYTES_MAPPED_MIN + 123};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        long live = memory_live();
        bytes b = {.max = lens[i]};
        TEST_CHECK(!put(&b, lens[i], 4096) && b.len == lens[i] && b.cap <= b.max);
        TEST_CHECK_THAT(first_wrong(&b) == b.len, "%zu of %zu", first_wrong(&b), b.len);
        TEST_CHECK(bytes_append(&b, "x", 1) == CERIUM_ERR_CAPACITY && b.len == lens[i]);
        TEST_CHECK(memory_live() == live + (lens[i] > 0));
        bytes_free(&b);
        TEST_CHECK(memory_live() == live && !b.ptr && !b.cap && b.max == lens[i]);
    }
}

/* In one step to the size where it is mapped, and reused after it was freed. */
static void test_leaps(void)
{
    long live = memory_live();
    bytes b = {.max = 64 << 20};
    for (int round = 0; round < 2; round++) {
        TEST_CHECK(!put(&b, 1000, 7) && !bytes_reserve(&b, 3 << 20));
        TEST_CHECK(b.cap - b.len >= 3 << 20 && first_wrong(&b) == 1000);
        const char *before = b.ptr;
        TEST_CHECK(!put(&b, 3 << 20, 4096) && b.ptr == before); /* there was room */
        TEST_CHECK(!bytes_reserve(&b, 32 << 20) && first_wrong(&b) == 3 << 20);
        bytes_free(&b);
    }
    TEST_CHECK(memory_live() == live);
}

static void test_failures(void)
{
    enum { LEN = 9 << 20 };
    long live = memory_live(), n = 0;
    bool whole = false;
    for (; !whole && n < 100; n++) {
        bytes b = {.max = LEN};
        memory_fail_at(n);
        int status = put(&b, LEN, 4096);
        memory_fail_at(-1);
        whole = !status;
        TEST_CHECK(whole || status == CERIUM_ERR_MEMORY);
        TEST_CHECK(first_wrong(&b) == b.len);
        TEST_CHECK(!put(&b, LEN, 4096) && first_wrong(&b) == LEN); /* it can continue */
        bytes_free(&b);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK(whole && n > 10);
}

int main(void)
{
    TEST_RUN(test_growth);
    TEST_RUN(test_leaps);
    TEST_RUN(test_failures);
    return unit_report("memory");
}
