/* rollback.c - cuts an answer at a byte: the guard's state, the text, the tokens; and the note and
 * the forbidden tokens there. */
#include "base/text.h"
#include "watch/watch_parts.h"

static uint64_t end_of(const watch *w, size_t i)
{
    uint64_t end;
    memcpy(&end, w->ends.ptr + i * sizeof end, sizeof end);
    return end;
}

static size_t n_tokens(const watch *w) { return w->log.len / sizeof(int32_t); }

/* Tokens of a text within another, if they encode it exactly.
 * Returns how many, 0: none. */
static size_t encode(const watch *w, view text, int32_t *out, size_t cap)
{
    size_t n = 0, at = 0;
    if (!text.len || cerium_tokenize(w->config.engine, text.ptr, text.len, CERIUM_TOKENIZE_WITHIN,
                                     out, cap, &n, NULL))
        return 0;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(w->config.engine, out[i], &len);
        if (len > text.len - at || memcmp(text.ptr + at, piece, len)) return 0;
        at += len;
    }
    return at == text.len ? n : 0;
}

size_t watch_token_at(const watch *w, uint64_t at)
{
    size_t i = n_tokens(w);
    while (i > 0 && end_of(w, i - 1) > at) i--;
    return i;
}

void watch_rewind(watch *w, uint64_t at)
{
    guard_result ignored;
    const char *from = w->text.ptr + (w->base_at - w->text_at);
    guard_stream_copy(w->stream, w->base);
    guard_feed(w->stream, w->config.worker, from, (size_t)(at - w->base_at), &ignored);
    w->text.len = (size_t)(at - w->text_at);
    w->fed = w->safe = w->weighed = at;
}

/* Tokens whose text was cut off are not released. */
static void cut_kept(watch *w, uint64_t at)
{
    size_t n = w->kept.len / sizeof(kept_token);
    const kept_token *kept = (const kept_token *)w->kept.ptr;
    while (n > 0 && kept[n - 1].end > at) n--;
    w->kept.len = n * sizeof *kept;
}

static view token_bytes(const watch *w, size_t i)
{
    int32_t token;
    view text;
    memcpy(&token, w->log.ptr + i * sizeof token, sizeof token);
    text.ptr = cerium_token_bytes(w->config.engine, token, &text.len);
    return text;
}

/* The number of bytes of token i of the log that spell the heal_prefix: they are not in the
 * text. */
static size_t spelled(const watch *w, size_t i)
{
    size_t left = w->config.heal_prefix.len, n = 0;
    for (size_t k = 0; left && k <= i; k++) {
        n = token_bytes(w, k).len;
        if (n > left) n = left;
        left -= n;
        if (k < i) n = 0;
    }
    return n;
}

/* The bytes of token i of the log before byte `at` of the text, after n_spelled of the
 * heal_prefix. */
static view bytes_before(const watch *w, size_t i, uint64_t at, size_t n_spelled)
{
    uint64_t begin = i ? end_of(w, i - 1) : 0, shown = end_of(w, i) - begin;
    view text = token_bytes(w, i);
    if (!text.ptr || shown + n_spelled > text.len || at - begin > shown) return (view){NULL, 0};
    text.ptr += text.len - shown - n_spelled;
    return (view){text.ptr, (size_t)(at - begin) + n_spelled};
}

view watch_token_before(const watch *w, size_t i, uint64_t at)
{
    return i < n_tokens(w) ? bytes_before(w, i, at, spelled(w, i)) : (view){NULL, 0};
}

static int append_token(watch *w, int32_t token, uint64_t end)
{
    kept_token k = {.token = token, .end = end};
    RETURN_IF(bytes_append(&w->log, &token, sizeof token));
    RETURN_IF(bytes_append(&w->ends, &end, sizeof end));
    return w->config.logprobs ? bytes_append(&w->kept, &k, sizeof k) : CERIUM_OK;
}

/* The first token of an answer spells the heal_prefix, which is not in the text. */
bool watch_append(watch *w, view text, uint64_t at)
{
    int32_t tokens[REPAIR_BYTES];
    char whole[REPAIR_BYTES];
    view heal = w->log.len ? (view){NULL, 0} : w->config.heal_prefix;
    if (heal.len + text.len > sizeof whole) return false;
    if (heal.len) memcpy(whole, heal.ptr, heal.len);
    if (text.len) memcpy(whole + heal.len, text.ptr, text.len);
    view both = {whole, heal.len + text.len};
    size_t n = encode(w, both, tokens, ARRAY_LEN(tokens)), len, done = 0;
    size_t log = w->log.len, ends = w->ends.len, kept = w->kept.len;
    for (size_t i = 0; i < n; i++) {
        (void)cerium_token_bytes(w->config.engine, tokens[i], &len);
        done += len;
        if (!append_token(w, tokens[i], at + (done > heal.len ? done - heal.len : 0))) continue;
        w->log.len = log;
        w->ends.len = ends;
        w->kept.len = kept;
        return false;
    }
    return n > 0;
}

