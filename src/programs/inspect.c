/* inspect.c - `cerium inspect`: what a model file holds, for people and as JSON.
 *
 * Reads the file itself, through gguf/, since it must also explain models that the engine cannot
 * run.  Everything printed may come from a hostile file: text is cleaned on its way out. */
#include "programs/programs.h"

#include "base/memory.h"
#include "gguf/gguf.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/residency.h"
#include "programs/type_quality.h"
#include "tokenizer/chat.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

enum {
    ITEMS_SHOWN = 8,  /* of an array */
    TEXT_SHOWN = 72,  /* bytes of a string, on a terminal */
    ITEMS_WHOLE = 16, /* JSON: arrays up to this long are given whole */
};

typedef struct {
    options o;
    const char *model;
    bool tensors, values, plan;
    uint32_t context, threads; /* of the plan; 0 = the model's, the machine's */
    uint32_t kv_value_bytes;
} inspect_options;

typedef struct {
    uint64_t n_tensors, n_parameters, bytes;
} type_share;

enum { FIM_PREFIX, FIM_SUFFIX, FIM_MIDDLE, FIM_ROLES };

typedef struct {
    const gguf_file *file;
    view name, arch, tokenizer, pre, chat_template;
    char chat_form[32];     /* "" where there is none, */
    char chat_calls[1024];  /* how calls are read, */
    char chat_refusal[320]; /* and why the template cannot be run; "": it can */
    uint64_t n_parameters, weight_bytes, step_bytes;
    uint64_t n_layers, n_embd, n_heads, n_kv_heads, n_ff, n_experts, n_used, context, n_vocab;
    type_share shares[BLOCK_TYPE_END];
    const gguf_value *tokens; /* NULL without a vocabulary */
    int64_t fim[FIM_ROLES];   /* token ids; -1 when there is none */
} facts;

static const char *const fim_names[FIM_ROLES] = {"prefix", "suffix", "middle"};

/* ---- text that is fit to print ---- */

/* text on standard output, at most n_max bytes of it, with nothing that moves a terminal. */
static void print_text(view text, size_t n_max)
{
    const uint8_t *p = (const uint8_t *)text.ptr;
    uint32_t code;
    size_t i = 0;
    while (i < text.len && i < n_max) {
        size_t len = utf8_at(p + i, text.len - i, &code);
        if (len == 0)
            printf("\\x%02x", p[i]);
        else if (code == '\n')
            printf("\\n");
        else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
            printf("\\x%02x", (unsigned)code);
        else
            fwrite(p + i, 1, len, stdout);
        i += len ? len : 1;
    }
    if (i < text.len) printf("...");
}

static void print_bytes(uint64_t n)
{
    if (n < 1000000)
        printf("%.1f kB", (double)n / 1e3);
    else if (n < 1000000000)
        printf("%.1f MB", (double)n / 1e6);
    else
        printf("%.2f GB", (double)n / 1e9);
}

static void print_count(uint64_t n)
{
    if (n < 1000000)
        printf("%" PRIu64, n);
    else if (n < 1000000000)
        printf("%.1f million", (double)n / 1e6);
    else
        printf("%.2f billion", (double)n / 1e9);
}

/* ---- facts ---- */

