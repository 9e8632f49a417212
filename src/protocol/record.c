/* record.c - recorded answers as JSON.  64-bit numbers are hexadecimal text: JSON has none. */
#include "protocol/record.h"

#include <float.h>
#include <math.h>

#include "base/json.h"
#include "protocol/json_out.h"

enum { RECORD_VERSION = 1 };

static const char hex_digits[] = "0123456789abcdef";

static void to_hex(const void *bytes_, size_t n, char *out)
{
    const unsigned char *b = bytes_;
    for (size_t i = 0; i < n; i++) {
        *out++ = hex_digits[b[i] >> 4];
        *out++ = hex_digits[b[i] & 15];
    }
    *out = '\0';
}

/* *n bytes, at most cap. */
static bool from_hex(const char *text, void *out, size_t cap, size_t *n)
{
    unsigned char *to = out;
    size_t len = text ? strlen(text) : 1;
    if (len % 2 || len / 2 > cap) return false;
    for (size_t i = 0; i < len; i++) {
        const char *at = strchr(hex_digits, text[i]);
        if (!at) return false;
        to[i / 2] = (unsigned char)(i % 2 ? to[i / 2] << 4 | (at - hex_digits) : at - hex_digits);
    }
    *n = len / 2;
    return true;
}

void record_digest_text(const unsigned char *digest, char out[RECORD_DIGEST_DIGITS + 1])
{
    to_hex(digest, CERIUM_DIGEST_BYTES, out);
}

/* ---- writing ---- */

static void put_tokens(json_out *t, const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_out_put(t, i ? VIEW(",") : VIEW("["));
        json_out_integer(t, tokens[i]);
    }
    json_out_put(t, n ? VIEW("]") : VIEW("[]"));
}

static void put_u64(json_out *t, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    json_out_string(t, text);
}

static void put_model(json_out *t, const record *r)
{
    json_out_literal(t, "\"model\":{");
    if (r->sha256[0]) {
        json_out_literal(t, "\"sha256\":");
        json_out_string(t, r->sha256);
    } else {
        json_out_literal(t, "\"fingerprint\":");
        put_u64(t, r->fingerprint);
    }
    json_out_literal(t, ",\"kv_type\":");
    json_out_string(t, r->kv_type);
    json_out_literal(t, ",\"exact\":");
    json_out_bool(t, r->exact);
    json_out_literal(t, "}");
}

static void put_float(json_out *t, const char *name, float value)
{
    json_out_key(t, name);
    json_out_float(t, value);
    json_out_literal(t, ",");
}

static void put_sampling(json_out *t, const cerium_sampling *s)
{
    json_out_literal(t, "\"sampling\":{");
    put_float(t, "temperature", s->temperature);
    put_float(t, "top_p", s->top_p);
    put_float(t, "min_p", s->min_p);
    put_float(t, "repetition_penalty", s->repetition_penalty);
    put_float(t, "presence_penalty", s->presence_penalty);
    put_float(t, "frequency_penalty", s->frequency_penalty);
    put_float(t, "pointer", s->pointer);
    json_out_key(t, "top_k");
    json_out_integer(t, s->top_k);
    json_out_literal(t, ",\"repetition_tokens\":");
    json_out_integer(t, s->repetition_tokens);
    json_out_literal(t, ",\"seed\":");
    put_u64(t, s->seed);
    json_out_literal(t, ",\"ignore_end\":");
    json_out_bool(t, s->ignore_end);
    json_out_literal(t, "}");
}

