/* literals.c - one vectorscan database of literals for each language. */
#include "guard/literals.h"

#include <ctype.h>

typedef struct {
    const char **texts;
    unsigned *flags, *ids;
    size_t *lens;
    literal *list;
    uint32_t n, cap;
} collection;

static void collect(collection *c, view text, unsigned flags, literal what)
{
    if (!text.len || text.len > UINT16_MAX) return;
    what.len = (uint16_t)text.len;
    for (uint32_t i = 0; i < c->n; i++) {
        const literal *l = &c->list[i];
        bool same_text = l->len == what.len && c->flags[i] == flags &&
                         !memcmp(c->texts[i], text.ptr, text.len);
        if (!same_text || l->line != what.line || (l->line && l->rule != what.rule)) continue;
        c->list[i].open |= what.open;
        c->list[i].word &= what.word;
        c->list[i].call &= what.call;
        if (c->list[i].name != what.name) c->list[i].name = NULL;
        return;
    }
    if (c->n == c->cap) return; /* counted beforehand: cannot be */
    c->texts[c->n] = text.ptr;
    c->lens[c->n] = text.len;
    c->flags[c->n] = flags;
    c->ids[c->n] = c->n;
    c->list[c->n++] = what;
}

/* The last segment of a pattern that is specific: "fs.*" is woken by "fs". */
static view wake_word(const pattern *p)
{
    if (p->last.len) return p->last;
    view rest = {p->text.ptr, p->text.len > 2 ? p->text.len - 2 : 0};
    for (size_t i = rest.len; i--;)
        if (rest.ptr[i] == '.') return (view){rest.ptr + i + 1, rest.len - i - 1};
    return rest;
}

static void collect_rules(collection *c, const rule_set *rules, guard_language language)
{
    for (uint32_t i = 0; i < rules->n; i++) {
        const rule *u = &rules->list[i];
        if (!(u->languages >> language & 1)) continue;
        const bool in_c = language == GUARD_C || language == GUARD_CPP;
        literal what = {.rule = i, .line = u->kind == RULE_LINE, .in_c = in_c};
        /* A literal, or a name that is assigned a value. */
        if (in_c && u->kind == RULE_STRING) what.needs = "\"";
        if (in_c && u->kind == RULE_CREDENTIAL) what.needs = "\"=";
        if (u->kind == RULE_CREDENTIAL) what.name = u->match;
        for (uint32_t k = 0; k < u->n_literals; k++)
            collect(c, u->literals[k], HS_FLAG_CASELESS, what);
        what.word = true;
        bool calls = u->kind == RULE_CALL && language != GUARD_RUBY && language != GUARD_PHP;
        if (u->n_literals) continue;
        for (uint32_t k = 0; k < u->names.n; k++) {
            const pattern *p = &u->names.list[k];
            what.open = p->open;
            /* C++'s "std::ifstream in(name)" has a name between type and bracket. */
            what.call = calls && !(language == GUARD_CPP && view_starts(p->text, VIEW("new.")));
            /* PHP's echo is <?= too, and Ruby's and PHP's backticks have no name. */
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("<?="), 0, (literal){.rule = i});
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("print"), 0, what);
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("exit"), 0, what);
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("die"), 0, what);
            if (view_equal(p->last, VIEW("include"))) {
                collect(c, VIEW("include_once"), 0, what);
                collect(c, VIEW("require"), 0, what);
                collect(c, VIEW("require_once"), 0, what);
            }
            if (view_equal(p->last, VIEW("backticks")))
                collect(c, VIEW("`"), 0, (literal){.rule = i});
            else collect(c, wake_word(p), 0, what);
        }
    }
}

static int compile(literal_set *l, const collection *c, guard_language language,
                   cerium_error *err)
{
    hs_compile_error_t *why = NULL;
    if (!c->n) return CERIUM_OK;
    if (hs_compile_lit_multi(c->texts, c->flags, c->ids, c->lens, c->n, HS_MODE_BLOCK, NULL,
                             &l->database, &why) == HS_SUCCESS)
        return CERIUM_OK;
    int status = error_set(err, CERIUM_ERR_FORMAT, "rules for %s: their literals: %s",
                           guard_language_name(language),
                           why && why->message ? why->message : "no memory");
    hs_free_compile_error(why);
    return status;
}

