/* inspect_print.c - a model file on the terminal. */
#include <inttypes.h>

#include "programs/inspect.h"
#include "programs/output.h"

enum { TEXT_SHOWN = 72 }; /* most bytes shown of a string */

/* ---- text that is fit to print ---- */

/* Print text to standard output, at most n_max bytes of it, without control characters. */
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

/* ---- parts ---- */

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
        const type_cost *cost = facts_cost_of(type);
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
        print_text(facts_token_text(f, f->fim[role]), TEXT_SHOWN);
    }
    printf("\n");
}

static void print_by_layer(const facts *f, const char *label, uint64_t n, const char *suffix)
{
    print_number(label, n,
                 facts_differ_by_layer(f, suffix) ? " in some layers, fewer in others" : "");
}

static bool has_tensor(const facts *f, const char *part)
{
    for (size_t i = 0; i < gguf_n_tensors(f->file); i++)
        if (facts_name_has(gguf_tensor_at(f->file, i)->name, part)) return true;
    return false;
}

/* Which layers have a window; a pattern is a flag for each layer, or a period. */
static void print_windows(const facts *f)
{
    const uint64_t window = facts_number(f, "attention.sliding_window");
    const gguf_value *pattern = facts_value(f, "attention.sliding_window_pattern");
    uint64_t n = 0;
    if (!window) return;
    print_label("window");
    printf("%" PRIu64 " tokens", window);
    if (facts_is_numbers(pattern)) {
        for (uint64_t i = 0; i < pattern->n_items; i++) n += gguf_item_i64(pattern, i) != 0;
        printf(" in %" PRIu64 " of %" PRIu64 " layers, the others see everything", n,
               pattern->n_items);
    } else {
        n = facts_number(f, "attention.sliding_window_pattern");
        if (!n && view_equal(f->arch, VIEW("gemma3"))) n = 6; /* the file lacks it */
        if (!n && view_equal(f->arch, VIEW("gpt-oss"))) n = 2;
        if (n > 1)
            printf(" in %" PRIu64 " of every %" PRIu64 " layers, the others see everything", n - 1,
                   n);
    }
    printf("\n");
}

/* Attention that stores one short latent row of each token in place of keys and values of its
 * heads. */
static void print_latents(const facts *f)
{
    const uint64_t n = facts_number(f, "attention.kv_lora_rank");
    const uint64_t n_rot = facts_number(f, "rope.dimension_count");
    uint64_t key = facts_number(f, "attention.key_length_mla");
    uint64_t value = facts_number(f, "attention.value_length_mla");
    if (!n) return;
    if (!key) { /* older files */
        key = facts_number(f, "attention.key_length");
        value = facts_number(f, "attention.value_length");
    }
    print_label("latents");
    printf("%" PRIu64 " + %" PRIu64 " values of a token in each layer are keys and values of all "
           "heads (MLA)\n", n, n_rot);
    print_label("head width");
    printf("%" PRIu64 " of queries, of which %" PRIu64 " turn, %" PRIu64 " of values%s\n", key,
           n_rot, value, has_tensor(f, ".attn_kv_b.") ? "; an older file" : "");
}

/* Layers that read the KV of other layers, and the input that every layer gets beside the
 * embedding. */
static void print_shared(const facts *f)
{
    const uint64_t windowed = facts_number(f, "attention.key_length_swa");
    const uint64_t n_shared = facts_number(f, "attention.shared_kv_layers");
    const uint64_t n_inputs = facts_number(f, "embedding_length_per_layer_input");
    if (windowed) {
        print_label("head width");
        printf("%" PRIu64 ", with a window %" PRIu64 "\n",
               facts_number(f, "attention.key_length"), windowed);
    }
    if (n_shared) {
        print_label("shared KV");
        printf("the last %" PRIu64 " layers read keys and values of earlier ones\n", n_shared);
    }
    if (!n_inputs) return;
    print_label("layer inputs");
    printf("%" PRIu64 " values of a token for each layer, read from the file\n", n_inputs);
}

/* Layers that keep one state of all tokens in place of keys and values of each. */
static void print_states(const facts *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < gguf_n_tensors(f->file); i++)
        n += facts_name_has(gguf_tensor_at(f->file, i)->name, ".ssm_conv1d.weight");
    const uint64_t keys = facts_number(f, "ssm.state_size");
    const uint64_t all = facts_number(f, "ssm.inner_size");
    const uint64_t n_keys = facts_number(f, "ssm.group_count") * keys;
    const uint64_t before = facts_number(f, "ssm.conv_kernel") - 1; /* mixed-in tokens */
    if (!n || !all) return;
    print_label("states");
    printf("%" PRIu64 " of the layers keep one in place of keys and values; together ", n);
    print_bytes(n * (all * keys + before * (2 * n_keys + all)) * sizeof(float));
    printf("\n");
}

