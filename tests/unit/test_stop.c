/* test_stop.c - for any cuts of a stream the output is the same, and equals
 * a naive search over the whole text. */
#include "base/stop.h"

#include "../random.h"
#include "unit.h"

/* Where the text ends before the first complete stop string; text.len when there is none. */
static size_t naive_end(view text, const char *const *stops, uint32_t n_stops, bool *hit)
{
    *hit = false;
    for (size_t end = 1; end <= text.len; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < n_stops; i++) {
            size_t len = strlen(stops[i]);
            if (len <= end && len > longest && !memcmp(text.ptr + end - len, stops[i], len))
                longest = len;
        }
        if (longest) {
            *hit = true;
            return end - longest;
        }
    }
    return text.len;
}

/* Feed text cut where the bits of cuts say (bit i: after byte i); compare with the naive end. */
static void check_cuts(view text, const char *const *stops, uint32_t n_stops, uint64_t cuts)
{
    stop_state state = {0};
    char out[1024], shown[1024];
    size_t n_shown = 0, at = 0;
    bool hit = false, want_hit;
    size_t want = naive_end(text, stops, n_stops, &want_hit);
    while (at < text.len && !hit) {
        size_t end = at + 1;
        while (end < text.len && !(cuts >> (end - 1) % 64 & 1)) end++;
        size_t n = stop_feed(&state, stops, n_stops, (view){text.ptr + at, end - at}, out, &hit);
        TEST_CHECK(n <= STOP_HELD_MAX + end - at);
        memcpy(shown + n_shown, out, n);
        n_shown += n;
        at = end;
    }
    n_shown += stop_flush(&state, shown + n_shown);
    TEST_CHECK_THAT(hit == want_hit && n_shown == want && !memcmp(shown, text.ptr, want),
                    "\"%.*s\", cuts %llx: %zu bytes, want %zu", (int)text.len, text.ptr,
                    (unsigned long long)cuts, n_shown, want);
    TEST_CHECK(state.n_held == 0 && state.n_utf8 == 0);
}

static void test_all_cuts(void)
{
    static const char *const sets[][3] = {
        {"ab", NULL, NULL},
        {"abcd", "bc", NULL},
        {"b", "ab", NULL},
        {"aab", "aaa", "ba"},
        {"\xc3\xa9", "e", NULL},
        {"\xa9", NULL, NULL},
        {"a\xe2\x82\xac", "\xe2\x82", NULL},
    };
    static const char *const texts[] = {
        "",
        "a",
        "ab",
        "aab",
        "abcd",
        "xabcx",
        "aaaaaab",
        "babaabba",
        "caf\xc3\xa9 e",
        "a\xe2\x82\xac",
        "aa\xe2\x82"
        "a\xf0\x9f\x98\x80",
        "\xe2\x82\xe2\x82\xac"
        "abc",
        "\xff\xc3",
    };
    for (size_t s = 0; s < ARRAY_LEN(sets); s++)
        for (size_t t = 0; t < ARRAY_LEN(texts); t++) {
            view text = view_of(texts[t]);
            for (uint64_t cuts = 0; cuts < (uint64_t)1 << (text.len ? text.len - 1 : 0); cuts++)
                for (uint32_t n = 0; n <= 3 && (n == 0 || sets[s][n - 1]); n++)
                    check_cuts(text, sets[s], n, cuts);
        }
}

static void test_random(void)
{
    static const char letters[] = "ab\xc3\xa9\xe2\x82\xac";
    for (int round = 0; round < 20000; round++) {
        char text[60], stop_text[CERIUM_STOPS_MAX][8];
        const char *stops[CERIUM_STOPS_MAX];
        size_t len = random_below(sizeof text);
        uint32_t n_stops = random_below(CERIUM_STOPS_MAX + 1), n_letters = 2 + random_below(6);
        for (size_t i = 0; i < len; i++) text[i] = letters[random_below(n_letters)];
        for (uint32_t i = 0; i < n_stops; i++) {
            uint32_t n = 2 + random_below(5);
            for (uint32_t j = 0; j < n; j++) stop_text[i][j] = letters[random_below(n_letters)];
            stop_text[i][n] = 0;
            stops[i] = stop_text[i];
        }
        uint64_t cuts = (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
        check_cuts((view){text, len}, stops, n_stops, cuts);
    }
}

/* Feed one byte at a time; n[i] bytes must come out with byte i. */
static void check_timing(view text, const char *stop, const char *n)
{
    stop_state state = {0};
    char out[STOP_HELD_MAX + 1];
    bool hit;
    for (size_t i = 0; i < text.len; i++) {
        size_t got = stop_feed(&state, &stop, 1, (view){text.ptr + i, 1}, out, &hit);
        TEST_CHECK_THAT(got == (size_t)(n[i] - '0'), "byte %zu: %zu bytes come out", i, got);
    }
}

/* Nothing is held back longer than necessary. */
static void test_timing(void)
{
    check_timing(VIEW("hello"), "xy", "11111");
    check_timing(VIEW("axbxxay"), "xy", "1020121");
    check_timing(VIEW("a\xc3\xa9"
                      "b"),
                 "xy", "1021");
    check_timing(VIEW("\xf0\x9f\x98\x80"
                      "b"),
                 "xy", "00041");
    check_timing(VIEW("\xe2\x82"
                      "b"),
                 "xy", "003");                            /* truncated */
    check_timing(VIEW("\x82\xff\xc0\x80"), "xy", "1111"); /* never valid */
    check_timing(VIEW("\xe0\x80\x80"), "xy", "021");      /* overlong */
    check_timing(VIEW("\xed\xa0\x80"), "xy", "021");      /* a surrogate */
    check_timing(VIEW("\xf4\x90\x80\x80"), "xy", "0211"); /* above U+10FFFF */
    check_timing(VIEW("\xf0\x90\x80\x80"), "xy", "0004");
    check_timing(VIEW("\xc3\xc3\xc3"), "xy", "011");
}

static void test_longest(void)
{
    static char stop[CERIUM_STOP_BYTES_MAX + 1], text[CERIUM_STOP_BYTES_MAX + 1];
    char out[STOP_HELD_MAX + sizeof text];
    const char *stops[1] = {stop};
    bool hit;
    memset(stop, 'a', CERIUM_STOP_BYTES_MAX - 1);
    stop[CERIUM_STOP_BYTES_MAX - 1] = 'b';
    memset(text, 'a', sizeof text);
    stop_state state = {0};
    size_t n = stop_feed(&state, stops, 1, (view){text, sizeof text}, out, &hit);
    TEST_CHECK(n == 2 && !hit && state.n_held == CERIUM_STOP_BYTES_MAX - 1);
    n = stop_feed(&state, stops, 1, VIEW("b!"), out, &hit);
    TEST_CHECK(n == 0 && hit && stop_flush(&state, out) == 0);
    /* The next call may have other stop strings; held bytes are then checked again. */
    n = stop_feed(&state, stops, 1, VIEW("aaa"), out, &hit);
    TEST_CHECK(n == 0 && !hit && state.n_held == 3);
    n = stop_feed(&state, NULL, 0, VIEW("c"), out, &hit);
    TEST_CHECK(n == 4 && !hit && !memcmp(out, "aaac", 4));
}

int main(void)
{
    TEST_RUN(test_all_cuts);
    TEST_RUN(test_random);
    TEST_RUN(test_timing);
    TEST_RUN(test_longest);
    return unit_report("stop");
}
