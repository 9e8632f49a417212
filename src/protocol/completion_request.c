/* completion_request.c - prompts as text or as tokens: Completions, and llama.cpp's /infill. */
#include "protocol/parse.h"

/* ---- completions ---- */

static int prompts_open(parser *p, size_t n)
{
    protocol_request *r = p->r;
    r->prompts = memory_zalloc(n, sizeof *r->prompts);
    r->prompt_lens = memory_zalloc(n, sizeof *r->prompt_lens);
    r->prompt_tokens = memory_zalloc(n, sizeof *r->prompt_tokens);
    r->prompt_n_tokens = memory_zalloc(n, sizeof *r->prompt_n_tokens);
    bool all = r->prompts && r->prompt_lens && r->prompt_tokens && r->prompt_n_tokens;
    return all ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static int add_prompt_text(parser *p, const json_t *string)
{
    protocol_request *r = p->r;
    RETURN_IF(string_text(p, string, &r->prompts[r->n_prompts]));
    r->prompt_lens[r->n_prompts] = strlen(r->prompts[r->n_prompts]);
    r->n_prompts++;
    return CERIUM_OK;
}

/* The caller, which has the vocabulary, checks ids against it. */
static int add_prompt_tokens(parser *p, const place *at, const json_t *list)
{
    protocol_request *r = p->r;
    size_t n = json_array_size(list);
    int32_t *tokens = memory_zalloc(n, sizeof *tokens);
    if (!tokens) return CERIUM_ERR_MEMORY;
    r->prompts[r->n_prompts] = "";
    r->prompt_tokens[r->n_prompts] = tokens;
    r->prompt_n_tokens[r->n_prompts++] = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        const place here = {at, NULL, i};
        if (!json_is_integer(value)) return parse_fail_type(p, &here, "an integer", value);
        json_int_t id = json_integer_value(value);
        if (id < 0 || id > INT32_MAX)
            return parse_fail(p, &here, "invalid_value", "Invalid token: %" JSON_INTEGER_FORMAT
                              " is not in the vocabulary.", id);
        tokens[i] = (int32_t)id;
    }
    return CERIUM_OK;
}

int prompts_parse(parser *p, const char *key, size_t n_max)
{
    const json_t *prompt = json_object_get(p->root, key);
    const place at = {NULL, key, 0};
    if (!prompt || json_is_null(prompt)) return parse_fail_missing(p, &at);
    if (json_is_string(prompt)) {
        RETURN_IF(prompts_open(p, 1));
        return add_prompt_text(p, prompt);
    }
    if (!json_is_array(prompt) || !json_array_size(prompt))
        return parse_fail_type(p, &at, "a string, or an array of strings or tokens", prompt);
    if (json_is_integer(json_array_get(prompt, 0))) {
        RETURN_IF(prompts_open(p, 1));
        return add_prompt_tokens(p, &at, prompt);
    }
    json_t *list = NULL;
    RETURN_IF(field_array(p, NULL, p->root, key, n_max, &list));
    RETURN_IF(prompts_open(p, json_array_size(list)));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const place here = {&at, NULL, i};
        if (json_is_string(one))
            RETURN_IF(add_prompt_text(p, one));
        else if (json_is_array(one) && json_array_size(one))
            RETURN_IF(add_prompt_tokens(p, &here, one));
        else
            return parse_fail_type(p, &here, "a string or an array of tokens", one);
    }
    return CERIUM_OK;
}

/* More are sampled than returned: which ones is known only after all have ended. */
static int best_of_parse(parser *p)
{
    protocol_request *r = p->r;
    const place at = {NULL, "best_of", 0};
    int64_t best_of = r->n_best;
    RETURN_IF(field_integer(p, NULL, p->root, "best_of", 1, PROTOCOL_CHOICES_MAX, &best_of));
    if (best_of < r->n_best)
        return parse_fail(p, &at, "invalid_value",
                          "Invalid value: 'best_of' is %lld and 'n' is %u: it is at least as much.",
                          (long long)best_of, r->n_best);
    if (best_of > r->n_best && r->sampling.digest)
        return parse_fail(p, &(place){NULL, "cerium_digest", 0}, "invalid_value",
                          "Invalid 'cerium_digest': it goes without 'best_of' above 'n'.");
    if (best_of > r->n_best && r->stream)
        return parse_fail(p, &at, "invalid_value",
                          "Invalid value: 'best_of' above 'n' cannot be streamed.");
    r->n_choices = (uint32_t)best_of;
    return CERIUM_OK;
}

