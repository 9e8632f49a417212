/* special.c - owns the roles of special tokens by their texts; the tables follow llama.cpp's
 * llama-vocab.cpp, so that the same model file ends its turns at the same tokens. */
#include "tokenizer/special.h"

/* ---- roles ---- */

#define BAR "\xEF\xBD\x9C"   /* U+FF5C, DeepSeek's bar */
#define BLANK "\xE2\x96\x81" /* U+2581, SentencePiece's space */
#define DEEPSEEK_BEGIN "<" BAR "begin" BLANK "of" BLANK "sentence" BAR ">"
#define DEEPSEEK_END   "<" BAR "end" BLANK "of" BLANK "sentence" BAR ">"

enum { ROLE_TEXTS_MAX = 16 };

#define ROLE_KEY(symbol, key) key,
static const char *const role_keys[TOKEN_ROLES] = {TOKENIZER_ROLE_MAP(ROLE_KEY)};
#undef ROLE_KEY

static const struct {
    const char *old_key; /* used before fim_*; or NULL */
    const char *texts[ROLE_TEXTS_MAX]; /* tried in this order when the keys are absent */
} roles[TOKEN_ROLES] = {
    [TOKEN_BOS] = {NULL, {"<|begin_of_text|>", "<s>", DEEPSEEK_BEGIN}},
    [TOKEN_EOS] = {NULL, {"<|endoftext|>", "<|end_of_text|>", "</s>", DEEPSEEK_END}},
    [TOKEN_EOT] = {NULL,
                   {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
                    "<|end_of_text|>", "<EOT>", BLANK "<EOT>", "_<EOT>", "[EOT]", DEEPSEEK_END,
                    "<end_of_utterance>"}},
    [TOKEN_EOM] = {NULL, {"<|eom_id|>"}},
    [TOKEN_UNK] = {NULL, {"<unk>"}},
    [TOKEN_PAD] = {NULL, {NULL}},
    [TOKEN_FIM_PRE] = {"prefix",
                       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
                        "<" BAR "fim" BLANK "begin" BAR ">", "<PRE>", BLANK "<PRE>",
                        "<|code_prefix|>", "<|prefix|>", "[PREFIX]"}},
    [TOKEN_FIM_SUF] = {"suffix",
                       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
                        "<" BAR "fim" BLANK "hole" BAR ">", "<SUF>", BLANK "<SUF>",
                        "<|code_suffix|>", "<|suffix|>", "[SUFFIX]"}},
    [TOKEN_FIM_MID] = {"middle",
                       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
                        "<" BAR "fim" BLANK "end" BAR ">", "<MID>", BLANK "<MID>",
                        "<|code_middle|>", "<|middle|>", "[MIDDLE]"}},
    [TOKEN_FIM_PAD] = {NULL, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"}},
    [TOKEN_FIM_REP] = {NULL,
                       {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>",
                        "<repo_name>"}},
    [TOKEN_FIM_SEP] = {NULL, {"<|file_sep|>", "<file_sep>", "<filename>"}},
};

/* These end a generation, whatever their role. */
static const char *const end_texts[] = {
    "<|eot_id|>",    "<|im_end|>",   "<|end|>",       "<|return|>",        "<|call|>",
    "<|flush|>",     "<|calls|>",    "<end_of_turn>", "<|endoftext|>",     "</s>",
    "<|eom_id|>",    "<EOT>",        BLANK "<EOT>",   "_<EOT>",            "[EOT]",
    "[EOS]",         "<|EOT|>",      "<eos>",         "<|end_of_text|>",   "<end_of_utterance>",
    "[e~[",          DEEPSEEK_END,
};