static uint64_t tensor_values(const gguf_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static const gguf_value *arch_value(const facts *f, const char *suffix)
{
    char key[160];
    snprintf(key, sizeof key, "%.*s.%s", f->arch.len < 100 ? (int)f->arch.len : 100, f->arch.ptr,
             suffix);
    return gguf_find(f->file, key);
}

static bool is_numbers(const gguf_value *value)
{
    return value && value->type == GGUF_ARRAY && value->item_type != GGUF_STRING &&
           value->item_type != GGUF_ARRAY;
}

/* "<architecture>.<suffix>", the greatest where it is an array by layer; 0 when absent. */
static uint64_t arch_number(const facts *f, const char *suffix)
{
    const gguf_value *value = arch_value(f, suffix);
    const bool is_array = is_numbers(value);
    char key[160];
    uint64_t n = 0;
    snprintf(key, sizeof key, "%.*s.%s", f->arch.len < 100 ? (int)f->arch.len : 100, f->arch.ptr,
             suffix);
    gguf_get_u64(f->file, key, &n);
    for (uint64_t i = 0; is_array && i < value->n_items; i++) {
        const int64_t one = gguf_item_i64(value, i);
        if (one > 0 && (uint64_t)one > n) n = (uint64_t)one;
    }
    return n;
}

/* Whether an array by layer has different numbers. */
static bool differs_by_layer(const facts *f, const char *suffix)
{
    const gguf_value *value = arch_value(f, suffix);
    if (!is_numbers(value)) return false;
    for (uint64_t i = 1; i < value->n_items; i++)
        if (gguf_item_i64(value, i) != gguf_item_i64(value, 0)) return true;
    return false;
}

static bool name_has(view name, const char *part)
{
    return memmem(name.ptr, name.len, part, strlen(part)) != NULL;
}

/* Bytes of a tensor that one token reads: chosen experts only, one row of an embedding that is
 * not the head too. */
static uint64_t bytes_per_step(const facts *f, const gguf_tensor *t)
{
    if (f->n_experts && f->n_used <= f->n_experts && name_has(t->name, "_exps."))
        return (uint64_t)((double)t->size / (double)f->n_experts * (double)f->n_used);
    bool embedding = view_equal(t->name, VIEW("token_embd.weight"));
    if (embedding && gguf_find_tensor(f->file, "output.weight"))
        return t->size / (tensor_values(t) / t->dims[0]);
    return t->size;
}

static void count_tensors(facts *f)
{
    for (size_t i = 0; i < gguf_n_tensors(f->file); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->file, i);
        type_share *share = &f->shares[t->type];
        share->n_tensors++;
        share->n_parameters += tensor_values(t);
        share->bytes += t->size;
        f->n_parameters += tensor_values(t);
        f->weight_bytes += t->size;
        f->step_bytes += bytes_per_step(f, t);
    }
}

static bool is_token(view text, const char *const *names)
{
    for (; *names; names++)
        if (view_equal(text, view_of(*names))) return true;
    return false;
}

/* Fill-in-the-middle tokens: by the file's own keys, else by the families' spellings. */
static void find_fim(facts *f)
{
    static const char *const keys[FIM_ROLES] = {"tokenizer.ggml.fim_pre_token_id",
                                                "tokenizer.ggml.fim_suf_token_id",
                                                "tokenizer.ggml.fim_mid_token_id"};
    static const char *const texts[FIM_ROLES][8] = {
        {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>", "▁<PRE>",
         "<|code_prefix|>", "[PREFIX]"},
        {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<｜fim▁hole｜>", "▁<SUF>",
         "<|code_suffix|>", "[SUFFIX]"},
        {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<｜fim▁end｜>", "▁<MID>",
         "<|code_middle|>", "[MIDDLE]"},
    };
    for (int role = 0; role < FIM_ROLES; role++) {
        uint64_t id;
        f->fim[role] = -1;
        if (gguf_get_u64(f->file, keys[role], &id) && id < f->n_vocab) f->fim[role] = (int64_t)id;
        for (uint64_t i = 0; f->fim[role] < 0 && i < f->n_vocab && f->tokens; i++)
            if (is_token(f->tokens->strings[i], texts[role])) f->fim[role] = (int64_t)i;
    }
}

/* As the engine would find it; a file without a vocabulary that can be read has none. */
static void find_chat_form(facts *f)
{
    tokenizer *vocabulary = NULL;
    chat_form form;
    cerium_error err;
    if (tokenizer_open(&vocabulary, f->file, &err)) return;
    if (!chat_form_open(&form, vocabulary, NULL, &err)) {
        snprintf(f->chat_form, sizeof f->chat_form, "%s", form.name);
        snprintf(f->chat_calls, sizeof f->chat_calls, "%s", form.calls ? form.calls : form.name);
        snprintf(f->chat_refusal, sizeof f->chat_refusal, "%s", form.refusal ? form.refusal : "");
        chat_form_close(&form);
    }
    tokenizer_close(&vocabulary);
}

