/* guide.c - owns the places of a guided answer: triggers, the matcher, forced tokens. */
#include "engine/guide.h"

#include "base/memory.h"

_Static_assert(GUIDE_PLACES + 2 <= MATCH_SLOTS, "a place for each draft, and two to look ahead");

typedef enum {
    PLACE_FREE = 0,    /* free text, searched for triggers */
    PLACE_ANY = 1,     /* free text to the end */
    PLACE_GRAMMAR = 2, /* in the text of trigger `which`'s grammar; its own slot of the matcher */
    PLACE_OVER = 3,    /* only an end token may follow */
} place_kind;

enum { OF_ROOT = CERIUM_TRIGGERS_MAX }; /* `which`: the guide's own grammar */

typedef struct {
    place_kind kind;
    uint32_t which;
    bool triggered;                        /* a trigger came, ever */
    uint16_t matched[CERIUM_TRIGGERS_MAX]; /* bytes of each trigger that the text ends with */
} guide_state;

typedef struct {
    char *text;
    uint32_t len;
    uint16_t *back; /* [len] Knuth, Morris, Pratt: length still matched after a mismatch */
    cerium_grammar *grammar;
    bool ends;
} trigger;

struct guide {
    const mask_vocabulary *v;
    const tokenizer *t;
    cerium_grammar *root;
    trigger triggers[CERIUM_TRIGGERS_MAX];
    uint32_t n_triggers;
    bool must;
    matcher *matchers[CERIUM_TRIGGERS_MAX + 1]; /* one for each grammar; equal ones share */
    uint64_t *crossing;   /* [n_words] tokens that reach beyond a trigger; NULL: none does */
    uint64_t *free_masks; /* [GUIDE_PLACES][n_words] */
    guide_state places[GUIDE_PLACES];
    int32_t forced[GUIDE_FORCED_MAX];
    uint32_t n_forced, forced_at;
};

/* ---- grammars ---- */

static int compile_grammar(cerium_grammar **out, cerium_grammar_syntax syntax, view text,
                           bool forgives, cerium_error *err)
{
    if (!out || !text.ptr) return error_set(err, CERIUM_ERR_ARGUMENT, "no grammar or text");
    cerium_grammar *grammar_ = memory_zalloc(1, sizeof *grammar_);
    if (!grammar_) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a grammar");
    int status = forgives ? grammar_compile_forgiving(&grammar_->g, syntax, text, err)
                          : grammar_compile(&grammar_->g, syntax, text, err);
    atomic_init(&grammar_->references, 1);
    if (status)
        memory_free(grammar_);
    else
        *out = grammar_;
    return status;
}

int cerium_grammar_compile(cerium_grammar **out, cerium_grammar_syntax syntax, const char *text,
                           size_t text_len, cerium_error *err)
{
    return compile_grammar(out, syntax, (view){text, text_len}, false, err);
}

int cerium_grammar_compile_forgiving(cerium_grammar **out, cerium_grammar_syntax syntax,
                                     const char *text, size_t text_len, cerium_error *err)
{
    return compile_grammar(out, syntax, (view){text, text_len}, true, err);
}

const char *cerium_grammar_left_out(const cerium_grammar *of, size_t i)
{
    size_t at = 0;
    for (; of && at < of->g->notes_len && i > 0; i--) at += strlen(of->g->notes + at) + 1;
    return of && at < of->g->notes_len ? of->g->notes + at : NULL;
}

static void drop(cerium_grammar *of)
{
    if (!of || atomic_fetch_sub(&of->references, 1) > 1) return;
    grammar_free(&of->g);
    memory_free(of);
}

cerium_grammar *cerium_grammar_hold(const cerium_grammar *of)
{
    cerium_grammar *held = (cerium_grammar *)of; /* but for its count, it does not change */
    if (held) atomic_fetch_add(&held->references, 1);
    return held;
}

void cerium_grammar_close(cerium_grammar **of)
{
    if (!of || !*of) return;
    drop(*of);
    *of = NULL;
}

int cerium_grammar_matches(const cerium_grammar *of, const char *text, size_t text_len,
                           bool *matches, cerium_error *err)
{
    matcher *m = NULL;
    if (!of || (!text && text_len) || !matches)
        return error_set(err, CERIUM_ERR_ARGUMENT, "no grammar, text or result");
    RETURN_IF(matcher_open(&m, of->g, 0, 0, 0, err));
    matcher_begin(m, 0);
    *matches = matcher_accept(m, 0, 0, (view){text, text_len}) && matcher_is_complete(m, 0);
    matcher_close(&m);
    return CERIUM_OK;
}

