/* place.c - the place of a missing name within its line: what may be written there, as a regular
 * expression by which the model's next tokens are limited. */
#include "watch/watch_parts.h"

enum {
    CHOICES_MAX = 4096,
    CHOICES_BYTES = 1 << 16,
    BEFORE_MAX = 128, /* bytes before the name in its token */
};

/* Signs of ASCII that end a name, and those that end a module's path in quotes. */
#define AFTER_NAME "[\\t\\n\\r -#%-/:-@\\[-\\^`{-~]"
#define AFTER_PATH "[\"'`>\\\\\\n]"

typedef struct {
    bytes text;
    uint32_t n;
    bool is_path, is_private, failed;
} choices;

static void put(choices *c, view text)
{
    c->failed |= bytes_append(&c->text, text.ptr, text.len) != 0;
}

/* One byte for itself; within brackets, too. */
static void put_byte(choices *c, char byte)
{
    if (strchr("\\^$.|?*+()[]{}-/", byte)) put(c, VIEW("\\"));
    put(c, (view){&byte, 1});
}

static void put_text(choices *c, view text)
{
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.ptr[i];
        if (byte == '\n') put(c, VIEW("\\n"));
        else if (byte == '\r') put(c, VIEW("\\r"));
        else if (byte == '\t') put(c, VIEW("\\t"));
        else if (!byte) c->failed = true;
        else put_byte(c, byte);
    }
}

static bool is_of_name(char c, bool is_path)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || c == '_' || c == '$' || (is_path && c && strchr("./-@", c));
}

static bool is_name(view text, bool is_path)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_of_name(text.ptr[i], is_path)) return false;
    return text.len > 0;
}

static bool add(void *user, view name)
{
    choices *c = user;
    if (!is_name(name, c->is_path) || (name.ptr[0] == '_' && !c->is_private)) return true;
    if (c->n++) put(c, VIEW("|"));
    put_text(c, name);
    c->failed |= c->n > CHOICES_MAX || c->text.len > CHOICES_BYTES;
    return !c->failed;
}

/* After a name anything may come but more of the name. */
static void put_end(choices *c)
{
    put(c, VIEW("(?:"));
    put(c, c->is_path ? VIEW(AFTER_PATH) : VIEW(AFTER_NAME));
    put(c, VIEW("[\\s\\S]*)?"));
}

/* Before, and one of the names that exist. */
static bool write_names(choices *c, view before, const names_index *x, const exists_finding *f)
{
    put_text(c, before);
    put(c, VIEW("(?:"));
    exists_each(x, f, add, c);
    put(c, VIEW(")"));
    put_end(c);
    return c->n && !c->failed;
}

/* Before, and the end of a module's path: nothing is below it. */
static bool write_end(choices *c, view before)
{
    put_text(c, before);
    put(c, VIEW("(?:[ \\t\\n\\r,;#][\\s\\S]*)?"));
    return !c->failed;
}

/* Before, and any text that does not begin with the word: it parts from it, or is longer. */
static bool write_others(choices *c, view before, view word)
{
    put_text(c, before);
    put(c, VIEW("(?:"));
    for (size_t i = 0; i < word.len; i++) {
        put_text(c, (view){word.ptr, i});
        put(c, VIEW("(?:[^"));
        put_byte(c, word.ptr[i]);
        put(c, i ? VIEW("][\\s\\S]*)?|") : VIEW("][\\s\\S]*)|"));
    }
    put_text(c, word);
    put(c, VIEW("[A-Za-z0-9_$][\\s\\S]*)"));
    return !c->failed;
}

/* Where the word is within the finding, the last if it is there more than once; UINT64_MAX: not
 * there. */
static uint64_t find_word(const watch *w, const guard_finding *f, view word, bool is_path)
{
    if (f->begin < f->line_begin || f->end > w->fed || f->begin < w->text_at || f->end <= f->begin)
        return UINT64_MAX;
    const char *from = w->text.ptr + (f->begin - w->text_at);
    size_t n = (size_t)(f->end - f->begin);
    for (size_t i = n + 1; i-- > word.len;) {
        size_t at = i - word.len;
        bool alone = (!at || !is_of_name(from[at - 1], false)) &&
                     (i == n || !is_of_name(from[i], is_path));
        if (alone && !memcmp(from + at, word.ptr, word.len)) return f->begin + at;
    }
    return UINT64_MAX;
}