int record_write(const record *r, view text, bytes *out)
{
    char digest[RECORD_DIGEST_DIGITS + 1], heal[2 * CERIUM_HEAL_PREFIX_MAX + 1];
    json_out t = {.b = *out};
    record_digest_text(r->digest, digest);
    to_hex(r->heal_prefix, r->n_heal, heal);
    json_out_literal(&t, "{\"object\":\"cerium.record\",\"version\":1,\"cerium\":\"" CERIUM_VERSION
                         "\",");
    put_model(&t, r);
    json_out_literal(&t, ",");
    put_sampling(&t, &r->sampling);
    json_out_literal(&t, ",\"prompt\":");
    put_tokens(&t, r->prompt, r->n_prompt);
    json_out_literal(&t, ",\"heal_prefix\":");
    json_out_string(&t, heal);
    if (text.ptr) {
        json_out_literal(&t, ",\"text\":");
        json_out_quoted(&t, text);
    }
    json_out_literal(&t, ",\"tokens\":");
    put_tokens(&t, r->tokens, r->n_tokens);
    json_out_literal(&t, ",\"digest\":");
    json_out_string(&t, digest);
    json_out_literal(&t, ",\"marks\":[");
    for (size_t i = 0; i < r->n_tokens; i++) {
        if (i) json_out_literal(&t, ",");
        put_u64(&t, r->marks[i]);
    }
    json_out_literal(&t, "]}");
    *out = t.b;
    return t.status;
}

/* ---- reading ---- */

static const char no_memory[] = "no memory";

/* Token ids, at least one.  NULL: invalid, or no memory. */
static int32_t *read_tokens(const json_t *list, size_t *n)
{
    *n = json_array_size(list);
    if (*n == 0 || *n > RECORD_TOKENS_MAX) return NULL;
    int32_t *out = memory_alloc(*n * sizeof *out);
    for (size_t i = 0; out && i < *n; i++) {
        const json_t *one = json_array_get(list, i);
        json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        if (id < 0 || id > INT32_MAX) {
            memory_free(out);
            return NULL;
        }
        out[i] = (int32_t)id;
    }
    return out;
}

static bool read_u64(const json_t *value, uint64_t *out)
{
    unsigned char b[8];
    size_t n;
    if (!from_hex(json_string_value(value), b, sizeof b, &n) || n != sizeof b) return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) *out = *out << 8 | b[i];
    return true;
}

static bool read_marks(record *r, const json_t *list)
{
    if (json_array_size(list) != r->n_tokens) return false;
    r->marks = memory_alloc(r->n_tokens * sizeof *r->marks);
    bool good = r->marks != NULL;
    for (size_t i = 0; good && i < r->n_tokens; i++)
        good = read_u64(json_array_get(list, i), &r->marks[i]);
    return good;
}

static bool read_sampling(record *r, const json_t *from)
{
    double temperature, top_p, min_p, repetition, presence, frequency, pointer;
    int ignore_end;
    json_int_t top_k, recent;
    json_error_t why;
    if (json_unpack_ex((json_t *)from, &why, 0,
                       "{s:F, s:F, s:F, s:I, s:F, s:I, s:F, s:F, s:F, s:b}", "temperature",
                       &temperature, "top_p", &top_p, "min_p", &min_p, "top_k", &top_k,
                       "repetition_penalty", &repetition, "repetition_tokens", &recent,
                       "presence_penalty", &presence, "frequency_penalty", &frequency, "pointer",
                       &pointer, "ignore_end", &ignore_end))
        return false;
    const double all[] = {temperature, top_p, min_p, repetition, presence, frequency, pointer};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (!(fabs(all[i]) <= FLT_MAX)) return false;
    if (top_k < 0 || top_k > INT32_MAX || recent < 0 || recent > INT32_MAX) return false;
    r->sampling = (cerium_sampling){.temperature = (float)temperature,
                                    .top_p = (float)top_p,
                                    .min_p = (float)min_p,
                                    .top_k = (uint32_t)top_k,
                                    .repetition_penalty = (float)repetition,
                                    .repetition_tokens = (uint32_t)recent,
                                    .presence_penalty = (float)presence,
                                    .frequency_penalty = (float)frequency,
                                    .pointer = (float)pointer,
                                    .ignore_end = ignore_end != 0,
                                    .digest = true};
    return read_u64(json_object_get(from, "seed"), &r->sampling.seed);
}