static facts facts_of(const gguf_file *file)
{
    facts f = {.file = file};
    gguf_get_string(file, "general.name", &f.name);
    gguf_get_string(file, "general.architecture", &f.arch);
    gguf_get_string(file, "tokenizer.ggml.model", &f.tokenizer);
    gguf_get_string(file, "tokenizer.ggml.pre", &f.pre);
    gguf_get_string(file, "tokenizer.chat_template", &f.chat_template);
    f.n_layers = arch_number(&f, "block_count");
    f.n_embd = arch_number(&f, "embedding_length");
    f.n_heads = arch_number(&f, "attention.head_count");
    f.n_kv_heads = arch_number(&f, "attention.head_count_kv");
    f.n_ff = arch_number(&f, "feed_forward_length");
    f.n_experts = arch_number(&f, "expert_count");
    f.n_used = arch_number(&f, "expert_used_count");
    f.context = arch_number(&f, "context_length");
    const gguf_value *tokens = gguf_find(file, "tokenizer.ggml.tokens");
    f.tokens = tokens && tokens->strings ? tokens : NULL;
    f.n_vocab = f.tokens ? f.tokens->n_items : arch_number(&f, "vocab_size");
    count_tensors(&f);
    find_fim(&f);
    find_chat_form(&f);
    return f;
}

static view token_text(const facts *f, int64_t id)
{
    return f->tokens && id >= 0 ? f->tokens->strings[id] : (view){0};
}

/* ---- for people ---- */

static void print_label(const char *label)
{
    printf("  %-16s", label);
}

static void print_number(const char *label, uint64_t n, const char *unit)
{
    print_label(label);
    if (n)
        printf("%" PRIu64 "%s\n", n, unit);
    else
        printf("not said\n");
}

/* What a type cost where it was measured (docs/quantization.md); NULL: it was not. */
typedef struct {
    block_type type;
    double nats, same;
} type_cost;

static const type_cost *cost_of(uint32_t type)
{
#define TYPE_COST(type, nats, same) {type, nats, same},
    static const type_cost costs[] = {TYPE_QUALITY_MAP(TYPE_COST)};
#undef TYPE_COST
    for (size_t i = 0; i < ARRAY_LEN(costs); i++)
        if (costs[i].type == type) return &costs[i];
    return NULL;
}

static void print_types(const facts *f)
{
    bool says_quality = false;
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        const type_share *s = &f->shares[type];
        if (s->n_tensors == 0) continue;
        print_label("");
        printf("%-7s %5" PRIu64 " tensors  %5.1f%% of the bytes  ", block_name(type), s->n_tensors,
               100.0 * (double)s->bytes / (double)f->weight_bytes);
        print_bytes(s->bytes);
        const type_cost *cost = cost_of(type);
        if (cost) printf(", %+.3f nats a token, %.1f%% the same", cost->nats, 100 * cost->same);
        says_quality |= cost != NULL;
        printf("%s\n", type < BLOCK_OWN ? "" : ", our own: for cerium alone");
    }
    if (!says_quality) return;
    print_label("quality");
    printf("nats and likeliest tokens are of the bundled model, beside F16\n");
}

static void print_tokenizer(const facts *f)
{
    print_number("vocabulary", f->n_vocab, " tokens");
    print_label("tokenizer");
    print_text(f->tokenizer.len ? f->tokenizer : VIEW("none"), TEXT_SHOWN);
    if (f->pre.len) {
        printf(", splitting as ");
        print_text(f->pre, TEXT_SHOWN);
    }
    printf("\n");
    print_label("chat template");
    if (f->chat_template.len)
        printf("yes, %zu bytes\n", f->chat_template.len);
    else
        printf("none\n");
    print_label("chat form");
    if (*f->chat_refusal)
        printf("none: the template cannot be run: %s\n", f->chat_refusal);
    else if (!strcmp(f->chat_calls, f->chat_form))
        printf("%s\n", *f->chat_form ? f->chat_form : "none");
    else
        printf("%s, calls of tools: %s\n", f->chat_form,
               !strncmp(f->chat_calls, "none", 4) ? "in a way that cerium cannot read"
               : *f->chat_calls == '{'            ? "by its marks"
                                                  : f->chat_calls);
    print_label("fill in middle");
    if (f->fim[FIM_PREFIX] < 0 || f->fim[FIM_SUFFIX] < 0) {
        printf("no tokens for it\n");
        return;
    }
    for (int role = 0; role < FIM_ROLES; role++) {
        if (f->fim[role] < 0) continue;
        printf("%s%" PRId64 " ", role ? ", " : "", f->fim[role]);
        print_text(token_text(f, f->fim[role]), TEXT_SHOWN);
    }
    printf("\n");
}

static void print_by_layer(const facts *f, const char *label, uint64_t n, const char *suffix)
{
    print_number(label, n, differs_by_layer(f, suffix) ? " in some layers, fewer in others" : "");
}