/* ---- opening ---- */

int guide_vocabulary(mask_vocabulary **out, const tokenizer *t, uint32_t n_vocab, cerium_error *err)
{
    mask_token *tokens = memory_zalloc(n_vocab, sizeof *tokens);
    if (!tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory to sort the vocabulary");
    for (uint32_t i = 0; i < n_vocab; i++) {
        mask_token *to = &tokens[i];
        to->text.ptr = tokenizer_bytes(t, (int32_t)i, &to->text.len);
        to->is_end = tokenizer_is_end(t, (int32_t)i);
        to->is_control = to->is_end || tokenizer_is_control(t, (int32_t)i);
    }
    int status = mask_vocabulary_open(out, tokens, n_vocab, err);
    memory_free(tokens);
    return status;
}

int guide_check(const cerium_guide *c, cerium_error *err)
{
    const int bad = CERIUM_ERR_ARGUMENT;
    if (c->n_triggers > CERIUM_TRIGGERS_MAX || (c->n_triggers && !c->triggers))
        return error_set(err, bad, "%u triggers: at most %d", c->n_triggers, CERIUM_TRIGGERS_MAX);
    for (uint32_t i = 0; i < c->n_triggers; i++)
        if (!c->triggers[i].text || c->triggers[i].text_len == 0 ||
            c->triggers[i].text_len > CERIUM_TRIGGER_BYTES_MAX)
            return error_set(err, bad, "trigger %u has %zu bytes: 1 to %d are possible", i,
                             c->triggers[i].text_len, CERIUM_TRIGGER_BYTES_MAX);
    return CERIUM_OK;
}

/* Matched bytes of the trigger after one more byte; k were matched before it. */
static uint32_t match_byte(const trigger *t, uint32_t k, char c)
{
    while (k > 0 && (k == t->len || t->text[k] != c)) k = t->back[k - 1];
    return t->text[k] == c ? k + 1 : k;
}

static int copy_trigger(trigger *to, const cerium_trigger *from)
{
    to->len = (uint32_t)from->text_len;
    to->text = memory_copy(from->text, from->text_len);
    to->back = memory_zalloc(from->text_len, sizeof *to->back);
    to->grammar = cerium_grammar_hold(from->grammar);
    to->ends = from->ends;
    if (!to->text || !to->back) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 1; i < to->len; i++)
        to->back[i] = (uint16_t)match_byte(to, to->back[i - 1], to->text[i]);
    return CERIUM_OK;
}

/* A token's text; of a control token its name. */
static view shown_text(const guide *g, uint32_t token)
{
    view text = mask_text(g->v, token);
    if (g->v->is_control[token] && text.len) text = (view){text.ptr + 1, text.len - 2};
    return text;
}

static bool holds_trigger(const guide *g, view text)
{
    for (uint32_t i = 0; i < g->n_triggers; i++) {
        const trigger *t = &g->triggers[i];
        const char *at = text.len > t->len ? memmem(text.ptr, text.len - 1, t->text, t->len) : NULL;
        if (at) return true;
    }
    return false;
}

/* Tokens that contain a whole trigger and reach beyond it. */
static int find_crossing(guide *g)
{
    size_t least = SIZE_MAX;
    for (uint32_t i = 0; i < g->n_triggers; i++)
        if (g->triggers[i].len < least) least = g->triggers[i].len;
    for (uint32_t token = 0; token < g->v->n_vocab; token++) {
        view text = shown_text(g, token);
        if (text.len <= least || !holds_trigger(g, text)) continue;
        if (!g->crossing) g->crossing = memory_zalloc(g->v->n_words, sizeof *g->crossing);
        if (!g->crossing) return CERIUM_ERR_MEMORY;
        mask_set(g->crossing, token);
    }
    return CERIUM_OK;
}

static const grammar *grammar_of(const guide *g, uint32_t which)
{
    const cerium_grammar *of = which == OF_ROOT ? g->root : g->triggers[which].grammar;
    return of ? of->g : NULL;
}

/* Is the text after a complete text of this grammar free? */
static bool is_open(const guide *g, uint32_t which)
{
    return g->n_triggers > 0 && (which == OF_ROOT || !g->triggers[which].ends);
}

