/* watch.c - feeds an answer to its guard, and acts on the findings. */
#include "watch/watch_parts.h"

int watch_open(watch **out, const watch_config *config, cerium_error *err)
{
    guard_stream_config how = {.form = config->form, .language = config->language,
                               .request = config->request,
                               .n_request = config->n_request,
                               .reports_known = true};
    watch *w = memory_zalloc(1, sizeof *w);
    int status = w ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (w) {
        w->config = *config;
        w->policy = *config->policy;
        if (config->names && watch_policy_uses_names(config->policy)) {
            w->names = memory_zalloc(1, sizeof *w->names);
            status = w->names ? CERIUM_OK : CERIUM_ERR_MEMORY;
        }
        if (w->names) {
            w->names->index = config->names;
            how.reader = watch_names_reader(w->names);
        }
        w->text.max = w->log.max = w->ends.max = SIZE_MAX / 2;
        w->kept.max = w->tops.max = w->out_tokens.max = w->after.max = SIZE_MAX / 2;
        if (!status) status = guard_stream_open(&w->stream, config->guard, &how, NULL);
        if (!status) status = guard_stream_open(&w->base, config->guard, &how, NULL);
    }
    if (status) {
        watch_close(&w);
        return error_set(err, status, "no memory to watch an answer");
    }
    if (config->form == GUARD_CODE && config->before.len)
        guard_context(w->stream, config->worker, config->before);
    guard_stream_copy(w->base, w->stream);
    w->config.before = (view){NULL, 0};
    *out = w;
    return CERIUM_OK;
}

void watch_close(watch **w)
{
    if (!w || !*w) return;
    if ((*w)->stream) guard_stream_close(&(*w)->stream);
    if ((*w)->base) guard_stream_close(&(*w)->base);
    bytes_free(&(*w)->text);
    bytes_free(&(*w)->log);
    bytes_free(&(*w)->ends);
    bytes_free(&(*w)->kept);
    bytes_free(&(*w)->tops);
    bytes_free(&(*w)->out_tokens);
    bytes_free(&(*w)->after);
    cerium_grammar_close(&(*w)->place);
    memory_free((*w)->names);
    memory_free(*w);
    *w = NULL;
}

/* ---- findings ---- */

static cerium_finding describe(const watch *w, const guard_finding *f)
{
    return (cerium_finding){.rule = f->rule,
                           .weakness = f->weakness,
                           .message = f->message,
                           .idiom = f->idiom,
                           .language = guard_language_name(f->language),
                           .cwe = f->cwe,
                           .kind = f->kind,
                           .line = f->line,
                           .n_tries = w->n_tries,
                           .at = f->line_begin};
}

/* A line that was there before is reported once, however often it is repeated. */
static bool is_first_known(watch *w, const guard_finding *f)
{
    uint64_t hash = (uint64_t)(uintptr_t)f->rule;
    for (size_t i = 0; i < f->held.len; i++)
        if (!strchr(" \t\r\n", f->held.ptr[i]))
            hash = (hash ^ (uint8_t)f->held.ptr[i]) * 0x100000001b3u;
    for (uint32_t i = 0; i < KNOWN_TOLD; i++)
        if (w->known[i] == hash) return false;
    w->known[w->n_known++ % KNOWN_TOLD] = hash;
    return w->policy.action[f->kind] != WATCH_OFF;
}

/* Does the request contain it, too?  Then the model did not invent it. */
static bool is_asked_for(const watch *w, const guard_finding *f)
{
    view what = {f->held.ptr + f->from, f->to > f->from ? f->to - f->from : 0};
    if (!f->held.len) return watch_request_has(w, f); /* a part of it is not in the answer */
    for (size_t i = 0; i < w->config.n_request && what.len; i++)
        if (memmem(w->config.request[i].ptr, w->config.request[i].len, what.ptr, what.len))
            return true;
    return false;
}

/* A missing name holds its line while it can be taken back; of a line that began before the answer,
 * only the name.  Otherwise, and if the request has the name, it is only reported. */