/* Whether to show the answer is known only at its end: no token can be sent before. */
static int confidence_parse(parser *p)
{
    protocol_request *r = p->r;
    const place at = {NULL, "min_confidence", 0};
    if (r->fill_in && !r->sampling.logprobs) r->confidence_min = p->defaults->confidence_min;
    RETURN_IF(field_number(p, NULL, p->root, at.key, 0, 1, &r->confidence_min));
    if (r->confidence_min > 0 && r->sampling.logprobs)
        return parse_fail(p, &at, "invalid_value",
                          "Invalid value: 'min_confidence' does not go with log-probabilities.");
    return CERIUM_OK;
}

/* Infill uses the settings of the model file. */
static int pointer_parse(parser *p)
{
    double pointer = p->r->fill_in ? p->defaults->pointer : 0;
    RETURN_IF(field_number(p, NULL, p->root, "pointer", 0, 1, &pointer));
    p->r->sampling.pointer = (float)pointer;
    return CERIUM_OK;
}

static int healing_parse(parser *p)
{
    bool heals = true;
    RETURN_IF(field_bool(p, NULL, p->root, "token_healing", &heals));
    p->r->whole_tokens = !heals;
    return CERIUM_OK;
}

static int response_fields_parse(parser *p)
{
    json_t *fields = NULL;
    const place at = {NULL, "response_fields", 0};
    RETURN_IF(field_array(p, NULL, p->root, at.key, PROTOCOL_FILES_MAX, &fields));
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *one = json_array_get(fields, i);
        if (!json_is_string(one))
            return parse_fail_type(p, &(place){&at, NULL, i}, "a string", one);
    }
    return CERIUM_OK;
}

static int suffix_parse(parser *p)
{
    protocol_request *r = p->r;
    const char *suffix = NULL;
    const place at = {NULL, "suffix", 0};
    RETURN_IF(field_string(p, NULL, p->root, "suffix", &suffix));
    if (!suffix || !suffix[0]) return CERIUM_OK;
    if (!p->defaults->fills_in)
        return parse_fail(p, &at, "unsupported_parameter",
                          "Unsupported parameter: 'suffix'. This model cannot fill in the middle.");
    for (size_t i = 0; i < r->n_prompts; i++)
        if (r->prompt_tokens[i])
            return parse_fail(p, &at, "invalid_value",
                              "A 'suffix' needs prompts of text, not of tokens.");
    r->fill_in = true;
    r->infill.suffix = suffix;
    r->infill.suffix_len = strlen(suffix);
    return CERIUM_OK;
}

int prompt_of(parser *p, const char *text)
{
    RETURN_IF(prompts_open(p, 1));
    p->r->prompts[0] = text;
    p->r->prompt_lens[0] = strlen(text);
    p->r->n_prompts = 1;
    return CERIUM_OK;
}

/* A prompt with the marks of any fill-in-the-middle form is a hole: before, suffix and prefix in
 * their order. */
