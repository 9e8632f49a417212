/* literals.c - the vectorscan database of the rules' literals. */
#include "guard/literals.h"

#include "base/text.h"

/* A literal while the set is made. */
typedef struct {
    view text;
    unsigned flags;
    literal what;
} collected;

typedef struct {
    collected *list; /* those of the language that is collected are the last ones, from `first` */
    uint32_t n, cap, first;
} collection;

static void collect(collection *c, view text, unsigned flags, literal what)
{
    if (!text.len || text.len > UINT16_MAX) return;
    what.len = (uint16_t)text.len;
    for (uint32_t i = c->first; i < c->n; i++) {
        literal *l = &c->list[i].what;
        bool same_text = c->list[i].flags == flags && view_equal(c->list[i].text, text);
        if (!same_text || l->line != what.line || (l->line && l->rule != what.rule)) continue;
        l->open |= what.open;
        l->word &= what.word;
        l->call &= what.call;
        if (l->name != what.name) l->name = NULL;
        return;
    }
    if (c->n == c->cap) return; /* counted beforehand: cannot be */
    c->list[c->n++] = (collected){text, flags, what};
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
        const literal plain = {.rule = i, .language = (uint8_t)language};
        literal what = plain;
        what.line = u->kind == RULE_LINE;
        what.in_c = in_c;
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
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("<?="), 0, plain);
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("print"), 0, what);
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("exit"), 0, what);
            if (view_equal(p->last, VIEW("echo"))) collect(c, VIEW("die"), 0, what);
            if (view_equal(p->last, VIEW("include"))) {
                collect(c, VIEW("include_once"), 0, what);
                collect(c, VIEW("require"), 0, what);
                collect(c, VIEW("require_once"), 0, what);
            }
            if (view_equal(p->last, VIEW("backticks")))
                collect(c, VIEW("`"), 0, plain);
            else collect(c, wake_word(p), 0, what);
        }
    }
}

static int by_text(const void *a, const void *b)
{
    const collected *p = a, *q = b;
    const size_t n = p->text.len < q->text.len ? p->text.len : q->text.len;
    const int order = memcmp(p->text.ptr, q->text.ptr, n);
    if (order) return order;
    if (p->text.len != q->text.len) return p->text.len < q->text.len ? -1 : 1;
    if (p->flags != q->flags) return p->flags < q->flags ? -1 : 1;
    return (int)p->what.language - (int)q->what.language;
}

static bool is_same_text(const collected *a, const collected *b)
{
    return a->flags == b->flags && view_equal(a->text, b->text);
}

/* Texts of the database are numbered in their order; c is sorted. */
static int compile(literal_set *l, const collection *c, cerium_error *err)
{
    hs_compile_error_t *why = NULL;
    const char **texts = memory_alloc((c->n + 1) * sizeof *texts);
    size_t *lens = memory_alloc((c->n + 1) * sizeof *lens);
    unsigned *flags = memory_alloc((c->n + 1) * sizeof *flags);
    unsigned *ids = memory_alloc((c->n + 1) * sizeof *ids);
    uint32_t n = 0;
    int status = CERIUM_ERR_MEMORY;
    if (!texts || !lens || !flags || !ids) goto done;
    for (uint32_t i = 0; i < c->n; i++) {
        const collected *p = &c->list[i];
        l->list[i] = p->what;
        if (i && is_same_text(p, p - 1)) continue;
        l->first[n] = i;
        ids[n] = n;
        texts[n] = p->text.ptr;
        lens[n] = p->text.len;
        flags[n++] = p->flags;
    }
    l->first[n] = c->n;
    status = CERIUM_OK;
    if (n && hs_compile_lit_multi(texts, flags, ids, lens, n, HS_MODE_BLOCK, NULL, &l->database,
                                  &why) != HS_SUCCESS)
        status = error_set(err, CERIUM_ERR_FORMAT, "the rules' literals: %s",
                           why && why->message ? why->message : "no memory");
    hs_free_compile_error(why);
done:
    memory_free(texts);
    memory_free(lens);
    memory_free(flags);
    memory_free(ids);
    return status;
}