static bool holds_name(const watch *w, const guard_finding *f)
{
    bool there = !w->lost && f->line_begin >= w->base_at && f->line_begin >= w->released;
    bool whole = f->held.len && !f->continues;
    return there && (whole || watch_has_place(w, f)) &&
           w->policy.action[f->kind] != WATCH_OFF && !is_asked_for(w, f);
}

static bool must_hold(const watch *w, const guard_finding *f)
{
    return f->name ? holds_name(w, f) : watch_policy_action(&w->policy, f) == WATCH_BLOCK;
}

/* The first finding of a call that must not be released; warnings before it are reported.  NULL:
 * none. */
static const guard_finding *first_blocked(watch *w, const guard_result *r)
{
    const guard_finding *first = NULL;
    for (uint32_t i = 0; i < r->n_findings; i++) {
        const guard_finding *f = &r->findings[i];
        if (must_hold(w, f) && (!first || f->line_begin < first->line_begin))
            first = f;
    }
    for (uint32_t i = 0; i < r->n_findings; i++) {
        const guard_finding *f = &r->findings[i];
        bool warns = watch_policy_action(&w->policy, f) == WATCH_WARN;
        if (first && f->line_begin >= first->line_begin) continue;
        cerium_finding found = describe(w, f);
        if (warns && f->name) watch_names_reported(w->names, f->name);
        if (warns) watch_add(w, &found, CERIUM_FINDING_WARNED);
        else if (f->known && is_first_known(w, f)) watch_add(w, &found, CERIUM_FINDING_KNOWN);
    }
    return first;
}

/* End the answer before the line.  Text that cannot be cut is not released. */
static cerium_watch_order end_before(watch *w, uint64_t at, const cerium_finding *found)
{
    if (!watch_cut(w, at)) {
        w->safe = w->released;
        watch_drop(w, w->released);
    }
    w->over = true;
    watch_add(w, found, CERIUM_FINDING_BLOCKED);
    return CERIUM_WATCH_END;
}

/* The text of the answer after the line: only a recorded answer continues with it. */
static bool keep_after(watch *w, const guard_finding *f)
{
    uint64_t from = f->line_end;
    w->after.len = 0;
    if (from <= f->line_begin || from > w->fed || from < w->text_at) return true;
    view text = {w->text.ptr + (from - w->text_at), (size_t)(w->fed - from)};
    return !bytes_append(&w->after, text.ptr, text.len);
}

static bool has_tries(const watch *w)
{
    if (w->config.recorded && w->n_asked >= w->config.n_recorded) return false;
    return w->n_tries < WATCH_TRIES && w->n_corrections < WATCH_CORRECTIONS_MAX;
}

static void note_discarded(watch *w, cerium_finding *found, uint32_t before)
{
    found->n_tokens = before > watch_n_logged(w) ? before - watch_n_logged(w) : 0;
    w->stats.n_discarded += found->n_tokens;
}

/* No more tries: insert a replacement of the weak line, or end the answer before it. */
static cerium_watch_order settle(watch *w, const guard_finding *f, cerium_finding *found)
{
    uint32_t before = watch_n_logged(w);
    uint64_t at = f->line_begin > w->released ? f->line_begin : w->released;
    bool whole = at == f->line_begin && !w->lost && at >= w->base_at;
    if (!whole || !keep_after(w, f) || !watch_cut(w, at)) return end_before(w, at, found);
    note_discarded(w, found, before);
    if (!w->n_tries) watch_add(w, found, CERIUM_FINDING_RETRACTED);
    w->wrong = *found;
    return watch_splice(w) ? CERIUM_WATCH_RETRY : end_before(w, at, found);
}

/* The line is to be written again from its beginning, after a note. */
static bool takes_line(watch *w, const guard_finding *f)
{
    if (!has_tries(w) || !watch_rollback(w, f)) return false;
    w->n_tries++;
    w->has_note = true;
    w->verified_until = w->fed;
    return true;
}

/* The second try at a missing name, and more if the line has others: only from its place on, with
 * the names that exist there. */
static bool takes_place(watch *w, const guard_finding *f)
{
    bool first = !w->n_tries, whole = f->held.len && !f->continues;
    if (first) w->n_places = 0;
    if (!f->name || (first && whole) || w->config.recorded || w->n_places == PLACES_MAX ||
        w->n_corrections == WATCH_CORRECTIONS_MAX || !watch_rollback_place(w, f))
        return false;
    if (first) w->verified_until = f->line_begin;
    w->n_tries = WATCH_TRIES;
    w->n_places++;
    w->has_note = false;
    return true;
}

