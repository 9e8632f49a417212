/* record.c - recorded answers as JSON.  64-bit numbers are hexadecimal text: JSON has none. */
#include "programs/record.h"

#include <errno.h>
#include <stdlib.h>
#include <jansson.h>

#include "programs/output.h"

enum { RECORD_BYTES_MAX = 256 << 20, RECORD_VERSION = 1 };

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

void record_digest_text(const unsigned char *digest, char out[2 * CERIUM_DIGEST_BYTES + 1])
{
    to_hex(digest, CERIUM_DIGEST_BYTES, out);
}

/* ---- writing ---- */

/* NULL when memory runs out, as the two below. */
static json_t *tokens_json(const int32_t *tokens, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_integer(tokens[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *u64_json(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    return json_string(text);
}

static json_t *marks_json(const record *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_tokens; i++)
        if (json_array_append_new(list, u64_json(r->marks[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *sampling_json(const cerium_sampling *s)
{
    return json_pack("{s:f, s:f, s:f, s:i, s:f, s:i, s:f, s:f, s:f, s:o, s:b}", "temperature",
                     (double)s->temperature, "top_p", (double)s->top_p, "min_p", (double)s->min_p,
                     "top_k", (int)s->top_k, "repetition_penalty", (double)s->repetition_penalty,
                     "repetition_tokens", (int)s->repetition_tokens, "presence_penalty",
                     (double)s->presence_penalty, "frequency_penalty",
                     (double)s->frequency_penalty, "pointer", (double)s->pointer, "seed",
                     u64_json(s->seed), "ignore_end", (int)s->ignore_end);
}

int record_write(const record *r, const char *path, view text, cerium_error *err)
{
    char digest[2 * CERIUM_DIGEST_BYTES + 1], heal[2 * CERIUM_HEAL_PREFIX_MAX + 1];
    record_digest_text(r->digest, digest);
    to_hex(r->heal_prefix, r->n_heal, heal);
    json_t *all = json_pack(
        "{s:s, s:i, s:s, s:{s:s, s:s, s:b}, s:o, s:o, s:s, s:o, s:o, s:s, s:o}", "object",
        "cerium.record", "version", RECORD_VERSION, "cerium", CERIUM_VERSION, "model", "sha256",
        r->sha256, "kv_type", r->kv_type, "exact", (int)r->exact, "sampling",
        sampling_json(&r->sampling), "prompt", tokens_json(r->prompt, r->n_prompt), "heal_prefix",
        heal, "text", json_text(text), "tokens", tokens_json(r->tokens, r->n_tokens), "digest",
        digest, "marks", marks_json(r));
    if (!all) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the record");
    int failed_ = json_dump_file(all, path, JSON_COMPACT);
    json_decref(all);
    if (failed_) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    return CERIUM_OK;
}

/* ---- reading ---- */

/* Token ids, at least one.  NULL: not so, or no memory. */
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
    int top_k, recent, ignore_end;
    json_error_t why;
    if (json_unpack_ex((json_t *)from, &why, 0,
                       "{s:F, s:F, s:F, s:i, s:F, s:i, s:F, s:F, s:F, s:b}", "temperature",
                       &temperature, "top_p", &top_p, "min_p", &min_p, "top_k", &top_k,
                       "repetition_penalty", &repetition, "repetition_tokens", &recent,
                       "presence_penalty", &presence, "frequency_penalty", &frequency, "pointer",
                       &pointer, "ignore_end", &ignore_end))
        return false;
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

static const char *read_all(record *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const char *kind = json_string_value(json_object_get(root, "object"));
    const char *sha = json_string_value(json_object_get(model, "sha256"));
    const char *kv = json_string_value(json_object_get(model, "kv_type"));
    size_t n;
    if (!kind || strcmp(kind, "cerium.record")) return "object is not \"cerium.record\"";
    if (json_integer_value(json_object_get(root, "version")) != RECORD_VERSION)
        return "its version is not 1";
    if (!sha || strlen(sha) != RECORD_SHA_DIGITS) return "model.sha256 is missing";
    if (!kv || strlen(kv) >= sizeof r->kv_type) return "model.kv_type is missing";
    memcpy(r->sha256, sha, sizeof r->sha256);
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

int record_read(record *r, const char *path, cerium_error *err)
{
    bytes text = {.max = RECORD_BYTES_MAX};
    json_error_t why;
    *r = (record){.n_prompt = 0};
    int status = read_file(path, &text, err);
    if (!status) {
        json_t *root = json_loadb(text.ptr ? text.ptr : "", text.len, JSON_ALLOW_NUL, &why);
        const char *wrong = root ? read_all(r, root) : why.text;
        if (wrong) status = error_set(err, CERIUM_ERR_FORMAT, "%s: no record: %s", path, wrong);
        json_decref(root);
    }
    bytes_free(&text);
    if (status) record_free(r);
    return status;
}

void record_free(record *r)
{
    memory_free(r->prompt);
    memory_free(r->tokens);
    memory_free(r->marks);
    *r = (record){.n_prompt = 0};
}