static bool read_model(record *r, const json_t *model)
{
    const char *sha = json_string_value(json_object_get(model, "sha256"));
    if (!sha) return read_u64(json_object_get(model, "fingerprint"), &r->fingerprint);
    if (strlen(sha) != RECORD_SHA_DIGITS) return false;
    memcpy(r->sha256, sha, sizeof r->sha256);
    return true;
}

static bool is_record(const json_t *value)
{
    const char *kind = json_string_value(json_object_get(value, "object"));
    return kind && !strcmp(kind, "cerium.record");
}

/* NULL, or the error. */
static const char *read_one(record *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const char *kv = json_string_value(json_object_get(model, "kv_type"));
    size_t n;
    if (!is_record(root)) return "object is not \"cerium.record\"";
    if (json_integer_value(json_object_get(root, "version")) != RECORD_VERSION)
        return "its version is not 1";
    if (!read_model(r, model)) return "model has no sha256, and no fingerprint";
    if (!kv || strlen(kv) >= sizeof r->kv_type) return "model.kv_type is missing";
    memcpy(r->kv_type, kv, strlen(kv) + 1);
    r->exact = json_is_true(json_object_get(model, "exact"));
    r->prompt = read_tokens(json_object_get(root, "prompt"), &r->n_prompt);
    if (!r->prompt) return "prompt is not a list of token ids";
    r->tokens = read_tokens(json_object_get(root, "tokens"), &r->n_tokens);
    if (!r->tokens) return "tokens is not a list of token ids";
    if (!read_marks(r, json_object_get(root, "marks"))) return "marks are not those of its tokens";
    if (!read_sampling(r, json_object_get(root, "sampling"))) return "sampling is not whole";
    if (!from_hex(json_string_value(json_object_get(root, "heal_prefix")), r->heal_prefix,
                  sizeof r->heal_prefix, &r->n_heal))
        return "heal_prefix is not hexadecimal";
    if (!from_hex(json_string_value(json_object_get(root, "digest")), r->digest, sizeof r->digest,
                  &n) || n != sizeof r->digest)
        return "digest is not 32 hexadecimal digits";
    return NULL;
}

/* For an answer, usage.cerium_digests has one for each choice, or the reason for none. */
static const char *read_all(record_list *out, const json_t *root)
{
    const json_t *digests = json_object_get(json_object_get(root, "usage"), "cerium_digests");
    const bool alone = is_record(root);
    const char *wrong = NULL;
    const size_t n = alone ? 1 : json_array_size(digests);
    if (!alone && !json_is_array(digests)) return "object is not \"cerium.record\"";
    out->all = memory_zalloc(n ? n : 1, sizeof *out->all);
    if (!out->all) return no_memory;
    for (size_t i = 0; i < n && !wrong; i++) {
        const json_t *one =
            alone ? root : json_object_get(json_array_get(digests, i), "record");
        if (json_is_object(one)) wrong = read_one(&out->all[out->n++], one);
    }
    return wrong || out->n ? wrong : "the answer has none: ask with \"cerium_digest\": \"record\"";
}

int record_read(record_list *out, view text, const char **wrong)
{
    *out = (record_list){.n = 0};
    json_t *root = json_read(text, JSON_ALLOW_NUL, NULL);
    *wrong = root ? read_all(out, root) : "it is no JSON";
    json_decref(root);
    if (!*wrong) return CERIUM_OK;
    record_list_free(out);
    return *wrong == no_memory ? CERIUM_ERR_MEMORY : CERIUM_ERR_FORMAT;
}

void record_list_free(record_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        memory_free(list->all[i].prompt);
        memory_free(list->all[i].tokens);
        memory_free(list->all[i].marks);
    }
    memory_free(list->all);
    *list = (record_list){.n = 0};
}