/* Take the line back. */
static cerium_watch_order halt(watch *w, const guard_finding *f)
{
    cerium_finding found = describe(w, f);
    uint32_t before = watch_n_logged(w);
    bool escaped = f->escaped, added = f->added;
    uint32_t indent = 0;
    while (indent < f->held.len && strchr(" \t", f->held.ptr[indent])) indent++;
    watch_note_repairs(w, f, w->n_tries == 0 || f->line_begin != w->verified_until);
    w->wrong_name = f->name;
    w->touched = true;
    w->touched_at = f->line_begin;
    const bool first = !w->n_tries;
    if (!takes_place(w, f) && !takes_line(w, f)) return settle(w, f, &found);
    w->n_asked++;
    w->n_replies = 0;
    w->n_corrections++;
    w->corrects = w->checks_form = true;
    w->escaped = escaped;
    w->added = added;
    if (first) w->indent = indent;
    found.n_tries = w->n_tries;
    note_discarded(w, &found, before);
    w->wrong = found;
    watch_add(w, &found, CERIUM_FINDING_RETRACTED);
    return CERIUM_WATCH_RETRY;
}

/* A line that was not fully judged is held like a weak one; if the policy allows it, it is
 * released. */
static cerium_watch_order weigh_unjudged(watch *w, const guard_result *r, uint64_t line_begin)
{
    guard_finding f = {.rule = "late",
                       .weakness = "late",
                       .message = "The line was too much for the watchdog",
                       .idiom = "a shorter and simpler line",
                       .severity = w->policy.opens_late ? GUARD_WARN : GUARD_BLOCK,
                       .language = r->language,
                       .begin = line_begin,
                       .end = w->fed,
                       .line_begin = line_begin,
                       .line = r->unjudged_line,
                       .continues = true,
                       .kind = WATCH_KINDS_MAX - 1};
    if (r->blind) {
        f.rule = "blind";
        f.message = "The line was not judged: this build has no grammar for its language";
        f.idiom = "build cerium again where `make grammars` can fetch it";
    }
    watch_action action = watch_policy_action(&w->policy, &f);
    if (action == WATCH_BLOCK) return halt(w, &f);
    cerium_finding found = describe(w, &f);
    if (action == WATCH_WARN) watch_add(w, &found, CERIUM_FINDING_WARNED);
    return CERIUM_WATCH_GO;
}

/* ---- bytes ---- */

/* Nothing is held here: the text can be taken back to this place from now on. */
static void remember(watch *w)
{
    guard_stream_copy(w->base, w->stream);
    w->base_at = w->fed;
    w->lost = false;
}

static cerium_watch_order judge(watch *w, const guard_result *r, uint64_t before)
{
    const guard_finding *f = first_blocked(w, r);
    w->stats.n_lines += r->safe > before;
    if (f) return halt(w, f);
    if (r->late || r->blind) {
        cerium_watch_order order = weigh_unjudged(w, r, before);
        if (order != CERIUM_WATCH_GO) return order;
    }
    w->safe = r->safe;
    uint32_t held = (uint32_t)(w->fed - w->safe);
    if (held > w->stats.held_max) w->stats.held_max = held;
    return CERIUM_WATCH_GO;
}

/* Text in which at most the last byte ends a line. */
static int feed_piece(watch *w, view text, cerium_watch_order *order)
{
    guard_result r;
    uint64_t start = clock_ns(), before = w->safe;
    RETURN_IF(bytes_append(&w->text, text.ptr, text.len));
    guard_feed(w->stream, w->config.worker, text.ptr, text.len, &r);
    w->fed += text.len;
    w->stats.ns += clock_ns() - start;
    w->stats.n_bytes += text.len;
    *order = judge(w, &r, before);
    return CERIUM_OK;
}