static int written_hole(parser *p)
{
    static const struct {
        view begin, then, end;
        bool suffix_first;
    } forms[] = {
        {VIEW("<|fim_prefix|>"), VIEW("<|fim_suffix|>"), VIEW("<|fim_middle|>"), false},
        {VIEW("<fim_prefix>"), VIEW("<fim_suffix>"), VIEW("<fim_middle>"), false},
        {VIEW("<fim-prefix>"), VIEW("<fim-suffix>"), VIEW("<fim-middle>"), false},
        {VIEW("<|fim_begin|>"), VIEW("<|fim_hole|>"), VIEW("<|fim_end|>"), false},
        {VIEW("<\xEF\xBD\x9C" "fim\xE2\x96\x81" "begin\xEF\xBD\x9C>"),
         VIEW("<\xEF\xBD\x9C" "fim\xE2\x96\x81" "hole\xEF\xBD\x9C>"),
         VIEW("<\xEF\xBD\x9C" "fim\xE2\x96\x81" "end\xEF\xBD\x9C>"), false},
        {VIEW("<PRE> "), VIEW(" <SUF>"), VIEW(" <MID>"), false},
        {VIEW("[SUFFIX]"), VIEW("[PREFIX]"), VIEW(""), true},
    };
    protocol_request *r = p->r;
    if (!p->defaults->fills_in || r->n_prompts != 1 || r->prompt_tokens[0] || r->fill_in ||
        r->echo)
        return CERIUM_OK;
    view text = {r->prompts[0], r->prompt_lens[0]};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        view rest = text;
        if (!view_starts(rest, forms[i].begin)) continue;
        rest = (view){rest.ptr + forms[i].begin.len, rest.len - forms[i].begin.len};
        const char *cut = memmem(rest.ptr, rest.len, forms[i].then.ptr, forms[i].then.len);
        if (!cut || rest.len < forms[i].end.len) continue;
        view a = {rest.ptr, (size_t)(cut - rest.ptr)};
        view b = {cut + forms[i].then.len, rest.len - a.len - forms[i].then.len};
        if (b.len < forms[i].end.len ||
            memcmp(b.ptr + b.len - forms[i].end.len, forms[i].end.ptr, forms[i].end.len) != 0)
            continue;
        b.len -= forms[i].end.len;
        r->fill_in = r->ends_hole = true;
        RETURN_IF(make_text(p, forms[i].suffix_first ? b : a, &r->prompts[0]));
        RETURN_IF(make_text(p, forms[i].suffix_first ? a : b, &r->infill.suffix));
        r->prompt_lens[0] = strlen(r->prompts[0]);
        r->infill.suffix_len = strlen(r->infill.suffix);
        return CERIUM_OK;
    }
    return CERIUM_OK;
}

int completion_parse(parser *p)
{
    protocol_request *r = p->r;
    int64_t logprobs = -1;
    RETURN_IF(prompts_parse(p, "prompt", PROTOCOL_PROMPTS_MAX));
    RETURN_IF(best_of_parse(p));
    RETURN_IF(field_bool(p, NULL, p->root, "echo", &r->echo));
    RETURN_IF(field_bool(p, NULL, p->root, "return_progress", &r->return_progress));
    RETURN_IF(healing_parse(p));
    RETURN_IF(field_string(p, NULL, p->root, "user", &r->document));
    RETURN_IF(field_integer(p, NULL, p->root, "logprobs", 0, CERIUM_TOP_MAX, &logprobs));
    r->sampling.logprobs = logprobs >= 0;
    r->top_logprobs = logprobs > 0 ? (uint32_t)logprobs : 0;
    if (r->echo && logprobs >= 0)
        protocol_warn(r, "logprobs", "are those of the answer: the prompt that is echoed has none");
    RETURN_IF(suffix_parse(p));
    RETURN_IF(written_hole(p));
    RETURN_IF(pointer_parse(p));
    return confidence_parse(p);
}

/* ---- llama.cpp's /completion ---- */

/* An array that contains an id is one prompt, of texts and ids one after the other. */
static int mixed_parse(parser *p)
{
    const json_t *prompt = json_object_get(p->root, "prompt"), *one;
    const place at = {NULL, "prompt", 0};
    size_t i, n_ids = 0, n_texts = 0;
    json_array_foreach(prompt, i, one) {
        n_ids += json_is_integer(one);
        n_texts += json_is_string(one);
    }
    if (!n_ids || !n_texts) return prompts_parse(p, at.key, PROTOCOL_PROMPTS_MAX);
    json_array_foreach(prompt, i, one)
        if (!json_is_string(one) && !json_is_integer(one))
            return parse_fail_type(p, &(place){&at, NULL, i}, "a string or a token", one);
    p->r->mixed_prompt = prompt;
    return prompt_of(p, "");
}

int llama_completion_parse(parser *p)
{
    protocol_request *r = p->r;
    const place at = {NULL, "prompt", 0};
    RETURN_IF(mixed_parse(p));
    if (r->n_prompts != 1)
        return parse_fail(p, &at, "invalid_value",
                          "Invalid 'prompt': one text, or one array of tokens; several prompts are "
                          "taken by /v1/completions.");
    RETURN_IF(field_bool(p, NULL, p->root, "return_progress", &r->return_progress));
    RETURN_IF(healing_parse(p));
    RETURN_IF(written_hole(p));
    RETURN_IF(pointer_parse(p));
    RETURN_IF(response_fields_parse(p));
    return answer_format_parse(p);
}

/* ---- infill ---- */