/* One matcher for each different grammar, or different end. */
static int open_matchers(guide *g, cerium_error *err)
{
    for (uint32_t i = 0; i <= OF_ROOT; i++) {
        const grammar *of = i < g->n_triggers || i == OF_ROOT ? grammar_of(g, i) : NULL;
        for (uint32_t k = 0; of && k < i && !g->matchers[i]; k++)
            if (grammar_of(g, k) == of && is_open(g, k) == is_open(g, i))
                g->matchers[i] = g->matchers[k];
        if (!of || g->matchers[i]) continue;
        RETURN_IF(matcher_open(&g->matchers[i], of, g->v->token_bytes_max, g->v->n_words,
                               MASKS_KEPT, err));
        RETURN_IF(mask_classes_open(g->matchers[i], g->v));
    }
    return CERIUM_OK;
}

static void free_place(guide_state *p, bool triggered)
{
    *p = (guide_state){.kind = PLACE_FREE, .triggered = triggered};
}

static void enter(guide *g, uint32_t at, uint32_t which)
{
    guide_state *p = &g->places[at];
    *p = (guide_state){.kind = PLACE_ANY, .triggered = true};
    if (!g->matchers[which]) {
        if (which != OF_ROOT && g->triggers[which].ends) return;
        if (g->n_triggers) free_place(p, true);
        return;
    }
    p->kind = PLACE_GRAMMAR;
    p->which = which;
    matcher_begin(g->matchers[which], at);
}

static void find_forced(guide *g);

int guide_open(guide **out, const cerium_guide *config, const mask_vocabulary *v,
               const tokenizer *t, cerium_error *err)
{
    guide *g = memory_zalloc(1, sizeof *g);
    int status = g ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (g) {
        g->v = v;
        g->t = t;
        g->must = config->must;
        g->root = cerium_grammar_hold(config->grammar);
        g->free_masks = memory_alloc((size_t)GUIDE_PLACES * v->n_words * sizeof *g->free_masks);
        if (!g->free_masks) status = CERIUM_ERR_MEMORY;
    }
    for (uint32_t i = 0; !status && i < config->n_triggers; i++) {
        g->n_triggers = i + 1;
        status = copy_trigger(&g->triggers[i], &config->triggers[i]);
    }
    if (!status) status = find_crossing(g);
    if (!status) status = open_matchers(g, err);
    if (status) {
        guide_close(&g);
        return error_set(err, status, "no memory to guide an answer");
    }
    if (g->root)
        enter(g, 0, OF_ROOT);
    else
        free_place(&g->places[0], false);
    find_forced(g);
    *out = g;
    return CERIUM_OK;
}

void guide_close(guide **guide_)
{
    if (!guide_ || !*guide_) return;
    guide *g = *guide_;
    for (uint32_t i = 0; i <= OF_ROOT; i++) {
        matcher *m = g->matchers[i];
        for (uint32_t k = i; k <= OF_ROOT; k++)
            if (g->matchers[k] == m) g->matchers[k] = NULL;
        matcher_close(&m);
    }
    for (uint32_t i = 0; i < g->n_triggers; i++) {
        memory_free(g->triggers[i].text);
        memory_free(g->triggers[i].back);
        drop(g->triggers[i].grammar);
    }
    drop(g->root);
    memory_free(g->crossing);
    memory_free(g->free_masks);
    memory_free(g);
    *guide_ = NULL;
}

/* ---- bytes ---- */

/* One byte of free text. Returns the trigger that is complete with it, the longest; -1: none. */
static int free_byte(const guide *g, guide_state *p, char c)
{
    int found = -1;
    for (uint32_t i = 0; i < g->n_triggers; i++) {
        const trigger *t = &g->triggers[i];
        uint32_t k = match_byte(t, p->matched[i], c);
        p->matched[i] = (uint16_t)k;
        if (k == t->len && (found < 0 || t->len > g->triggers[found].len)) found = (int)i;
    }
    return found;
}

/* Leave a grammar whose text is complete and cannot continue. */
static void leave_if_over(guide *g, uint32_t at)
{
    guide_state *p = &g->places[at];
    matcher *m = g->matchers[p->which];
    const match_set *set = &m->sets[m->slots[at]];
    if (!set->is_complete || set->n > 1) return;
    if (is_open(g, p->which))
        free_place(p, true);
    else
        p->kind = PLACE_OVER;
}

/* The rest of a token's text at place `at`, in free text.  False: a trigger ends within it. */
static bool feed_free(guide *g, uint32_t at, view text)
{
    for (size_t i = 0; i < text.len; i++) {
        int which = free_byte(g, &g->places[at], text.ptr[i]);
        if (which < 0) continue;
        if (i + 1 < text.len) return false;
        enter(g, at, (uint32_t)which);
        return true;
    }
    return true;
}