/* Unverified text may be written again: no new base after its beginning. */
static int feed(watch *w, view text, cerium_watch_order *order)
{
    while (text.len && *order == CERIUM_WATCH_GO) {
        const char *stop = memchr(text.ptr, '\n', text.len);
        view piece = {text.ptr, stop ? (size_t)(stop - text.ptr) + 1 : text.len};
        const uint64_t segment = guard_segment(w->stream);
        RETURN_IF(feed_piece(w, piece, order));
        if (*order == CERIUM_WATCH_GO) *order = watch_close_segment(w, segment);
        if (stop) w->line_at = w->fed;
        if (*order == CERIUM_WATCH_GO && w->checks_form) *order = watch_weigh(w);
        text = (view){text.ptr + piece.len, text.len - piece.len};
        if (w->repaired) return bytes_append(&w->after, text.ptr, text.len);
        bool vouched = !w->checks_form || (!w->corrects && w->verified_until == w->fed);
        bool none_held = *order == CERIUM_WATCH_GO && w->safe == w->fed && vouched;
        if (none_held && w->fed - w->base_at >= BASE_BYTES) remember(w);
    }
    return CERIUM_OK;
}

static int note_token(watch *w, const cerium_step *step, uint32_t i, uint64_t end,
                      const cerium_logprob *top, uint32_t n_top)
{
    RETURN_IF(bytes_append(&w->log, &step->tokens[i], sizeof *step->tokens));
    RETURN_IF(bytes_append(&w->ends, &end, sizeof end));
    if (!w->config.logprobs) return CERIUM_OK;
    kept_token k = {.token = step->tokens[i], .logprob = step->logprobs[i], .n_top = n_top,
                    .top_at = (uint32_t)(w->tops.len / sizeof *top), .end = end};
    if (n_top) RETURN_IF(bytes_append(&w->tops, top, n_top * sizeof *top));
    return bytes_append(&w->kept, &k, sizeof k);
}

/* ---- results ---- */

static void drop_front(bytes *b, size_t n)
{
    if (n == 0) return;
    memmove(b->ptr, b->ptr + n, b->len - n);
    b->len -= n;
}

/* Drop released tokens, and their likeliest others. */
static void drop_released_tokens(watch *w)
{
    drop_front(&w->kept, w->n_kept_released * sizeof(kept_token));
    w->n_kept_released = 0;
    kept_token *kept = (kept_token *)w->kept.ptr;
    size_t n = w->kept.len / sizeof *kept;
    uint32_t unused = n ? kept[0].top_at : (uint32_t)(w->tops.len / sizeof(cerium_logprob));
    if (n && unused * sizeof(cerium_logprob) < TOPS_BYTES) return;
    drop_front(&w->tops, unused * sizeof(cerium_logprob));
    for (size_t i = 0; i < n; i++) kept[i].top_at -= unused;
}

/* Drop the last result, and text that can no longer be requested. */
static void begin_call(watch *w)
{
    w->n_findings = 0;
    w->repaired = false;
    cerium_grammar_close(&w->place);
    w->out_tokens.len = 0;
    drop_released_tokens(w);
    if (w->fed - w->base_at > BACK_BYTES && !w->corrects) w->lost = true;
    uint64_t from = w->lost || w->released < w->base_at ? w->released : w->base_at;
    if (from - w->text_at < BASE_BYTES) return; /* seldom, not with each token */
    drop_front(&w->text, (size_t)(from - w->text_at));
    w->text_at = from;
}

static int tell_tokens(watch *w, watch_result *out)
{
    const kept_token *kept = (const kept_token *)w->kept.ptr;
    size_t n = w->kept.len / sizeof *kept;
    for (size_t i = 0; i < n && kept[i].end <= w->released; i++) {
        const cerium_logprob *tops = (const cerium_logprob *)w->tops.ptr;
        cerium_watch_token t = {.token = kept[i].token, .logprob = kept[i].logprob,
                         .n_top = kept[i].n_top,
                         .top = kept[i].n_top ? tops + kept[i].top_at : NULL};
        RETURN_IF(bytes_append(&w->out_tokens, &t, sizeof t));
        w->n_kept_released++;
    }
    out->tokens = (const cerium_watch_token *)w->out_tokens.ptr;
    out->n_tokens = w->n_kept_released;
    return CERIUM_OK;
}