/* Weights that were turned before they were rounded, or should have been. */
static void print_turned(const facts *f)
{
    const gguf_value *names = gguf_find(f->file, "prism.hadamard.weight_names");
    uint64_t run = 0, n = 0;
    for (size_t i = 0; i < gguf_n_tensors(f->file); i++)
        n += gguf_tensor_at(f->file, i)->type == BLOCK_PQ2_0;
    gguf_get_u64(f->file, "prism.hadamard.block_size", &run);
    if (!names && !n) return;
    print_label("turned");
    if (names)
        printf("%" PRIu64 " matrices, by a Hadamard transform of %" PRIu64 " columns\n",
               names->n_items, run);
    else
        printf("not said, though the type PQ2_0 is for such weights: expect nonsense\n");
}

static void print_mtp(const facts *f)
{
    static const char *const words[] = {
        [MTP_LEFT_OUT] = "not in this file; others of the model have one, often with MTP in their "
                         "names",
        [MTP_NOT_RUN] = "there, but not run",
        [MTP_PARTIAL] = "not all of it is there: the model runs without",
        [MTP_DRAFTS] = "there: it guesses further tokens, which saves passes",
    };
    if (f->mtp == MTP_NONE) return;
    print_label("MTP head");
    printf("%s", words[f->mtp]);
    if (f->mtp == MTP_NOT_RUN && f->n_mtp > 1) printf(": %" PRIu64 " blocks", f->n_mtp);
    printf("\n");
}

/* A head in a file of its own: what it is for, and what it reads of its model. */
static void print_drafter(const facts *f)
{
    const gguf_value *taps = facts_value(f, "target_layers");
    const gguf_tensor *said = gguf_find_tensor(f->file, "d2t");
    const bool is_block = view_equal(f->arch, VIEW("dflash"));
    const bool is_spark = gguf_find_tensor(f->file, "markov_w1.weight") != NULL;
    const uint64_t block = facts_number(f, "block_size");
    if (!facts_is_drafter(f)) return;
    if (!taps) taps = facts_value(f, "extract_layers");
    print_label("drafter");
    if (is_block)
        printf("%s: it drafts for another model, blocks of %" PRIu64 " tokens (--draft-model)",
               is_spark ? "DSpark" : "DFlash", block > 1 ? block : 16);
    else
        printf("EAGLE-3%s: it drafts for another model, %" PRIu64 " wide (--draft-model)",
               gguf_find_tensor(f->file, "fc_norm.0.weight") ? ".1" : "",
               facts_number(f, "target_hidden_size"));
    for (uint64_t i = 0; taps && facts_is_numbers(taps) && i < taps->n_items && i < 8; i++)
        printf("%s%lld", i ? ", " : ", and reads the inputs of its layers ",
               (long long)gguf_item_i64(taps, i));
    printf("\n");
    if (said) print_number("guesses", said->dims[0], " of the model's tokens");
}

void inspect_print_summary(const facts *f)
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
        printf("%" PRIu64 " of %" PRIu64 " for each token%s%s", f->n_used, f->n_experts,
               facts_differ_by_layer(f, "expert_used_count")
                   ? " in some layers, fewer in others" : "",
               has_tensor(f, "_shexp.") ? ", beside one that all take" : "");
        if (f->n_expert_latent) printf(", of a latent of %" PRIu64, f->n_expert_latent);
        printf("\n");
    }
    print_windows(f);
    print_latents(f);
    print_shared(f);
    print_states(f);
    print_turned(f);
    print_mtp(f);
    print_drafter(f);
    print_tokenizer(f);
}

void inspect_print_tensors(const gguf_file *file)
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

void inspect_print_values(const gguf_file *file)
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
            for (uint64_t k = 0; k < v->n_items && k < INSPECT_ITEMS_SHOWN; k++) {
                printf(k ? ", " : "");
                print_item(v, v->item_type, k);
            }
            if (v->n_items > INSPECT_ITEMS_SHOWN) printf(", ... %" PRIu64 " in all", v->n_items);
            printf("]");
        }
        printf("\n");
    }
}
