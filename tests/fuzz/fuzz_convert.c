/* fuzz_convert.c - any texts as config.json, tokenizer.json and tokenizer_config.json, joined
 * with a NUL between them. */
#include "base/memory.h"
#include "convert/convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 300, ROTATED_MAX = 4096 };

static view cut(view *rest)
{
    const char *end = memchr(rest->ptr, 0, rest->len);
    view first = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    size_t used = end ? first.len + 1 : first.len;
    *rest = (view){rest->ptr + used, rest->len - used};
    return first;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float divisors[ROTATED_MAX];
    long live = memory_live();
    view rest = {(const char *)data, size};
    convert_config config;
    convert_vocabulary *vocabulary = NULL;
    cerium_error err = {0};
    int status = convert_config_parse(&config, cut(&rest), &err);
    CHECK(!status || (status == CERIUM_ERR_FORMAT && err.message[0]));
    if (!status) {
        CHECK(config.n_layers && config.n_heads % config.n_kv_heads == 0);
        if (config.head_dim <= 2 * ROTATED_MAX) convert_rope_divisors(&config, divisors);
    }
    view tokenizer = cut(&rest);
    status = convert_vocabulary_parse(&vocabulary, tokenizer, cut(&rest), NULL, TOKENS, &err);
    CHECK((status == 0) == (vocabulary != NULL));
    convert_vocabulary_free(&vocabulary);
    CHECK(memory_live() == live);
    return 0;
}