static bool has_tensor(const facts *f, const char *part)
{
    for (size_t i = 0; i < gguf_n_tensors(f->file); i++)
        if (name_has(gguf_tensor_at(f->file, i)->name, part)) return true;
    return false;
}

/* Which layers see a window; a pattern is a flag for each of them, or their period. */
static void print_windows(const facts *f)
{
    const uint64_t window = arch_number(f, "attention.sliding_window");
    const gguf_value *pattern = arch_value(f, "attention.sliding_window_pattern");
    uint64_t n = 0;
    if (!window) return;
    print_label("window");
    printf("%" PRIu64 " tokens", window);
    if (is_numbers(pattern)) {
        for (uint64_t i = 0; i < pattern->n_items; i++) n += gguf_item_i64(pattern, i) != 0;
        printf(" in %" PRIu64 " of %" PRIu64 " layers, the others see everything", n,
               pattern->n_items);
    } else {
        n = arch_number(f, "attention.sliding_window_pattern");
        if (!n && view_equal(f->arch, VIEW("gemma3"))) n = 6; /* files do not say it */
        if (!n && view_equal(f->arch, VIEW("gpt-oss"))) n = 2;
        if (n > 1)
            printf(" in %" PRIu64 " of every %" PRIu64 " layers, the others see everything", n - 1,
                   n);
    }
    printf("\n");
}

/* Of attention that keeps of each token one short row in place of keys and values of its heads. */
static void print_latents(const facts *f)
{
    const uint64_t n = arch_number(f, "attention.kv_lora_rank");
    const uint64_t n_rot = arch_number(f, "rope.dimension_count");
    uint64_t key = arch_number(f, "attention.key_length_mla");
    uint64_t value = arch_number(f, "attention.value_length_mla");
    if (!n) return;
    if (!key) { /* older files */
        key = arch_number(f, "attention.key_length");
        value = arch_number(f, "attention.value_length");
    }
    print_label("latents");
    printf("%" PRIu64 " + %" PRIu64 " values of a token in each layer are keys and values of all "
           "heads (MLA)\n", n, n_rot);
    print_label("head width");
    printf("%" PRIu64 " of queries, of which %" PRIu64 " turn, %" PRIu64 " of values%s\n", key,
           n_rot, value, has_tensor(f, ".attn_kv_b.") ? "; an older file" : "");
}

/* Of layers that read what others keep, and of what every layer gets beside the embedding. */
static void print_shared(const facts *f)
{
    const uint64_t windowed = arch_number(f, "attention.key_length_swa");
    const uint64_t n_shared = arch_number(f, "attention.shared_kv_layers");
    const uint64_t n_inputs = arch_number(f, "embedding_length_per_layer_input");
    if (windowed) {
        print_label("head width");
        printf("%" PRIu64 ", with a window %" PRIu64 "\n",
               arch_number(f, "attention.key_length"), windowed);
    }
    if (n_shared) {
        print_label("shared KV");
        printf("the last %" PRIu64 " layers read keys and values of earlier ones\n", n_shared);
    }
    if (!n_inputs) return;
    print_label("layer inputs");
    printf("%" PRIu64 " values of a token for each layer, read from the file\n", n_inputs);
}

/* Of layers that keep a state of all tokens in place of keys and values of each. */
static void print_states(const facts *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < gguf_n_tensors(f->file); i++)
        n += name_has(gguf_tensor_at(f->file, i)->name, ".ssm_conv1d.");
    const uint64_t keys = arch_number(f, "ssm.state_size"), all = arch_number(f, "ssm.inner_size");
    const uint64_t n_keys = arch_number(f, "ssm.group_count") * keys;
    const uint64_t before = arch_number(f, "ssm.conv_kernel") - 1; /* tokens that are mixed in */
    if (!n || !all) return;
    print_label("states");
    printf("%" PRIu64 " of the layers keep one in place of keys and values; together ", n);
    print_bytes(n * (all * keys + before * (2 * n_keys + all)) * sizeof(float));
    printf("\n");
}