/* A token's text in a grammar, then maybe in free text. */
static bool feed_grammar(guide *g, uint32_t at, view text, bool is_control)
{
    guide_state *p = &g->places[at];
    matcher *m = g->matchers[p->which];
    for (size_t i = 0; i < text.len; i++) {
        if (matcher_accept(m, at, at, (view){text.ptr + i, 1})) continue;
        if (!matcher_is_complete(m, at) || !is_open(g, p->which)) return false;
        if (is_control && i > 0) return false; /* never in pieces */
        free_place(p, true);
        if (is_control) text = (view){text.ptr + 1, text.len - 2};
        return feed_free(g, at, (view){text.ptr + i, text.len - i});
    }
    leave_if_over(g, at);
    return true;
}

/* Place to = place from after a token.  False: it cannot follow.  An end token leads nowhere. */
static bool advance(guide *g, uint32_t from, uint32_t to, int32_t token)
{
    if ((uint32_t)token >= g->v->n_vocab) return false;
    view text = mask_text(g->v, (uint32_t)token);
    bool is_control = g->v->is_control[token];
    guide_state *p = &g->places[to];
    if (from != to) {
        *p = g->places[from];
        if (p->kind == PLACE_GRAMMAR) matcher_copy(g->matchers[p->which], from, to);
    }
    switch (p->kind) {
    case PLACE_ANY:
        return true;
    case PLACE_OVER:
        return false;
    case PLACE_FREE:
        return feed_free(g, to, shown_text(g, (uint32_t)token));
    case PLACE_GRAMMAR:
        return text.len > 0 && feed_grammar(g, to, text, is_control);
    }
    return false;
}

/* ---- forced tokens ---- */

enum { FORCED_BYTES = 256 };

/* One character of each class of pre-tokenizers, and those that begin JSON. */
static const char followers[] = "aA0 \n\"'.,:;}])({[_-/\\<=+\t";

static size_t encode(const guide *g, view text, int32_t *out)
{
    size_t n = 0;
    int status = tokenizer_encode_bare(g->t, text, out, FORCED_BYTES + 4, &n, NULL);
    return status ? 0 : n;
}

/* Tokens of a forced text are certain if they stay the same whatever follows: try each possible
 * next character. */
static void force_text(guide *g, matcher *m, const char *text, size_t len)
{
    int32_t sure[FORCED_BYTES + 4], other[FORCED_BYTES + 4];
    char longer[FORCED_BYTES + 1];
    memcpy(longer, text, len);
    size_t n = encode(g, (view){text, len}, sure);
    if (!matcher_accept(m, 0, MATCH_SLOTS - 1, (view){text, len})) n = 0;
    for (const char *c = followers; *c && n > 0; c++) {
        if (!matcher_accept(m, MATCH_SLOTS - 1, MATCH_SLOTS - 2, (view){c, 1})) continue;
        longer[len] = *c;
        size_t n_other = encode(g, (view){longer, len + 1}, other), same = 0;
        while (same < n && same < n_other && sure[same] == other[same]) same++;
        n = same;
    }
    matcher_begin(m, MATCH_SLOTS - 1); /* hold nothing */
    matcher_begin(m, MATCH_SLOTS - 2);
    g->n_forced = (uint32_t)(n < GUIDE_FORCED_MAX ? n : GUIDE_FORCED_MAX);
    memcpy(g->forced, sure, g->n_forced * sizeof *sure);
}

/* The token that ends a turn, where only an end may follow. */
static void force_end(guide *g)
{
    int32_t end = tokenizer_role(g->t, TOKEN_EOT);
    if (end < 0 || !tokenizer_is_end(g->t, end)) end = tokenizer_role(g->t, TOKEN_EOS);
    if (end < 0 || !tokenizer_is_end(g->t, end)) return;
    g->forced[0] = end;
    g->n_forced = 1;
}

static void find_forced(guide *g)
{
    const guide_state *p = &g->places[0];
    char text[FORCED_BYTES];
    g->n_forced = g->forced_at = 0;
    if (p->kind == PLACE_OVER) force_end(g);
    if (p->kind != PLACE_GRAMMAR) return;
    matcher *m = g->matchers[p->which];
    size_t n = matcher_forced(m, 0, text, sizeof text);
    if (n > 0 && !memchr(text, GRAMMAR_CONTROL_MARK, n)) force_text(g, m, text, n);
}

const int32_t *guide_forced(const guide *g, uint32_t *n)
{
    *n = g->n_forced - g->forced_at;
    return g->forced + g->forced_at;
}

