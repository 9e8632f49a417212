/* convert_tokenizer.c - refuses a tokenizer.json that a GGUF file cannot say.
 *
 * A byte-level vocabulary takes texts as they are.  With SentencePiece's, spaces become U+2581, and
 * one more may come first: as normalizers (Prepend, Replace) or as the pre-tokenizer Metaspace. */
#include "convert/convert_tokenizer.h"

#define SPACE "\xE2\x96\x81" /* U+2581 */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_text(const json_t *object, const char *key, const char *wanted)
{
    const char *text = text_of(object, key);
    return text && !strcmp(text, wanted);
}

/* The step or each of a Sequence; at: 0, 1, ...; NULL: no more. */
static const json_t *step_of(const json_t *steps, const char *list, size_t at)
{
    if (!is_text(steps, "type", "Sequence")) return at ? NULL : steps;
    return json_array_get(json_object_get(steps, list), at);
}

static const json_t *normalizer_of(const json_t *root, size_t at)
{
    return step_of(json_object_get(root, "normalizer"), "normalizers", at);
}

static bool is_fine_normalizer(const json_t *step, bool is_sentencepiece)
{
    if (!json_is_object(step)) return true; /* null */
    if (!is_sentencepiece) return is_text(step, "type", "NFC");
    if (is_text(step, "type", "Prepend")) return is_text(step, "prepend", SPACE);
    return is_text(step, "type", "Replace") && is_text(step, "content", SPACE) &&
           is_text(json_object_get(step, "pattern"), "String", " ");
}

static int check_normalizers(const json_t *root, bool is_sentencepiece, cerium_error *err)
{
    const json_t *step;
    for (size_t i = 0; (step = normalizer_of(root, i)); i++) {
        if (is_fine_normalizer(step, is_sentencepiece)) continue;
        const char *type = text_of(step, "type");
        return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: the normalizer %.40s is not "
                         "supported, or not as it is here", type ? type : "without a type");
    }
    return CERIUM_OK;
}

/* With `split`, no token has a space behind its first character; without it, it may. */
static bool joins_words(const json_t *model)
{
    const json_t *merge;
    size_t i;
    json_array_foreach(json_object_get(model, "merges"), i, merge) {
        const char *a = json_is_array(merge) ? json_string_value(json_array_get(merge, 0))
                                             : json_string_value(merge);
        const char *b = json_is_array(merge) ? json_string_value(json_array_get(merge, 1)) : "";
        if (!a || !b || !*a) continue;
        if (strstr(b, SPACE) || strstr(a + 1, SPACE)) return true;
    }
    return false;
}

static int check_pre_tokenizers(const json_t *root, cerium_error *err)
{
    const json_t *steps = json_object_get(root, "pre_tokenizer"), *step;
    for (size_t i = 0; (step = step_of(steps, "pretokenizers", i)); i++) {
        if (is_text(step, "type", "ByteLevel") &&
            json_is_true(json_object_get(step, "add_prefix_space")))
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: ByteLevel's add_prefix_space "
                             "is not supported; set it to false to convert without it");
        if (is_text(step, "type", "Metaspace") && !is_text(step, "replacement", SPACE))
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: Metaspace with a replacement "
                             "other than U+2581 is not supported");
        /* true is its default */
        if (is_text(step, "type", "Metaspace") && !json_is_false(json_object_get(step, "split")) &&
            joins_words(json_object_get(root, "model")))
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: Metaspace's split is not "
                             "supported with merges of several words; set it to false to convert "
                             "without it");
    }
    return CERIUM_OK;
}

static int check_added(const json_t *root, cerium_error *err)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab"), *added;
    size_t i;
    json_array_foreach(json_object_get(root, "added_tokens"), i, added) {
        const char *text = text_of(added, "content");
        const json_t *other = text ? json_object_get(vocab, text) : NULL;
        const json_t *id = json_object_get(added, "id");
        for (size_t k = 0; k < ARRAY_LEN(flags); k++)
            if (json_is_true(json_object_get(added, flags[k])))
                return error_set(err, CERIUM_ERR_FORMAT,
                                 "tokenizer.json: added token '%.40s' has %s, which is not "
                                 "supported; set it to false to convert without it",
                                 text ? text : "", flags[k]);
        if (json_is_integer(other) && json_is_integer(id) && !json_equal(other, id))
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: added token '%.40s' has the "
                             "id %lld, and %lld in the vocabulary", text,
                             (long long)json_integer_value(id),
                             (long long)json_integer_value(other));
    }
    return CERIUM_OK;
}

static int check_model(const json_t *model, cerium_error *err)
{
    static const char *const keys[] = {"end_of_word_suffix", "continuing_subword_prefix"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *text = text_of(model, keys[i]);
        if (text && *text)
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: %s is not supported",
                             keys[i]);
    }
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: dropout is not supported; set it "
                         "to null to convert without it");
    return CERIUM_OK;
}

/* ---- what is left out in a line ---- */

static bool has_normalizer(const json_t *root, const char *type)
{
    const json_t *step;
    for (size_t i = 0; (step = normalizer_of(root, i)); i++)
        if (is_text(step, "type", type)) return true;
    return false;
}

/* GGUF files of Qwen's models do without. */
static bool composes(const json_t *root) { return has_normalizer(root, "NFC"); }

/* Prepend turns such a token's own text into one that hardly occurs: "</s>" in a text is then
 * characters.  Published files that have the setting mean the token. */
static bool matches_normalized(const json_t *root)
{
    const json_t *added;
    size_t i;
    if (!has_normalizer(root, "Prepend")) return false;
    json_array_foreach(json_object_get(root, "added_tokens"), i, added)
        if (json_is_true(json_object_get(added, "normalized"))) return true;
    return false;
}

/* The tokens of a TemplateProcessing, but for one in front. */
static bool adds_more(const json_t *step)
{
    const json_t *single = json_object_get(step, "single"), *part;
    size_t i;
    json_array_foreach(single, i, part)
        if (i > 0 && json_object_get(part, "SpecialToken")) return true;
    return false;
}

static bool surrounds(const json_t *root)
{
    const json_t *post = json_object_get(root, "post_processor"), *step;
    for (size_t i = 0; (step = step_of(post, "processors", i)); i++)
        if (adds_more(step)) return true;
    return false;
}

const char *convert_tokenizer_left_out(const json_t *root, size_t at)
{
    static const struct {
        bool (*has)(const json_t *root);
        const char *line;
    } all[] = {
        {composes, "tokenizer.json: the normalizer NFC is left out: texts are taken as they are"},
        {matches_normalized, "tokenizer.json: added tokens are recognized as they are "
                             "written, although \"normalized\" is set"},
        {surrounds, "tokenizer.json: of the post-processor's tokens, only the one that begins a "
                    "text is kept"},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].has(root) && at-- == 0) return all[i].line;
    return NULL;
}

int convert_tokenizer_check(const json_t *root, bool is_sentencepiece, cerium_error *err)
{
    RETURN_IF(check_normalizers(root, is_sentencepiece, err));
    RETURN_IF(check_model(json_object_get(root, "model"), err));
    RETURN_IF(check_pre_tokenizers(root, err));
    return check_added(root, err);
}