static cerium_grammar *compile(choices *c, bool fits)
{
    cerium_grammar *g = NULL;
    if (!fits || cerium_grammar_compile(&g, CERIUM_GRAMMAR_REGEX, c->text.ptr, c->text.len, NULL))
        return NULL;
    return g;
}

static bool has_one(void *user, view name)
{
    choices *c = user;
    c->n += is_name(name, c->is_path);
    return !c->n;
}

/* The place is after a dot, and no module is there. */
static bool ends_path(const watch *w, const exists_finding *f, uint64_t at, uint64_t line_begin)
{
    choices c = {.is_path = false};
    if (f->kind != EXISTS_IMPORT || f->letter != 'p' || at == line_begin ||
        w->text.ptr[at - 1 - w->text_at] != '.')
        return false;
    exists_each(w->names->index, f, has_one, &c);
    return !c.n;
}

/* What may stand there, after the text before; ends: of a path.  NULL: no grammar can say it. */
static cerium_grammar *grammar_of(const watch *w, const exists_finding *f, view before, view word,
                                  bool ends)
{
    choices c = {.text = {.max = CHOICES_BYTES * 4},
                 .is_path = f->kind == EXISTS_IMPORT && f->letter != 'p' && f->letter != 'v',
                 .is_private = word.ptr[0] == '_'};
    cerium_grammar *g = ends ? compile(&c, write_end(&c, before))
                             : compile(&c, write_names(&c, before, w->names->index, f));
    c.text.len = 0;
    c.failed = false;
    if (!g && !ends) g = compile(&c, write_others(&c, before, word));
    bytes_free(&c.text);
    return g;
}

/* The place of the missing name; UINT64_MAX: unknown, or before the text that can be taken back. */
static uint64_t place_of(const watch *w, const guard_finding *f, const exists_finding *found,
                         view *word)
{
    if (!found || w->lost || f->line_begin < w->base_at || f->line_begin < w->released)
        return UINT64_MAX;
    bool is_path = found->kind == EXISTS_IMPORT && found->letter != 'p';
    *word = (view){found->name + found->word, strcspn(found->name + found->word, ")")};
    return is_name(*word, is_path) ? find_word(w, f, *word, is_path) : UINT64_MAX;
}

bool watch_has_place(const watch *w, const guard_finding *f)
{
    view word;
    return !w->config.recorded &&
           place_of(w, f, watch_names_found(w->names, f), &word) != UINT64_MAX;
}

bool watch_request_has(const watch *w, const guard_finding *f)
{
    const exists_finding *found = watch_names_found(w->names, f);
    if (!found) return false;
    view word = {found->name + found->word, strcspn(found->name + found->word, ")")};
    if (found->kind == EXISTS_IMPORT) word = view_of(found->name);
    for (size_t i = 0; i < w->config.n_request; i++) {
        view rest = w->config.request[i];
        for (const char *at; (at = memmem(rest.ptr, rest.len, word.ptr, word.len)) != NULL;) {
            const char *begin = w->config.request[i].ptr, *end = rest.ptr + rest.len;
            bool alone = (at == begin || !is_of_name(at[-1], false)) &&
                         (at + word.len == end || !is_of_name(at[word.len], false));
            if (alone && (found->kind != EXISTS_ATTRIBUTE || (at > begin && at[-1] == '.')))
                return true;
            rest = (view){at + 1, (size_t)(end - at - 1)};
        }
    }
    return false;
}

bool watch_rollback_place(watch *w, const guard_finding *f)
{
    const exists_finding *found = watch_names_found(w->names, f);
    view word;
    uint64_t at = place_of(w, f, found, &word), begin = 0;
    if (at == UINT64_MAX) return false;
    bool ends = ends_path(w, found, at, f->line_begin);
    at -= ends;
    /* From the beginning of its token on, that it may have the model's own way of cutting. */
    size_t i = watch_token_at(w, at);
    view before = watch_token_before(w, i, at);
    if (i) memcpy(&begin, w->ends.ptr + (i - 1) * sizeof begin, sizeof begin);
    if (begin < f->line_begin) {
        begin = f->line_begin;
        before = (view){w->text.ptr + (begin - w->text_at), (size_t)(at - begin)};
    }
    if (!before.ptr || before.len > BEFORE_MAX) return false;
    cerium_grammar *place = grammar_of(w, found, before, word, ends);
    if (!place) return false;
    if (!watch_cut(w, begin)) {
        cerium_grammar_close(&place);
        return false;
    }
    cerium_grammar_close(&w->place);
    w->place = place;
    w->n_note = w->n_avoid = 0;
    return true;
}