/* ---- what the engine asks ---- */

/* Find the tokens that are forced from here on. */
static bool forces(guide *g, uint32_t at)
{
    char byte;
    const guide_state *p = &g->places[at];
    return p->kind == PLACE_OVER ||
           (p->kind == PLACE_GRAMMAR && matcher_forced(g->matchers[p->which], at, &byte, 1) > 0);
}

uint32_t guide_plan(guide *g, const int32_t *drafts, uint32_t n)
{
    CHECK(n < GUIDE_PLACES);
    if (g->forced_at < g->n_forced) return 0; /* the next text is known */
    for (uint32_t i = 0; i < n; i++) {
        if (tokenizer_is_end(g->t, drafts[i])) return i;
        const uint64_t *mask = guide_mask(g, i);
        if ((mask && !mask_has(mask, (uint32_t)drafts[i])) || !advance(g, i, i + 1, drafts[i]))
            return i;
        if (forces(g, i + 1)) return i; /* the end of forced text: the next is drawn */
    }
    return n;
}

/* Free text: all tokens but those that reach beyond a trigger, and the end where it must not come
 * yet. */
static const uint64_t *free_mask(guide *g, uint32_t at)
{
    const guide_state *p = &g->places[at];
    uint64_t *mask = g->free_masks + (size_t)at * g->v->n_words;
    bool must = g->must && !p->triggered, begun = false;
    for (uint32_t i = 0; i < g->n_triggers; i++) begun |= p->matched[i] > 0;
    if (!must && !begun && !g->crossing) return NULL;
    if (g->crossing)
        memcpy(mask, g->crossing, g->v->n_words * sizeof *mask);
    else
        memset(mask, 0, g->v->n_words * sizeof *mask);
    for (uint32_t i = 0; i < g->n_triggers; i++) {
        const trigger *t = &g->triggers[i];
        for (uint32_t k = p->matched[i] == t->len ? t->back[t->len - 1] : p->matched[i]; k > 0;
             k = t->back[k - 1])
            mask_add_longer(mask, g->v, (view){t->text + k, t->len - k});
    }
    for (uint32_t i = 0; i < g->v->n_words; i++) {
        if (must) mask[i] |= g->v->ends[i];
        mask[i] = ~mask[i] & g->v->all[i];
    }
    return mask;
}

const uint64_t *guide_mask(guide *g, uint32_t at)
{
    const guide_state *p = &g->places[at];
    switch (p->kind) {
    case PLACE_ANY:
        return NULL;
    case PLACE_OVER:
        return g->v->ends;
    case PLACE_FREE:
        return free_mask(g, at);
    case PLACE_GRAMMAR:
        break;
    }
    bool open = is_open(g, p->which);
    const uint64_t *mask = mask_of(g->matchers[p->which], at, g->v, open);
    if (!open || !g->crossing) return mask;
    uint64_t *out = g->free_masks + (size_t)at * g->v->n_words;
    for (uint32_t i = 0; i < g->v->n_words; i++) out[i] = mask[i] & ~g->crossing[i];
    return out;
}

void guide_follow(guide *g, uint32_t at, int32_t token)
{
    if (g->forced_at < g->n_forced) {
        CHECK(at == 0 && token == g->forced[g->forced_at]);
        g->forced_at++;
    }
    if (!tokenizer_is_end(g->t, token)) CHECK(advance(g, at, 0, token));
    if (g->forced_at == g->n_forced) find_forced(g);
}

/* In place of forced tokens, others of the same text are accepted. */
bool guide_resume(guide *g, const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!advance(g, 0, 0, tokens[i])) return false;
    find_forced(g);
    return true;
}

/* In a grammar: the place stays the same whatever follows. */
bool guide_is_free(guide *g)
{
    const guide_state *p = &g->places[0];
    const uint32_t ahead = MATCH_SLOTS - 1;
    bool same = true;
    if (p->kind != PLACE_GRAMMAR) return p->kind != PLACE_OVER;
    matcher *m = g->matchers[p->which];
    for (const char *c = followers; *c && same; c++)
        same = matcher_accept(m, 0, ahead, (view){c, 1}) && m->slots[ahead] == m->slots[0];
    matcher_begin(m, ahead); /* hold nothing */
    return same;
}

bool guide_is_stuck(guide *g)
{
    if (g->forced_at < g->n_forced) return false;
    const uint64_t *mask = guide_mask(g, 0);
    return mask && mask_count(mask, g->v->n_words, 1) == 0;
}