void watch_drop(watch *w, uint64_t at)
{
    size_t i = watch_token_at(w, at);
    w->log.len = i * sizeof(int32_t);
    w->ends.len = i * sizeof(uint64_t);
    cut_kept(w, at);
}

bool watch_cut(watch *w, uint64_t at)
{
    int32_t again[CERIUM_STEP_TOKENS_MAX];
    size_t i = watch_token_at(w, at), n_again = 0, n_spelled = 0;
    uint64_t begin = i ? end_of(w, i - 1) : 0;
    CHECK(at >= w->released && at <= w->fed);
    if (at < w->fed && (w->lost || at < w->base_at)) return false;
    if (begin < at) {
        if (i == n_tokens(w)) return false;
        n_spelled = spelled(w, i);
        n_again = encode(w, bytes_before(w, i, at, n_spelled), again, ARRAY_LEN(again));
        if (n_again == 0) return false;
    }
    if (at < w->fed) watch_rewind(w, at);
    watch_drop(w, at);
    for (size_t k = 0; k < n_again; k++) {
        size_t len;
        (void)cerium_token_bytes(w->config.engine, again[k], &len);
        size_t hidden = len < n_spelled ? len : n_spelled;
        n_spelled -= hidden;
        begin += len - hidden;
        if (append_token(w, again[k], begin)) return false;
    }
    return true;
}

/* ---- before a weak line ---- */

/* From byte `at`, the first that is not blank. */
static uint64_t skip_blanks(const watch *w, uint64_t at)
{
    while (at < w->fed && byte_is_blank(w->text.ptr[at - w->text_at])) at++;
    return at;
}

/* Also avoid the tokens from byte `from` to the one that holds byte `to`.  False: there is no room
 * for them. */
static bool avoid(watch *w, uint64_t from, uint64_t to)
{
    size_t first = watch_token_at(w, from), last = watch_token_at(w, to);
    uint32_t at = w->n_avoid + (w->n_avoid > 0), n = 0, room = CERIUM_AVOID_MAX - at;
    if (to >= w->fed || last >= n_tokens(w) || at >= CERIUM_AVOID_MAX) return false;
    uint64_t begin = first ? end_of(w, first - 1) : 0, end = end_of(w, last);
    if (end > w->fed) end = w->fed;
    if (begin == from && last - first < room) {
        n = (uint32_t)(last + 1 - first);
        memcpy(w->avoid + at, w->log.ptr + first * sizeof *w->avoid, n * sizeof *w->avoid);
    } else if (begin != from) {
        view text = {w->text.ptr + (from - w->text_at), (size_t)(end - from)};
        n = (uint32_t)encode(w, text, w->avoid + at, room);
    }
    if (!n) return false;
    if (at) w->avoid[at - 1] = -1;
    w->n_avoid = at + n;
    return true;
}

/* First the weak expression may not begin as it did; then the line may not. */
static void forbid_opening(watch *w, const guard_finding *f)
{
    uint64_t line = skip_blanks(w, f->line_begin);
    uint64_t weak = f->begin > line ? skip_blanks(w, f->begin) : line;
    if (f->line_begin != w->verified_until) w->n_avoid = 0;
    if (w->n_tries == 0 && avoid(w, f->line_begin, weak)) return;
    (void)avoid(w, f->line_begin, line);
}

static void write_note(watch *w, const guard_finding *f)
{
    char note[1024];
    size_t from = (size_t)(f->line_begin - w->text_at);
    view line = {w->text.ptr + from, w->text.len - from};
    size_t n = watch_hint(f, line, note, sizeof note);
    w->n_note = (uint32_t)encode(w, (view){note, n}, w->note, NOTE_TOKENS);
}

bool watch_rollback(watch *w, const guard_finding *f)
{
    if (w->lost || f->line_begin < w->base_at || f->line_begin < w->released) return false;
    forbid_opening(w, f);
    write_note(w, f);
    return watch_cut(w, f->line_begin);
}

bool watch_rollback_reply(watch *w, uint64_t fault)
{
    if (w->lost || w->verified_until < w->base_at || w->verified_until < w->released) return false;
    uint64_t line = skip_blanks(w, w->verified_until);
    bool insists = w->n_replies >= REPLIES_MAX / 2;
    if (insists && w->n_replies == REPLIES_MAX / 2) w->n_avoid = 0;
    if (insists || fault <= line || !avoid(w, w->verified_until, fault))
        (void)avoid(w, w->verified_until, line);
    return watch_cut(w, w->verified_until);
}
