/* test_record.c - records of answers: written, read back, refused by name, and out of memory. */
#include "protocol/protocol.h"
#include "protocol/record.h"

#include "unit.h"

static int32_t prompt[] = {5, 0, INT32_MAX}, tokens[] = {7, 8};
static uint64_t marks[] = {UINT64_MAX, 1};

static record a_record(void)
{
    record r = {.fingerprint = 0xfedcba9876543210, .kv_type = "i8", .exact = true,
                .prompt = prompt, .n_prompt = 3, .tokens = tokens, .n_tokens = 2, .marks = marks,
                .sampling = {.temperature = 0.1f, .top_p = 0.95f, .top_k = 40,
                             .repetition_penalty = 1, .repetition_tokens = 64,
                             .presence_penalty = -2, .seed = UINT64_MAX},
                .heal_prefix = "\xff a", .n_heal = 3};
    memset(r.digest, 0xa5, sizeof r.digest);
    return r;
}

static bytes written(const record *r)
{
    bytes out = {.max = 1 << 20};
    TEST_CHECK(!record_write(r, VIEW("said \xff"), &out));
    return out;
}

static void check_read(const record *got)
{
    const record want = a_record();
    TEST_CHECK(!strcmp(got->sha256, want.sha256) && got->fingerprint == want.fingerprint);
    TEST_CHECK(!strcmp(got->kv_type, "i8") && got->exact);
    TEST_CHECK(got->n_prompt == 3 && !memcmp(got->prompt, prompt, sizeof prompt));
    TEST_CHECK(got->n_tokens == 2 && !memcmp(got->tokens, tokens, sizeof tokens));
    TEST_CHECK(!memcmp(got->marks, marks, sizeof marks));
    TEST_CHECK(got->n_heal == 3 && !memcmp(got->heal_prefix, want.heal_prefix, 3));
    TEST_CHECK(!memcmp(got->digest, want.digest, sizeof want.digest));
    const cerium_sampling *a = &got->sampling, *b = &want.sampling;
    TEST_CHECK(a->temperature == b->temperature && a->top_p == b->top_p && a->top_k == 40);
    TEST_CHECK(a->seed == b->seed && a->presence_penalty == -2 && a->repetition_tokens == 64);
    TEST_CHECK(a->digest);
}

static void test_again(void)
{
    record_list list;
    const char *wrong;
    record r = a_record();
    bytes text = written(&r);
    TEST_CHECK(!record_read(&list, (view){text.ptr, text.len}, &wrong) && list.n == 1);
    if (list.n) check_read(&list.all[0]);
    record_list_free(&list);
    bytes_free(&text);
    memset(r.sha256, 'e', RECORD_SHA_DIGITS);
    text = written(&r);
    TEST_CHECK(!record_read(&list, (view){text.ptr, text.len}, &wrong) && list.n == 1);
    if (list.n) TEST_CHECK(!strcmp(list.all[0].sha256, r.sha256) && !list.all[0].fingerprint);
    record_list_free(&list);
    bytes_free(&text);
}

/* An answer has one record per choice, or a reason why there is none. */
static bytes answer_of(view first, view last)
{
    bytes out = {.max = 1 << 20};
    static const view a = VIEW("{\"object\":\"response\",\"usage\":{\"cerium_digests\":["),
                      b = VIEW("]}}");
    const view parts[] = {a, first, VIEW(","), last, b};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        TEST_CHECK(!bytes_append(&out, parts[i].ptr, parts[i].len));
    return out;
}

static void test_answers(void)
{
    record_list list;
    const char *wrong;
    record r = a_record();
    bytes one = written(&r), of_choice = {.max = 1 << 20};
    TEST_CHECK(!bytes_append(&of_choice, "{\"record\":", 10));
    TEST_CHECK(!bytes_append(&of_choice, one.ptr, one.len));
    TEST_CHECK(!bytes_append(&of_choice, "}", 1));
    const view whole = {of_choice.ptr, of_choice.len};
    bytes two = answer_of(whole, whole);
    TEST_CHECK(!record_read(&list, (view){two.ptr, two.len}, &wrong) && list.n == 2);
    for (size_t i = 0; i < list.n; i++) check_read(&list.all[i]);
    record_list_free(&list);
    bytes_free(&two);
    two = answer_of(VIEW("{\"digest\":null,\"reason\":\"x\"}"), whole);
    TEST_CHECK(!record_read(&list, (view){two.ptr, two.len}, &wrong) && list.n == 1);
    record_list_free(&list);
    bytes_free(&two);
    two = answer_of(VIEW("null"), VIEW("{\"record\":{\"object\":\"cerium.record\"}}"));
    TEST_CHECK(record_read(&list, (view){two.ptr, two.len}, &wrong) == CERIUM_ERR_FORMAT);
    bytes_free(&two);
    two = answer_of(VIEW("null"), VIEW("7"));
    TEST_CHECK(record_read(&list, (view){two.ptr, two.len}, &wrong) == CERIUM_ERR_FORMAT);
    TEST_CHECK(strstr(wrong, "cerium_digest") != NULL);
    bytes_free(&two);
    bytes_free(&of_choice);
    bytes_free(&one);
}

