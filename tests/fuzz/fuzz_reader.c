/* fuzz_reader.c - any sampled text, in any cuts: the parts are those of the whole
 * text, calls have names and end at most once, and contain only arguments.  The first
 * byte chooses the form, the second how the text is cut, the rest is the text. */
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const forms[] = {"",           "chatml",     "qwen3",
                                    "qwen3-coder", "qwen3.5",    "harmony",
                                    "llama2",      "llama3.1",   "mistral-v3",
                                    "mistral-v7",  "mistral-v7-tekken",
    /* Of templates: tags for arguments, and objects. */
    "{\"section\":\"<c>\",\"section_end\":\"</c>\",\"open\":\"<f n=\",\"name_end\":\">\",\"key\":"
    "\"<k>\",\"key_end\":\"<s>\",\"json_key_end\":\"<j>\",\"value_end\":\"</v>\",\"end\":\"</f>\"}",
    "{\"json\":true,\"section\":\"<c>\",\"open\":\"<f>\",\"name_end\":\":\\u0001<a>\",\"end\":"
    "\"</f>\",\"section_end\":\"</c>\"}",
    "{\"json\":true,\"section\":\"<c>[\",\"open\":\"{\\\"i\\\": \\\"\\u0001\\\", \\\"name\\\": "
    "\\\"\",\"name_end\":\"\\\", \\\"a\\\": \",\"end\":\"}\",\"between\":\", \",\"section_end\":"
    "\"]</c>\",\"opens_thought\":true}",
    "{\"json\":true,\"open\":\"<f>\",\"name_end\":\" <a>\",\"end\":\", \\u0001}\"}"};

static const cerium_tool tools[] = {
    {"exec", NULL, "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"},"
                   "\"n\":{\"type\":\"integer\"},\"ok\":{\"type\":\"boolean\"},"
                   "\"s\":{\"type\":[\"string\",\"null\"]},\"any\":{}}}"},
    {"patch", NULL, NULL},
    {"broken", NULL, "{"},
};

typedef struct {
    bytes out;
    int kind;
    bool in_call;
} transcript;

static int write_part(void *user, const cerium_part *part)
{
    transcript *t = user;
    bool call = part->kind == CERIUM_PART_CALL, end = part->kind == CERIUM_PART_CALL_END;
    char mark = (char)('0' + part->kind);
    /* Only a call that the answer cuts off has no end, and nothing follows it except held
     * text of it. */
    CHECK((!end && part->kind != CERIUM_PART_ARGUMENTS) || t->in_call);
    CHECK(end == (part->text_len == 0));
    t->in_call = (t->in_call || call) && !end;
    if (call || end || (int)part->kind != t->kind) CHECK(!bytes_append(&t->out, &mark, 1));
    CHECK(!bytes_append(&t->out, part->text, part->text_len));
    t->kind = (int)part->kind;
    return CERIUM_OK;
}

static transcript read_cut(const char *form, view text, uint32_t seed)
{
    transcript t = {.out = {.max = SIZE_MAX}, .kind = -1};
    cerium_reader *r = NULL;
    CHECK(!cerium_reader_open(&r, form, tools, ARRAY_LEN(tools), NULL));
    for (size_t i = 0, n; i < text.len; i += n) {
        seed = seed * 1664525 + 1013904223;
        n = seed ? 1 + (seed >> 24) % 23 : text.len;
        if (n > text.len - i) n = text.len - i;
        char *piece = memory_copy(text.ptr + i, n);
        CHECK(piece && !cerium_reader_feed(r, piece, n, write_part, &t));
        memory_free(piece);
    }
    CHECK(!cerium_reader_end(r, true, write_part, &t));
    cerium_reader_close(&r);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const char *form = forms[data[0] % ARRAY_LEN(forms)];
    view text = {(const char *)data + 2, size - 2};
    transcript a = read_cut(form, text, data[1]), b = read_cut(form, text, data[1] + 77u);
    CHECK(view_equal((view){a.out.ptr, a.out.len}, (view){b.out.ptr, b.out.len}));
    bytes_free(&a.out);
    bytes_free(&b.out);
    return 0;
}