int literals_open(literal_set *l, const rule_set *rules, cerium_error *err)
{
    collection c = {0};
    int status = CERIUM_ERR_MEMORY;
    *l = (literal_set){0};
    for (uint32_t i = 0; i < rules->n; i++) {
        const rule *u = &rules->list[i];
        const uint32_t n_languages = (uint32_t)__builtin_popcount(u->languages);
        c.cap += (u->names.n * 4 + u->n_literals) * n_languages;
    }
    c.list = memory_alloc((c.cap + 1) * sizeof *c.list);
    if (!c.list) goto done;
    for (int language = 0; language < GUARD_LANGUAGES; language++) {
        c.first = c.n;
        collect_rules(&c, rules, (guard_language)language);
    }
    qsort(c.list, c.n, sizeof *c.list, by_text);
    l->list = memory_alloc((c.n + 1) * sizeof *l->list);
    l->first = memory_alloc((c.n + 1) * sizeof *l->first);
    if (l->list && l->first) status = compile(l, &c, err);
done:
    if (status == CERIUM_ERR_MEMORY) error_set(err, status, "no memory for the rules' literals");
    memory_free(c.list);
    if (status) literals_close(l);
    return status;
}

void literals_close(literal_set *l)
{
    hs_free_database(l->database);
    memory_free(l->list);
    memory_free(l->first);
    *l = (literal_set){0};
}

typedef struct {
    const literal_set *set;
    guard_language language;
    const regex_scratch *re;
    view text;
    bool whole;
    woken *out;
} scanning;

/* Is [begin, end) within a word, or words joined by dashes, that match?  A word cut by the end of a
 * piece may match. */
static bool is_named(const scanning *s, const pcre2_code *name, size_t begin, size_t end)
{
    const char *p = s->text.ptr;
    while (begin && byte_is_word(p[begin - 1])) begin--;
    while (end < s->text.len && byte_is_word(p[end])) end++;
    if (end == s->text.len || regex_found(name, s->re, (view){p + begin, end - begin})) return true;
    size_t first = begin, last = end;
    while (begin && (byte_is_word(p[begin - 1]) || p[begin - 1] == '-')) begin--;
    while (end < s->text.len && (byte_is_word(p[end]) || p[end] == '-')) end++;
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
            if (!i || byte_is_word(p[i - 1])) break;
        } else if (!byte_is_word(c) && !strchr(" \t:.&*-><", c)) {
            break;
        }
        begin--;
    }
    return memmem(text.ptr, text.len, "using", 5) != NULL;
}

/* l ends at end. */
static void wake(const scanning *s, const literal *l, size_t end)
{
    const size_t begin = end - l->len;
    const char *p = s->text.ptr;
    if (l->word && begin && byte_is_word(p[begin - 1]) && byte_is_word(p[begin])) return;
    if (l->word && !l->open && end < s->text.len && byte_is_word(p[end])) return;
    if (l->call && !l->open) {
        size_t next_at = end;
        while (next_at < s->text.len && s->text.ptr[next_at] == ' ') next_at++;
        view next = {s->text.ptr + next_at, s->text.len - next_at};
        if (next.len && !strchr("(\n;,)`<", next.ptr[0]) && !view_starts(next, VIEW("as "))) return;
        if (l->in_c && next.len && strchr(";,)", next.ptr[0]) && !is_held(s->text, begin)) return;
    }
    if (l->needs && s->whole && !has_any(s->text, l->needs)) return;
    if (l->name && (s->out->tree || !is_named(s, l->name, begin, end))) return;
    if (l->line) s->out->lines[l->rule / 64] |= (uint64_t)1 << l->rule % 64;
    else s->out->tree = true;
}

static int found(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                 void *arg)
{
    const scanning *s = arg;
    (void)from;
    (void)flags;
    for (uint32_t i = s->set->first[id]; i < s->set->first[id + 1]; i++)
        if (s->set->list[i].language == s->language) wake(s, &s->set->list[i], (size_t)to);
    return 0;
}

void literals_scan(const literal_set *l, hs_scratch_t *scratch, const regex_scratch *re,
                   guard_language language, view text, bool whole, woken *out)
{
    scanning s = {l, language, re, text, whole, out};
    *out = (woken){0};
    if (!l->database || !text.len) return;
    /* It fails only by a bug: the scratch was made for this database. */
    CHECK(hs_scan(l->database, text.ptr, (unsigned)text.len, 0, scratch, found, &s) == HS_SUCCESS);
}