static void print_summary(const facts *f)
{
    print_text(f->name.len ? f->name : view_of(gguf_path(f->file)), TEXT_SHOWN);
    printf("\n");
    print_label("architecture");
    print_text(f->arch.len ? f->arch : VIEW("not said"), TEXT_SHOWN);
    printf("\n");
    print_label("parameters");
    print_count(f->n_parameters);
    printf(" in %zu tensors\n", gguf_n_tensors(f->file));
    print_label("file");
    print_bytes(gguf_file_bytes(f->file));
    printf(", GGUF version %u\n", gguf_version(f->file));
    if (f->weight_bytes) {
        print_label("weights");
        print_bytes(f->weight_bytes);
        printf(", %.2f bits a parameter; one token reads ",
               8.0 * (double)f->weight_bytes / (double)f->n_parameters);
        print_bytes(f->step_bytes);
        printf("\n");
        print_types(f);
    }
    print_number("context", f->context, " tokens");
    print_number("layers", f->n_layers, "");
    print_number("width", f->n_embd, "");
    print_by_layer(f, "heads", f->n_heads, "attention.head_count");
    print_by_layer(f, "KV heads", f->n_kv_heads, "attention.head_count_kv");
    print_by_layer(f, "feed forward", f->n_ff, "feed_forward_length");
    if (f->n_experts) {
        print_label("experts");
        printf("%" PRIu64 " of %" PRIu64 " for each token%s\n", f->n_used, f->n_experts,
               has_tensor(f, "_shexp.") ? ", beside one that all take" : "");
    }
    print_windows(f);
    print_latents(f);
    print_shared(f);
    print_states(f);
    const uint64_t n_ahead = arch_number(f, "nextn_predict_layers");
    if (n_ahead) {
        print_label("several tokens");
        printf("%" PRIu64 " of the layers predict them (MTP); cerium leaves them out\n", n_ahead);
    }
    print_tokenizer(f);
}

static void print_tensors(const gguf_file *file)
{
    char shape[96];
    printf("\n%-40s %-7s %-26s %s\n", "tensor", "type", "shape", "bytes");
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        size_t len = 0;
        for (uint32_t k = 0; k < t->n_dims; k++)
            len += (size_t)snprintf(shape + len, sizeof shape - len, "%s%" PRIu64, k ? " x " : "",
                                    t->dims[k]);
        print_text(t->name, SIZE_MAX);
        printf("%*s %-7s %-26s %zu\n", t->name.len < 40 ? (int)(40 - t->name.len) : 0, "",
               block_name(t->type), shape, t->size);
    }
}

/* Item i of an array, or a scalar as an array of one. */
static void print_item(const gguf_value *v, gguf_value_type type, uint64_t i)
{
    gguf_value one = *v;
    if (v->type != GGUF_ARRAY) one.type = GGUF_ARRAY, one.item_type = type, one.n_items = 1;
    if (type == GGUF_STRING) {
        printf("\"");
        print_text(v->strings ? v->strings[i] : (view){(const char *)v->data, v->data_len},
                   TEXT_SHOWN);
        printf("\"");
    } else if (type == GGUF_BOOL) {
        printf(gguf_item_i64(&one, i) ? "true" : "false");
    } else if (type == GGUF_FLOAT32 || type == GGUF_FLOAT64) {
        printf("%.9g", gguf_item_f64(&one, i));
    } else if (type == GGUF_UINT64) {
        printf("%" PRIu64, (uint64_t)gguf_item_i64(&one, i));
    } else {
        printf("%" PRId64, gguf_item_i64(&one, i));
    }
}

static void print_values(const gguf_file *file)
{
    printf("\n");
    for (size_t i = 0; i < gguf_n_values(file); i++) {
        const gguf_value *v = gguf_value_at(file, i);
        print_text(v->key, SIZE_MAX);
        printf(" = ");
        if (v->type != GGUF_ARRAY)
            print_item(v, v->type, 0);
        else {
            printf("[");
            for (uint64_t k = 0; k < v->n_items && k < ITEMS_SHOWN; k++) {
                printf(k ? ", " : "");
                print_item(v, v->item_type, k);
            }
            if (v->n_items > ITEMS_SHOWN) printf(", ... %" PRIu64 " in all", v->n_items);
            printf("]");
        }
        printf("\n");
    }
}

/* ---- as JSON ---- */

static json_t *json_number(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n);
}