/* The end of the released text: with logprobs no token's text without the token, and never a part
 * of a character. */
static uint64_t end_of_released(const watch *w)
{
    uint64_t to = w->checks_form && w->verified_until < w->safe ? w->verified_until : w->safe;
    size_t n = w->config.logprobs ? watch_token_at(w, to) : 0;
    if (!w->config.logprobs) return to;
    for (; n > 0; n--) {
        memcpy(&to, w->ends.ptr + (n - 1) * sizeof to, sizeof to);
        bool within = to > w->released && to < w->fed &&
                      (w->text.ptr[to - w->text_at] & 0xC0) == 0x80;
        if (!within) break;
    }
    return n && to > w->released ? to : w->released;
}

static int end_call(watch *w, cerium_watch_order order, watch_result *out)
{
    *out = (watch_result){.text = {"", 0}, .order = order};
    uint64_t to = end_of_released(w);
    if (to > w->released && w->text.len) {
        out->text = (view){w->text.ptr + (w->released - w->text_at), (size_t)(to - w->released)};
        w->released = to;
    }
    out->findings = w->findings;
    out->n_findings = w->n_findings;
    size_t n = watch_token_at(w, w->released);
    out->n_tokens = n > w->n_released ? (uint32_t)(n - w->n_released) : 0;
    w->n_released = n;
    return w->config.logprobs ? tell_tokens(w, out) : CERIUM_OK;
}

int watch_step(watch *w, const cerium_step *step, const cerium_logprob *top, uint32_t n_top,
               watch_result *out)
{
    uint64_t first = w->fed;
    uint32_t from = 0;
    cerium_watch_order order = CERIUM_WATCH_GO;
    begin_call(w);
    w->stop = step->stop;
    for (uint32_t i = 0; i < step->n_tokens && order == CERIUM_WATCH_GO; i++) {
        uint32_t to = step->text_ends[i];
        RETURN_IF(note_token(w, step, i, first + to + step->text_held[i], top, n_top));
        RETURN_IF(feed(w, (view){step->text + from, to - from}, &order));
        from = to;
        bool ends = step->stop != CERIUM_STOP_NONE && i + 1 == step->n_tokens;
        if (order == CERIUM_WATCH_GO && !ends && watch_drop_note(w)) order = CERIUM_WATCH_RETRY;
    }
    return end_call(w, order, out);
}

int watch_finish(watch *w, watch_result *out)
{
    guard_result r;
    uint64_t before = w->safe;
    bool by_itself = w->stop == CERIUM_STOP_END || w->stop == CERIUM_STOP_TEXT;
    begin_call(w);
    watch_close_code(w, by_itself);
    guard_finish(w->stream, w->config.worker, &r);
    cerium_watch_order order = judge(w, &r, before);
    if (order == CERIUM_WATCH_GO && w->checks_form) order = watch_weigh_end(w, by_itself);
    if (order == CERIUM_WATCH_GO) w->over = true;
    return end_call(w, order, out);
}

void watch_stop(watch *w)
{
    begin_call(w);
    if (!w->over && !watch_cut(w, w->released)) watch_drop(w, w->released);
    w->over = true;
}

void watch_retry(const watch *w, watch_plan *plan)
{
    *plan = (watch_plan){.corrects = w->corrects, .repaired = w->repaired, .added = w->added};
    if (w->repaired) plan->after = (view){w->after.ptr, w->after.len};
    plan->resume = (cerium_resume){.n_answer = w->log.len / sizeof(int32_t),
                                   .note = w->n_note ? w->note : NULL,
                                   .n_note = w->n_note,
                                   .avoid = w->n_avoid ? w->avoid : NULL,
                                   .n_avoid = w->n_avoid,
                                   .heal_prefix = w->config.heal_prefix.ptr,
                                   .n_heal = w->config.heal_prefix.len,
                                   .within = w->place};
}

const int32_t *watch_tokens(const watch *w, size_t *n)
{
    *n = w->log.len / sizeof(int32_t);
    return (const int32_t *)w->log.ptr;
}

uint64_t watch_held(const watch *w) { return w->fed - w->released; }

watch_stats watch_measure(const watch *w) { return w->stats; }
