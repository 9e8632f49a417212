/* inspect_facts.c - reads the facts of a model file, without running it. */
#include "programs/inspect.h"

#include <stdlib.h>

#include "programs/type_quality.h"
#include "tokenizer/chat.h"

const char *const facts_fim_names[FIM_ROLES] = {"prefix", "suffix", "middle"};

static uint64_t tensor_values(const gguf_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

const gguf_value *facts_value(const facts *f, const char *suffix)
{
    char key[160];
    snprintf(key, sizeof key, "%.*s.%s", f->arch.len < 100 ? (int)f->arch.len : 100, f->arch.ptr,
             suffix);
    return gguf_find(f->file, key);
}

bool facts_is_drafter(const facts *f)
{
    return view_equal(f->arch, VIEW("eagle3")) || view_equal(f->arch, VIEW("dflash"));
}

bool facts_is_numbers(const gguf_value *value)
{
    return value && value->type == GGUF_ARRAY && value->item_type != GGUF_STRING &&
           value->item_type != GGUF_ARRAY;
}

uint64_t facts_number(const facts *f, const char *suffix)
{
    const gguf_value *value = facts_value(f, suffix);
    const bool is_array = facts_is_numbers(value);
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

bool facts_differ_by_layer(const facts *f, const char *suffix)
{
    const gguf_value *value = facts_value(f, suffix);
    if (!facts_is_numbers(value)) return false;
    for (uint64_t i = 1; i < value->n_items; i++)
        if (gguf_item_i64(value, i) != gguf_item_i64(value, 0)) return true;
    return false;
}

bool facts_name_has(view name, const char *part)
{
    return memmem(name.ptr, name.len, part, strlen(part)) != NULL;
}

/* Bytes of a tensor that one token reads: chosen experts only, one row of an embedding unless it is
 * also the head. */
static uint64_t bytes_per_step(const facts *f, const gguf_tensor *t)
{
    const bool is_of_block = t->name.len > 4 && !memcmp(t->name.ptr, "blk.", 4);
    const uint64_t layer = is_of_block ? strtoull(t->name.ptr + 4, NULL, 10) : 0;
    const gguf_value *used = facts_value(f, "expert_used_count");
    if (is_of_block && layer >= f->n_layers) return 0; /* drafts */
    if (f->n_experts && f->n_used <= f->n_experts && facts_name_has(t->name, "_exps.")) {
        const bool has = used && facts_is_numbers(used) && layer < used->n_items;
        const double n = has ? (double)gguf_item_i64(used, layer) : (double)f->n_used;
        return (uint64_t)((double)t->size / (double)f->n_experts * (n > 0 ? n : 0));
    }
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

static bool has_of_block(const facts *f, uint64_t block, const char *what, size_t len)
{
    char name[GGUF_NAME_BYTES_MAX + 1];
    snprintf(name, sizeof name, "blk.%llu.%.*s", (unsigned long long)block, (int)len, what);
    return gguf_find_tensor(f->file, name) != NULL;
}

/* The part of a tensor's name after its block's, if that is the block. */
static view part_of_block(view name, uint64_t block)
{
    char begin[32];
    const size_t len = (size_t)snprintf(begin, sizeof begin, "blk.%llu.",
                                        (unsigned long long)block);
    if (!view_starts(name, (view){begin, len})) return (view){0};
    return (view){name.ptr + len, name.len - len};
}

/* Has the head its two norms and all weights of the last layer that attends? */
static bool is_whole(const facts *f)
{
    static const char *const own[] = {"nextn.enorm.weight", "nextn.hnorm.weight"};
    uint64_t like = f->n_layers;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (!has_of_block(f, f->n_layers, own[i], strlen(own[i]))) return false;
    while (like > 0 && !has_of_block(f, like - 1, "attn_q.weight", 13)) like--;
    for (size_t i = 0; like > 0 && i < gguf_n_tensors(f->file); i++) {
        const view part = part_of_block(gguf_tensor_at(f->file, i)->name, like - 1);
        const bool is_weight = part.len > 7 && !memcmp(part.ptr + part.len - 7, ".weight", 7);
        if (is_weight && !has_of_block(f, f->n_layers, part.ptr, part.len)) return false;
    }
    return true;
}

/* Is there a head for the token after the next, and is it run? */
static void find_mtp(facts *f)
{
    static const char *const run[] = {"qwen35", "qwen35moe", "qwen3next", "glm4moe"};
    char name[64];
    bool is_run = false;
    for (size_t i = 0; i < ARRAY_LEN(run); i++) is_run |= view_equal(f->arch, view_of(run[i]));
    f->n_mtp = facts_number(f, "nextn_predict_layers");
    if (f->n_mtp >= f->n_layers) f->n_mtp = 0; /* a damaged file */
    f->n_layers -= f->n_mtp;
    snprintf(name, sizeof name, "blk.%llu.nextn.eh_proj.weight", (unsigned long long)f->n_layers);
    if (!f->n_mtp || !gguf_find_tensor(f->file, name))
        f->mtp = f->n_mtp || is_run ? MTP_LEFT_OUT : MTP_NONE;
    else if (!is_run || f->n_mtp != 1)
        f->mtp = MTP_NOT_RUN;
    else
        f->mtp = is_whole(f) ? MTP_DRAFTS : MTP_PARTIAL;
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

/* As the engine would find it; a file without a readable vocabulary has none. */
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

facts facts_of(const gguf_file *file)
{
    facts f = {.file = file};
    gguf_get_string(file, "general.name", &f.name);
    gguf_get_string(file, "general.architecture", &f.arch);
    gguf_get_string(file, "tokenizer.ggml.model", &f.tokenizer);
    gguf_get_string(file, "tokenizer.ggml.pre", &f.pre);
    gguf_get_string(file, "tokenizer.chat_template", &f.chat_template);
    f.n_layers = facts_number(&f, "block_count");
    f.n_embd = facts_number(&f, "embedding_length");
    f.n_heads = facts_number(&f, "attention.head_count");
    f.n_kv_heads = facts_number(&f, "attention.head_count_kv");
    f.n_ff = facts_number(&f, "feed_forward_length");
    f.n_experts = facts_number(&f, "expert_count");
    f.n_used = facts_number(&f, "expert_used_count");
    f.n_expert_latent = facts_number(&f, "moe_latent_size");
    f.context = facts_number(&f, "context_length");
    const gguf_value *tokens = gguf_find(file, "tokenizer.ggml.tokens");
    f.tokens = tokens && tokens->strings ? tokens : NULL;
    f.n_vocab = f.tokens ? f.tokens->n_items : facts_number(&f, "vocab_size");
    find_mtp(&f);
    count_tensors(&f);
    find_fim(&f);
    find_chat_form(&f);
    return f;
}

view facts_token_text(const facts *f, int64_t id)
{
    return f->tokens && id >= 0 ? f->tokens->strings[id] : (view){0};
}

const type_cost *facts_cost_of(uint32_t type)
{
#define TYPE_COST(type, nats, same) {type, nats, same},
    static const type_cost costs[] = {TYPE_QUALITY_MAP(TYPE_COST)};
#undef TYPE_COST
    for (size_t i = 0; i < ARRAY_LEN(costs); i++)
        if (costs[i].type == type) return &costs[i];
    return NULL;
}