static json_t *json_item(const gguf_value *v, gguf_value_type type, uint64_t i)
{
    gguf_value one = *v;
    if (v->type != GGUF_ARRAY) one.type = GGUF_ARRAY, one.item_type = type, one.n_items = 1;
    if (type == GGUF_STRING)
        return json_text(v->strings ? v->strings[i] : (view){(const char *)v->data, v->data_len});
    if (type == GGUF_BOOL) return json_boolean(gguf_item_i64(&one, i));
    if (type == GGUF_FLOAT32 || type == GGUF_FLOAT64) {
        double x = gguf_item_f64(&one, i);
        return isfinite(x) ? json_real(x) : json_null(); /* JSON has no infinity */
    }
    if (type == GGUF_UINT64) return json_number((uint64_t)gguf_item_i64(&one, i));
    return json_integer(gguf_item_i64(&one, i));
}

static json_t *json_items(const gguf_value *v, uint64_t n)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) json_array_append_new(list, json_item(v, v->item_type, i));
    return list;
}

static json_t *json_value(const gguf_value *v)
{
    if (v->type != GGUF_ARRAY) return json_item(v, v->type, 0);
    if (v->n_items <= ITEMS_WHOLE) return json_items(v, v->n_items);
    return json_pack("{s:o, s:o}", "n_items", json_number(v->n_items), "first",
                     json_items(v, ITEMS_SHOWN));
}

static json_t *json_values(const gguf_file *file)
{
    json_t *object = json_object();
    for (size_t i = 0; i < gguf_n_values(file); i++) {
        const gguf_value *v = gguf_value_at(file, i);
        json_t *key = json_text(v->key);
        json_object_setn_new(object, json_string_value(key), json_string_length(key),
                             json_value(v));
        json_decref(key);
    }
    return object;
}

static json_t *json_tensors(const gguf_file *file)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        json_t *dims = json_array();
        for (uint32_t k = 0; k < t->n_dims; k++)
            json_array_append_new(dims, json_number(t->dims[k]));
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o}", "name", json_text(t->name),
                                              "type", block_name(t->type), "shape", dims, "bytes",
                                              json_number(t->size)));
    }
    return list;
}

static json_t *json_types(const facts *f)
{
    json_t *list = json_array();
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        const type_share *s = &f->shares[type];
        if (s->n_tensors == 0) continue;
        double share = (double)s->bytes / (double)f->weight_bytes;
        json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:o, s:o, s:f}", "type",
                                              block_name(type), "own", type >= BLOCK_OWN,
                                              "n_tensors", json_number(s->n_tensors),
                                              "n_parameters", json_number(s->n_parameters),
                                              "bytes", json_number(s->bytes), "share", share));
    }
    return list;
}

static json_t *json_quality(const facts *f)
{
    json_t *types = json_object();
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        const type_cost *cost = f->shares[type].n_tensors ? cost_of(type) : NULL;
        if (!cost) continue;
        json_object_set_new(types, block_name(type),
                            json_pack("{s:f, s:f}", "nats_above_floats", cost->nats,
                                      "likeliest_the_same", cost->same));
    }
    return json_pack("{s:s, s:o}", "of", "the bundled model, beside F16", "types",
                     types);
}

static json_t *json_fim(const facts *f)
{
    json_t *object = json_object();
    for (int role = 0; role < FIM_ROLES; role++) {
        if (f->fim[role] < 0) continue;
        json_t *token = json_pack("{s:I, s:o}", "id", (json_int_t)f->fim[role], "text",
                                  json_text(token_text(f, f->fim[role])));
        json_object_set_new(object, fim_names[role], token);
    }
    return object;
}

static void json_set_numbers(json_t *to, const facts *f)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"bytes", gguf_file_bytes(f->file)},
        {"gguf_version", gguf_version(f->file)},
        {"n_parameters", f->n_parameters},
        {"weights_bytes", f->weight_bytes},
        {"step_bytes", f->step_bytes},
        {"context_tokens", f->context},
        {"n_layers", f->n_layers},
        {"n_embd", f->n_embd},
        {"n_heads", f->n_heads},
        {"n_kv_heads", f->n_kv_heads},
        {"n_ff", f->n_ff},
        {"n_experts", f->n_experts},
        {"n_experts_used", f->n_used},
        {"n_vocab", f->n_vocab},
        {"n_tensors", gguf_n_tensors(f->file)},
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        json_object_set_new(to, numbers[i].name, json_number(numbers[i].value));
}