/* Invalid records, and a word from the line with the reason. */
static void test_refused(void)
{
    static const struct {
        const char *from, *to, *word;
    } cases[] = {
        {"cerium.record", "cerium.recorb", "object"}, {"\"version\":1", "\"version\":2", "version"},
        {"fingerprint", "fingerprins", "fingerprint"}, {"\"i8\"", "\"i8888888\"", "kv_type"},
        {"[5,0,", "[5,-1,", "prompt"},           {"[7,8]", "[7,8,9]", "marks"},
        {"[7,8]", "[]", "tokens"},               {"[7,8]", "[7,2147483648]", "tokens"},
        {"\"top_k\":40", "\"top_k\":-1", "sampling"}, {"\"min_p\":0", "\"min_p\":1e99", "sampling"},
        {"\"seed\":\"f", "\"seed\":\"g", "sampling"}, {"a5a5a5", "a5a5", "digest"},
        {"\"heal_prefix\":\"ff", "\"heal_prefix\":\"f", "heal_prefix"}, {"{", "", "JSON"},
    };
    record r = a_record();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bytes text = written(&r), changed = {.max = 1 << 20};
        record_list list;
        const char *wrong = "";
        const size_t len = strlen(cases[i].from);
        const char *at = memmem(text.ptr, text.len, cases[i].from, len);
        TEST_CHECK_THAT(at, "%s", cases[i].from);
        if (!at) continue;
        const size_t before = (size_t)(at - text.ptr);
        TEST_CHECK(!bytes_append(&changed, text.ptr, before));
        TEST_CHECK(!bytes_append(&changed, cases[i].to, strlen(cases[i].to)));
        TEST_CHECK(!bytes_append(&changed, at + len, text.len - before - len));
        int status = record_read(&list, (view){changed.ptr, changed.len}, &wrong);
        TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && strstr(wrong, cases[i].word) && !list.all,
                        "%s: %s", cases[i].to, wrong ? wrong : "read");
        if (!status) record_list_free(&list);
        bytes_free(&text);
        bytes_free(&changed);
    }
}

/* Every allocation fails in turn: nothing is half read, or lost. */
static void test_no_memory(void)
{
    record r = a_record();
    bytes text = written(&r);
    const long n_live = memory_live();
    int status = CERIUM_ERR_MEMORY;
    long n = 0;
    for (; status && n < 1000; n++) {
        record_list list;
        const char *wrong;
        memory_fail_at(n);
        status = record_read(&list, (view){text.ptr, text.len}, &wrong);
        memory_fail_at(-1);
        TEST_CHECK(status ? wrong && !list.all : list.n == 1);
        if (!status) check_read(&list.all[0]);
        record_list_free(&list);
        TEST_CHECK_THAT(memory_live() == n_live, "%ld", n);
    }
    TEST_CHECK_THAT(n > 4 && n < 1000, "%ld", n);
    status = CERIUM_ERR_MEMORY;
    for (n = 0; status && n < 1000; n++) {
        bytes out = {.max = 1 << 20};
        memory_fail_at(n);
        status = record_write(&r, VIEW("x"), &out);
        memory_fail_at(-1);
        bytes_free(&out);
        TEST_CHECK(memory_live() == n_live);
    }
    TEST_CHECK(n > 1 && n < 1000);
    bytes out = {.max = 100};
    TEST_CHECK(record_write(&r, VIEW("x"), &out) == CERIUM_ERR_CAPACITY);
    bytes_free(&out);
    bytes_free(&text);
}

/* usage.cerium_digests of a Chat answer of two choices, one of which has none; no failed allocation
 * is ignored silently. */
static void test_usage(void)
{
    const protocol_defaults defaults = {.has_chat_form = true};
    protocol_request *r = NULL;
    protocol_error e;
    TEST_CHECK(!protocol_request_parse(
        &r, PROTOCOL_CHAT,
        VIEW("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"n\":2,"
             "\"cerium_digest\":\"record\"}"),
        &defaults, &e));
    if (!r) return;
    TEST_CHECK(r->sampling.digest && r->wants_record);
    const protocol_answer answer = {.request = r, .id = "chatcmpl-1", .model = "m"};
    const protocol_usage usage = {.output_tokens = 2};
    int status = CERIUM_ERR_MEMORY;
    long n = 0;
    for (const long n_live = memory_live(); status && n < 1000; n++) {
        protocol_writer *w = NULL;
        bytes body = {.max = 1 << 20};
        memory_fail_at(n);
        status = protocol_writer_open(&w, &answer);
        if (!status) status = protocol_writer_begin(w);
        if (!status) status = protocol_writer_digest(w, 0, "00ff", 2, VIEW("{\"a\":1}"), NULL);
        if (!status) status = protocol_writer_digest(w, 1, NULL, 0, (view){0}, "why");
        for (uint32_t i = 0; i < 2 && !status; i++)
            status = protocol_writer_end(w, i, PROTOCOL_END_STOP, &usage, NULL);
        if (!status) status = protocol_writer_body(w, &body);
        memory_fail_at(-1);
        static const char want[] =
            "\"cerium_digests\":[{\"digest\":\"00ff\",\"tokens\":2,\"record\":{\"a\":1}},"
            "{\"digest\":null,\"tokens\":0,\"reason\":\"why\"}]}";
        if (!status) TEST_CHECK(memmem(body.ptr, body.len, want, sizeof want - 1));
        bytes_free(&body);
        protocol_writer_free(&w);
        TEST_CHECK(memory_live() == n_live);
    }
    TEST_CHECK_THAT(n > 4 && n < 1000, "%ld", n);
    protocol_request_free(&r);
}

int main(void)
{
    TEST_RUN(test_again);
    TEST_RUN(test_answers);
    TEST_RUN(test_refused);
    TEST_RUN(test_no_memory);
    TEST_RUN(test_usage);
    return unit_report("record");
}