int literals_open(literal_set *l, const rule_set *rules, guard_language language,
                  cerium_error *err)
{
    collection c = {0};
    int status = CERIUM_ERR_MEMORY;
    *l = (literal_set){0};
    for (uint32_t i = 0; i < rules->n; i++)
        c.cap += rules->list[i].names.n * 4 + rules->list[i].n_literals;
    c.texts = memory_alloc((c.cap + 1) * sizeof *c.texts);
    c.flags = memory_alloc((c.cap + 1) * sizeof *c.flags);
    c.ids = memory_alloc((c.cap + 1) * sizeof *c.ids);
    c.lens = memory_alloc((c.cap + 1) * sizeof *c.lens);
    c.list = memory_alloc((c.cap + 1) * sizeof *c.list);
    if (c.texts && c.flags && c.ids && c.lens && c.list) {
        collect_rules(&c, rules, language);
        status = compile(l, &c, language, err);
    } else error_set(err, status, "no memory for the rules' literals");
    memory_free(c.texts);
    memory_free(c.flags);
    memory_free(c.ids);
    memory_free(c.lens);
    l->list = c.list;
    l->n = c.n;
    if (status) literals_close(l);
    return status;
}

void literals_close(literal_set *l)
{
    hs_free_database(l->database);
    memory_free(l->list);
    *l = (literal_set){0};
}

typedef struct {
    const literal_set *set;
    const regex_scratch *re;
    view text;
    bool whole;
    woken *out;
} scanning;

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Is [begin, end) within a word, or words joined by dashes, that match?  A word cut by the end of a
 * piece may match. */
static bool is_named(const scanning *s, const pcre2_code *name, size_t begin, size_t end)
{
    const char *p = s->text.ptr;
    while (begin && in_word(p[begin - 1])) begin--;
    while (end < s->text.len && in_word(p[end])) end++;
    if (end == s->text.len || regex_found(name, s->re, (view){p + begin, end - begin})) return true;
    size_t first = begin, last = end;
    while (begin && (in_word(p[begin - 1]) || p[begin - 1] == '-')) begin--;
    while (end < s->text.len && (in_word(p[end]) || p[end] == '-')) end++;
    return (begin < first || end > last) &&
           regex_found(name, s->re, (view){p + begin, end - begin});
}

static bool has_any(view text, const char *set)
{
    for (; *set; set++)
        if (memchr(text.ptr, *set, text.len)) return true;
    return false;
}

/* C: may a name before one of ",;)" be that of a function that is assigned to another name?  Then
 * it follows "=", in brackets or qualified. */
static bool is_held(view text, size_t begin)
{
    const char *p = text.ptr;
    while (begin) {
        const char c = p[begin - 1];
        if (c == '=') return true;
        if (c == '(') { /* not of a call */
            size_t i = begin - 1;
            while (i && (p[i - 1] == ' ' || p[i - 1] == '\t')) i--;
            if (!i || in_word(p[i - 1])) break;
        } else if (!in_word(c) && !strchr(" \t:.&*-><", c)) {
            break;
        }
        begin--;
    }
    return memmem(text.ptr, text.len, "using", 5) != NULL;
}

static int found(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                 void *arg)
{
    const scanning *s = arg;
    const literal *l = &s->set->list[id];
    (void)from;
    (void)flags;
    size_t end = (size_t)to, begin = end - l->len;
    if (l->word && begin && in_word(s->text.ptr[begin - 1]) && in_word(s->text.ptr[begin]))
        return 0;
    if (l->word && !l->open && end < s->text.len && in_word(s->text.ptr[end])) return 0;
    if (l->call && !l->open) {
        while (end < s->text.len && s->text.ptr[end] == ' ') end++;
        view next = {s->text.ptr + end, s->text.len - end};
        if (next.len && !strchr("(\n;,)`<", next.ptr[0]) && !view_starts(next, VIEW("as ")))
            return 0;
        if (l->in_c && next.len && strchr(";,)", next.ptr[0]) && !is_held(s->text, begin))
            return 0;
    }
    if (l->needs && s->whole && !has_any(s->text, l->needs)) return 0;
    if (l->name && (s->out->tree || !is_named(s, l->name, begin, end))) return 0;
    if (l->line) s->out->lines[l->rule / 64] |= (uint64_t)1 << l->rule % 64;
    else s->out->tree = true;
    return 0;
}

void literals_scan(const literal_set *l, hs_scratch_t *scratch, const regex_scratch *re, view text,
                   bool whole, woken *out)
{
    scanning s = {l, re, text, whole, out};
    *out = (woken){0};
    if (!l->database || !text.len) return;
    /* It fails only by a bug: the scratch was made for this database. */
    CHECK(hs_scan(l->database, text.ptr, (unsigned)text.len, 0, scratch, found, &s) == HS_SUCCESS);
}