static json_t *json_of(const facts *f, const inspect_options *o)
{
    json_t *root = json_object();
    json_object_set_new(root, "path", json_name(gguf_path(f->file)));
    json_object_set_new(root, "name", json_text(f->name));
    json_object_set_new(root, "architecture", json_text(f->arch));
    json_set_numbers(root, f);
    json_object_set_new(root, "types", json_types(f));
    json_object_set_new(root, "quality", json_quality(f));
    json_object_set_new(root, "tokenizer", json_text(f->tokenizer));
    json_object_set_new(root, "tokenizer_pre", json_text(f->pre));
    json_object_set_new(root, "chat_template", json_boolean(f->chat_template.len > 0));
    json_object_set_new(root, "chat_form",
                        *f->chat_form ? json_string(f->chat_form) : json_null());
    json_object_set_new(root, "chat_refusal",
                        *f->chat_refusal ? json_string(f->chat_refusal) : json_null());
    json_object_set_new(root, "fill_in_middle", json_fim(f));
    if (o->tensors) json_object_set_new(root, "tensors", json_tensors(f->file));
    if (o->values) json_object_set_new(root, "values", json_values(f->file));
    return root;
}

/* ---- the command line ---- */

static bool take_kv(void *program, const char *value)
{
    static const uint32_t kv_bytes[] = {1, 2, 4};
    uint32_t which;
    if (!option_word(value, "i8, f16, f32", &which)) return false;
    ((inspect_options *)program)->kv_value_bytes = kv_bytes[which];
    return true;
}

static const option_spec own[] = {
    {"tensors", NULL, "list every tensor: type, shape, bytes",
     TAKES_FLAG(inspect_options, tensors)},
    {"values", NULL, "list the metadata; long arrays are cut", TAKES_FLAG(inspect_options, values)},
    {"plan", NULL,
     "measure caches and memory of this machine for two seconds, and show which of them holds the "
     "weights and the KV cache, the most tokens/s that allows, and what would be faster",
     TAKES_FLAG(inspect_options, plan)},
    {"context", "N", "context of the plan (default: the model's)",
     TAKES_U32(inspect_options, context, 1, 1 << 24), .needs = "plan"},
    {"threads", "N", "threads of the plan (default: the machine's)",
     TAKES_U32(inspect_options, threads, 1, 256), .needs = "plan"},
    {"kv", "i8|f16|f32", "KV cache of the plan (default i8)", TAKES_CALL(take_kv),
     .needs = "plan"},
};
const command_table inspect_command = {
    .name = "inspect",
    .usage = "[OPTIONS] [MODEL]",
    .about = "Show what a model file holds, and with --plan where it fits on this machine. MODEL "
             "is a GGUF file, the first of a split set, or the name of a pulled model; models that "
             "cerium cannot run are shown, too.",
    .groups = OPTIONS_MODEL | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium inspect models/cerium-line.gguf --tensors",
};

static int parse_options(inspect_options *o, int argc, char **argv)
{
    RETURN_IF(command_parse(&inspect_command, o, argc, argv));
    if (argc - optind > 1) return usage_error("inspect", "one model, not %d", argc - optind);
    if (optind < argc && o->o.model)
        return usage_error("inspect", "MODEL and -m exclude each other");
    if (!o->kv_value_bytes) o->kv_value_bytes = 1;
    if (optind < argc) o->o.model = argv[optind];
    o->model = options_model(&o->o);
    return o->model ? 0 : usage_error("inspect", "no model: name one");
}

static int show(const gguf_file *file, const inspect_options *o, cerium_error *err)
{
    if (o->plan)
        return residency_plan(file, o->threads, o->context, o->kv_value_bytes, o->o.json, err);
    facts f = facts_of(file);
    if (o->o.json) return output_json(json_of(&f, o), JSON_INDENT(2), err);
    print_summary(&f);
    if (o->tensors) print_tensors(file);
    if (o->values) print_values(file);
    return CERIUM_OK;
}

int program_inspect(int argc, char **argv)
{
    inspect_options o = {.plan = false};
    gguf_file *file = NULL;
    cerium_error err;
    RETURN_IF(parse_options(&o, argc, argv));
    int status = options_model_check(o.model, &err);
    if (!status) status = gguf_open(&file, o.model, &err);
    if (!status) status = show(file, &o, &err);
    gguf_close(&file);
    return status ? failed(&err) : 0;
}
