/* fuzz_record.c - any bytes as a record: it is read or refused with one line, and a record
 * stays the same when it is written and read again. */
#include "protocol/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const record *a, const record *b)
{
    CHECK(!strcmp(a->sha256, b->sha256) && !strcmp(a->kv_type, b->kv_type));
    CHECK(a->fingerprint == b->fingerprint && a->exact == b->exact);
    CHECK(a->n_prompt == b->n_prompt && a->n_tokens == b->n_tokens && a->n_heal == b->n_heal);
    CHECK(!memcmp(a->prompt, b->prompt, a->n_prompt * sizeof *a->prompt));
    CHECK(!memcmp(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens));
    CHECK(!memcmp(a->marks, b->marks, a->n_tokens * sizeof *a->marks));
    CHECK(!memcmp(a->heal_prefix, b->heal_prefix, a->n_heal));
    CHECK(!memcmp(a->digest, b->digest, sizeof a->digest));
    CHECK(a->sampling.seed == b->sampling.seed && a->sampling.top_k == b->sampling.top_k);
    CHECK(!memcmp(&a->sampling.temperature, &b->sampling.temperature, sizeof(float)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    record_list list, again;
    const char *wrong;
    int status = record_read(&list, (view){(const char *)data, size}, &wrong);
    CHECK(status ? wrong && !strchr(wrong, '\n') && !list.all : !wrong && list.n);
    for (size_t i = 0; i < list.n; i++) {
        bytes text = {.max = RECORD_BYTES_MAX};
        CHECK(!record_write(&list.all[i], VIEW("a text"), &text));
        CHECK(!record_read(&again, (view){text.ptr, text.len}, &wrong) && again.n == 1);
        check_same(&list.all[i], &again.all[0]);
        record_list_free(&again);
        bytes_free(&text);
    }
    record_list_free(&list);
    return 0;
}
