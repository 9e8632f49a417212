/* test_zmtp.c - messages of ZeroMQ sockets, as bytes. */
#include "net/zmtp.h"

#include "unit.h"

static view whole(const void *from, size_t n) { return (view){from, n}; }

static void test_greeting(void)
{
    uint8_t in[ZMTP_GREETING_BYTES];
    memcpy(in, zmtp_greeting, sizeof in);
    TEST_CHECK(zmtp_read_greeting(whole(in, sizeof in)) == ZMTP_WHOLE);
    for (size_t n = 0; n < sizeof in; n++)
        TEST_CHECK(zmtp_read_greeting(whole(in, n)) == ZMTP_PARTIAL);
    in[11] = 1; /* a later minor version */
    TEST_CHECK(zmtp_read_greeting(whole(in, sizeof in)) == ZMTP_WHOLE);
    in[10] = 1; /* ZMTP 2 */
    TEST_CHECK(zmtp_read_greeting(whole(in, 11)) == ZMTP_BROKEN);
    in[10] = 3;
    memcpy(in + 12, "PLAIN", 5);
    TEST_CHECK(zmtp_read_greeting(whole(in, sizeof in)) == ZMTP_BROKEN);
    TEST_CHECK(zmtp_read_greeting(view_of("GET / HTTP/1.1\r\n")) == ZMTP_BROKEN);
}

static void test_frames(void)
{
    static const size_t sizes[] = {0, 1, 255, 256, 1000};
    static char body[1000];
    zmtp_frame f;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        bytes out = {.max = 4096};
        TEST_CHECK(!zmtp_write_frame(&out, i % 2, false, whole(body, sizes[i])));
        TEST_CHECK(out.len == sizes[i] + (sizes[i] > 255 ? 9 : 2));
        for (size_t n = 0; n < out.len; n++)
            TEST_CHECK(zmtp_read_frame(whole(out.ptr, n), 1000, &f) == ZMTP_PARTIAL);
        TEST_CHECK(zmtp_read_frame(whole(out.ptr, out.len), 1000, &f) == ZMTP_WHOLE);
        TEST_CHECK(f.body.len == sizes[i] && f.size == out.len && f.more == i % 2 && !f.command);
        TEST_CHECK(sizes[i] < 1000 ||
                   zmtp_read_frame(whole(out.ptr, out.len), 999, &f) == ZMTP_BROKEN);
        bytes_free(&out);
    }
    TEST_CHECK(zmtp_read_frame(whole("\x08", 1), 1000, &f) == ZMTP_BROKEN); /* a reserved flag */
    TEST_CHECK(zmtp_read_frame(whole("\x05", 1), 1000, &f) == ZMTP_BROKEN); /* half a command */
    TEST_CHECK(zmtp_read_frame(whole("\x02\xff\xff\xff\xff\xff\xff\xff\xff", 9), SIZE_MAX, &f) ==
               ZMTP_PARTIAL);
}

static void test_ready(void)
{
    static const char cut[] = "\x0bSocket-Type\0\0\0\x09SUB";
    zmtp_frame f;
    view rest, type;
    bytes out = {.max = 4096};
    TEST_CHECK(!zmtp_write_ready(&out, "ROUTER"));
    TEST_CHECK(zmtp_read_frame(whole(out.ptr, out.len), 1000, &f) == ZMTP_WHOLE && f.command);
    TEST_CHECK(zmtp_is_command(&f, "READY", &rest) && !zmtp_is_command(&f, "PING", &rest));
    type = zmtp_property(rest, "socket-type");
    TEST_CHECK(type.len == 6 && !memcmp(type.ptr, "ROUTER", 6));
    TEST_CHECK(zmtp_property(rest, "Identity").len == 0);
    for (size_t n = 0; n < sizeof cut; n++)
        TEST_CHECK(zmtp_property(whole(cut, n), "Socket-Type").len == 0);
    bytes_free(&out);
}

int main(void)
{
    TEST_RUN(test_greeting);
    TEST_RUN(test_frames);
    TEST_RUN(test_ready);
    return unit_report("zmtp");
}