/* "<...>" and "[...]", perhaps after a space mark: the form of the names of tokens. */
static bool looks_special(view text)
{
    if (view_starts(text, VIEW(BLANK))) text = (view){text.ptr + 3, text.len - 3};
    if (text.len < 3) return false;
    char first = text.ptr[0], last = text.ptr[text.len - 1];
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

/* Some files type "<|im_end|>" as a normal token.  "</s>" without a bar may be normal text:
 * HTML. */
static int32_t find_special(const vocabulary *v, const char *name)
{
    view text = view_of(name);
    int32_t id = vocabulary_find_name(v, text);
    if (id < 0 && (memchr(name, '|', text.len) || strstr(name, BAR))) id = vocabulary_find(v, text);
    return id;
}

static int32_t role_by_key(const vocabulary *v, const gguf_file *file, const char *name)
{
    char key[64];
    uint64_t id;
    if (!name) return TOKEN_NONE;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    return gguf_get_u64(file, key, &id) && id < v->n_tokens ? (int32_t)id : TOKEN_NONE;
}

static int32_t find_role(vocabulary *v, const gguf_file *file, token_role role)
{
    int32_t id = role_by_key(v, file, role_keys[role]);
    if (id < 0) id = role_by_key(v, file, roles[role].old_key);
    if (id < 0 && v->form == VOCABULARY_SENTENCEPIECE) {
        /* Old files omit the tokens that every SentencePiece model has. */
        static const int32_t usual[TOKEN_ROLES] = {
            [TOKEN_UNK] = 0, [TOKEN_BOS] = 1, [TOKEN_EOS] = 2};
        bool has_usual = role == TOKEN_UNK || role == TOKEN_BOS || role == TOKEN_EOS;
        if (has_usual && usual[role] < (int32_t)v->n_tokens) id = usual[role];
    }
    for (size_t i = 0; id < 0 && i < ROLE_TEXTS_MAX && roles[role].texts[i]; i++)
        id = find_special(v, roles[role].texts[i]);
    if (id >= 0 && looks_special(vocabulary_bytes(v, id)) && v->kinds[id] != TOKEN_UNKNOWN)
        vocabulary_make_control(v, id);
    return id;
}

static void find_ends(special_tokens *s, vocabulary *v)
{
    static const token_role ending[] = {TOKEN_EOS,     TOKEN_EOT,     TOKEN_EOM,
                                        TOKEN_FIM_PAD, TOKEN_FIM_REP, TOKEN_FIM_SEP};
    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        if (s->roles[ending[i]] >= 0) s->ends[s->roles[ending[i]]] = 1;
    for (size_t i = 0; i < ARRAY_LEN(end_texts); i++) {
        int32_t id = find_special(v, end_texts[i]);
        if (id < 0) continue;
        s->ends[id] = 1;
        vocabulary_make_control(v, id);
    }
    /* If messages end with <|end|> and turns with <|return|> or <|call|> (Harmony), or with
     * <|calls|> and <|flush|>, <|end|> is only the end of one message. */
    bool harmony = find_special(v, "<|return|>") >= 0 && find_special(v, "<|call|>") >= 0;
    bool solar = find_special(v, "<|calls|>") >= 0 && find_special(v, "<|flush|>") >= 0;
    int32_t end = find_special(v, "<|end|>");
    if (end >= 0 && (harmony || solar)) {
        s->ends[end] = 0;
        if (s->roles[TOKEN_EOT] == end) s->roles[TOKEN_EOT] = TOKEN_NONE;
    }
}

/* Ends that the file names beside those of a role: the list of generation_config.json. */
static void find_listed_ends(special_tokens *s, vocabulary *v, const gguf_file *file)
{
    const gguf_value *list = gguf_find(file, "cerium.end_token_ids");
    if (!list || list->type != GGUF_ARRAY ||
        (list->item_type != GGUF_INT32 && list->item_type != GGUF_UINT32))
        return;
    for (uint64_t i = 0; i < list->n_items; i++) {
        uint32_t id;
        memcpy(&id, list->data + i * sizeof id, sizeof id);
        if (id >= v->n_tokens) continue;
        s->ends[id] = 1;
        vocabulary_make_control(v, (int32_t)id);
    }
}

/* ---- finding special tokens in text ---- */

static uint32_t trie_step(special_tokens *s, uint32_t node, uint8_t byte)
{
    const merge_slot *child = merge_find(&s->children, (int32_t)node, byte);
    if (child) return (uint32_t)child->id;
    uint32_t fresh = s->n_nodes++;
    merge_map_add(&s->children, node, byte, 0, (int32_t)fresh);
    s->node_tokens[fresh] = TOKEN_NONE;
    return fresh;
}

static void trie_add(special_tokens *s, uint32_t root, view text, int32_t id)
{
    uint32_t node = root;
    for (size_t i = 0; i < text.len; i++) node = trie_step(s, node, (uint8_t)text.ptr[i]);
    if (s->node_tokens[node] < 0) s->node_tokens[node] = id;
    s->begins[root][(uint8_t)text.ptr[0]] = true;
}

static bool is_special(const vocabulary *v, uint32_t id)
{
    uint8_t kind = v->kinds[id];
    return (kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN || kind == TOKEN_USER) &&
           v->offsets[id] != v->offsets[id + 1];
}

static int build_tries(special_tokens *s, const vocabulary *v)
{
    size_t n_bytes = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++)
        if (is_special(v, id)) n_bytes += v->offsets[id + 1] - v->offsets[id];
    s->node_tokens = memory_alloc((2 * n_bytes + 2) * sizeof *s->node_tokens);
    if (!s->node_tokens || merge_map_open(&s->children, 2 * n_bytes + 1)) return CERIUM_ERR_MEMORY;
    s->node_tokens[0] = s->node_tokens[1] = TOKEN_NONE;
    s->n_nodes = 2;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        if (!is_special(v, id)) continue;
        view text = vocabulary_bytes(v, (int32_t)id);
        trie_add(s, 0, text, (int32_t)id);
        if (v->kinds[id] == TOKEN_USER && !looks_special(text)) trie_add(s, 1, text, (int32_t)id);
    }
    return CERIUM_OK;
}

int32_t special_find(const special_tokens *s, view text, bool all, size_t *at, size_t *len)
{
    uint32_t root = all ? 0 : 1;
    for (size_t i = 0; i < text.len; i++) {
        if (!s->begins[root][(uint8_t)text.ptr[i]]) continue;
        int32_t node = (int32_t)root, found = TOKEN_NONE;
        for (size_t j = i; j < text.len; j++) {
            const merge_slot *child = merge_find(&s->children, node, (uint8_t)text.ptr[j]);
            if (!child) break;
            node = child->id;
            if (s->node_tokens[node] < 0) continue;
            found = s->node_tokens[node];
            *len = j + 1 - i;
        }
        if (found >= 0) {
            *at = i;
            return found;
        }
    }
    return TOKEN_NONE;
}

int special_open(special_tokens *s, vocabulary *v, const gguf_file *file, cerium_error *err)
{
    CHECK(s && v && file);
    *s = (special_tokens){0};
    for (int role = 0; role < TOKEN_ROLES; role++)
        s->roles[role] = find_role(v, file, (token_role)role);
    s->ends = memory_zalloc(v->n_tokens, 1);
    if (s->ends) find_ends(s, v);
    if (s->ends) find_listed_ends(s, v, file);
    if (!s->ends || build_tries(s, v)) {
        special_close(s);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for the special tokens",
                         gguf_path(file));
    }
    return CERIUM_OK;
}

void special_close(special_tokens *s)
{
    memory_free(s->ends);
    memory_free(s->node_tokens);
    merge_map_close(&s->children);
    *s = (special_tokens){0};
}