static int files_parse(parser *p)
{
    json_t *list = NULL;
    const place extra = {NULL, "input_extra", 0};
    RETURN_IF(field_array(p, NULL, p->root, "input_extra", PROTOCOL_FILES_MAX, &list));
    size_t n = json_array_size(list);
    if (!n) return CERIUM_OK;
    cerium_context_file *files = memory_zalloc(n, sizeof *files);
    if (!files) return CERIUM_ERR_MEMORY;
    p->r->infill.files = files;
    p->r->infill.n_files = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        const place at = {&extra, NULL, i};
        files[i] = (cerium_context_file){.path = "", .text = ""};
        RETURN_IF(expect_object(p, &at, one));
        RETURN_IF(field_string(p, &at, one, "text", &files[i].text));
        RETURN_IF(field_string(p, &at, one, "filename", &files[i].path));
        files[i].text_len = strlen(files[i].text);
    }
    return CERIUM_OK;
}

/* llama.cpp puts `prompt`, the line up to the cursor, between prefix and hole.  Without both sides
 * there is no hole, as in llama.cpp. */
static int prefix_parse(parser *p)
{
    static const char *const sides[] = {"input_prefix", "input_suffix"};
    cerium_infill *infill = &p->r->infill;
    const char *line = "";
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        const json_t *side = json_object_get(p->root, sides[i]);
        if (!side || json_is_null(side)) return parse_fail_missing(p, &(place){NULL, sides[i], 0});
    }
    infill->prefix = infill->suffix = "";
    RETURN_IF(field_string(p, NULL, p->root, "input_prefix", &infill->prefix));
    RETURN_IF(field_string(p, NULL, p->root, "input_suffix", &infill->suffix));
    RETURN_IF(field_string(p, NULL, p->root, "prompt", &line));
    if (line[0]) {
        bytes all = {.max = SIZE_MAX};
        int status = bytes_append(&all, infill->prefix, strlen(infill->prefix));
        if (!status) status = bytes_append(&all, line, strlen(line));
        if (!status) status = make_text(p, (view){all.ptr, all.len}, &infill->prefix);
        bytes_free(&all);
        RETURN_IF(status);
    }
    infill->prefix_len = strlen(infill->prefix);
    infill->suffix_len = strlen(infill->suffix);
    return CERIUM_OK;
}

/* The document's identity: a newer request for it makes an older one stale. */
static int document_parse(parser *p)
{
    char text[32];
    int64_t slot = -1;
    RETURN_IF(field_string(p, NULL, p->root, "filename", &p->r->infill.path));
    RETURN_IF(field_integer(p, NULL, p->root, "id_slot", -1, INT64_MAX, &slot));
    p->r->document = p->r->infill.path;
    if (slot < 0) return CERIUM_OK;
    int len = snprintf(text, sizeof text, "slot %lld", (long long)slot);
    return make_text(p, (view){text, (size_t)len}, &p->r->document);
}

int infill_parse(parser *p)
{
    protocol_request *r = p->r;
    bool one_block = true;
    int64_t indent = 0, prompt_ms = 0, predict_ms = 0;
    if (!p->defaults->fills_in)
        return protocol_error_set(p->error, 501, "not_supported_error", NULL, "",
                                  "This model cannot fill in the middle: its vocabulary has no "
                                  "tokens for it. Load a code model that has them.");
    r->fill_in = r->ends_hole = true;
    RETURN_IF(confidence_parse(p));
    RETURN_IF(pointer_parse(p));
    RETURN_IF(healing_parse(p));
    RETURN_IF(field_bool(p, NULL, p->root, "one_block", &one_block));
    RETURN_IF(field_bool(p, NULL, p->root, "return_progress", &r->return_progress));
    r->beyond_block = !one_block;
    RETURN_IF(prefix_parse(p));
    RETURN_IF(files_parse(p));
    RETURN_IF(document_parse(p));
    RETURN_IF(field_bound(p, NULL, p->root, "n_indent", 0, 4096, &indent));
    RETURN_IF(field_bound(p, NULL, p->root, "t_max_prompt_ms", -1, INT32_MAX, &prompt_ms));
    RETURN_IF(field_bound(p, NULL, p->root, "t_max_predict_ms", -1, INT32_MAX, &predict_ms));
    RETURN_IF(response_fields_parse(p));
    r->indent_min = (uint32_t)indent;
    r->prompt_ms_max = prompt_ms > 0 ? (uint32_t)prompt_ms : 0;
    r->predict_ms_max = predict_ms > 0 ? (uint32_t)predict_ms : 0;
    return CERIUM_OK;
}
