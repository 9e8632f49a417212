/* solve_model.c - prompts for places, and requests that follow each other. */
#include "programs/solve_model.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- prompts ---- */

view maker_before(view text, size_t at, size_t max)
{
    size_t begin = at > max ? at - max : 0;
    while (begin > 0 && begin < at && text.ptr[begin - 1] != '\n') begin++;
    return (view){text.ptr + begin, at - begin};
}

static int infill_tokens(solve_model *m, const cerium_infill *in, maker_prompt *p,
                         cerium_error *err)
{
    size_t n = 0;
    int status = cerium_infill_tokens(m->engine, in, NULL, 0, &n, err);
    if (status == CERIUM_ERR_FORMAT) return CERIUM_OK; /* filled without the model */
    if (status && status != CERIUM_ERR_CAPACITY) return status;
    p->tokens = memory_alloc(n * sizeof *p->tokens);
    if (!p->tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a prompt");
    return cerium_infill_tokens(m->engine, in, p->tokens, n, &p->n, err);
}

/* The text before a place, with the comment above its line. */
static int add_hint(solve_model *m, uint32_t place, view prefix, cerium_error *err)
{
    bytes *out = &m->hinted[place];
    size_t line = prefix.len, end;
    while (line > 0 && prefix.ptr[line - 1] != '\n') line--;
    const char *from = prefix.ptr + line, *stop = m->set->text.ptr + m->set->text.len;
    for (end = 0; from + end < stop && (from[end] == ' ' || from[end] == '\t');) end++;
    out->len = 0;
    out->max = MODEL_TEXT_BYTES_MAX;
    if (bytes_append(out, prefix.ptr, line) || bytes_append(out, from, end) ||
        bytes_append(out, m->hint.ptr, m->hint.len) || bytes_append(out, from, prefix.len - line))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a prompt");
    return CERIUM_OK;
}

static int fill_prompt(solve_model *m, maker_prompt *p, view prefix, view suffix,
                       cerium_error *err)
{
    p->n_heal = cerium_infill_heal_prefix(m->engine, prefix.ptr, prefix.len);
    p->heal = prefix.ptr + prefix.len - p->n_heal;
    const cerium_infill in = {.prefix = prefix.ptr, .prefix_len = prefix.len - p->n_heal,
                              .suffix = suffix.ptr, .suffix_len = suffix.len};
    return infill_tokens(m, &in, p, err);
}

static int make_prompts(solve_model *m, uint32_t place, uint32_t context, cerium_error *err)
{
    const view text = m->set->text;
    const solve_span at = m->places[place];
    maker_prompt *p = m->prompts[place];
    for (size_t most = MODEL_PREFIX_BYTES; most > 64; most /= 2) {
        view prefix = maker_before(text, at.begin, most);
        size_t most_suffix = most * MODEL_SUFFIX_BYTES / MODEL_PREFIX_BYTES;
        size_t n_suffix = text.len - at.end;
        if (n_suffix > most_suffix) n_suffix = most_suffix;
        for (int i = 0; i < MODEL_FORMS; i++) memory_free(p[i].tokens);
        p[0] = p[1] = p[2] = (maker_prompt){0};
        p[1].n_heal = cerium_heal_prefix(m->engine, prefix.ptr, prefix.len);
        p[1].heal = prefix.ptr + prefix.len - p[1].n_heal;
        const view suffix = {text.ptr + at.end, n_suffix};
        RETURN_IF(fill_prompt(m, &p[0], prefix, suffix, err));
        if (m->hint.len && p[0].tokens) {
            RETURN_IF(add_hint(m, place, prefix, err));
            const bytes *b = &m->hinted[place];
            RETURN_IF(fill_prompt(m, &p[2], (view){b->ptr, b->len}, suffix, err));
        }
        RETURN_IF(encode(m->engine, (view){prefix.ptr, prefix.len - p[1].n_heal},
                         CERIUM_TOKENIZE_BEGIN, &p[1].tokens, &p[1].n, err));
        size_t longest = p[0].n > p[1].n ? p[0].n : p[1].n;
        if (p[2].n > longest) longest = p[2].n;
        if (longest + m->n_tokens_max < context) {
            if (p[1].n) return CERIUM_OK;
            /* No text is before it: a model without a form with both sides gets an empty line. */
            memory_free(p[1].tokens);
            p[1] = (maker_prompt){0};
            return p[0].tokens ? CERIUM_OK
                               : encode(m->engine, VIEW("\n"), 0, &p[1].tokens, &p[1].n, err);
        }
    }
    return error_set(err, CERIUM_ERR_CAPACITY, "the context is too small for %u tokens a variant",
                     m->n_tokens_max);
}

/* ---- requests ---- */

static void ring(void *user)
{
    const solve_model *m = user;
    const uint64_t one = 1;
    (void)!write(m->bell, &one, sizeof one);
}

float maker_heat(uint32_t k)
{
    static const float heat[] = {0.4f, 0.6f, 0.8f, 1.0f};
    return k ? heat[(k - 1) % ARRAY_LEN(heat)] : 0;
}

/* The variant's number among the model's alone decides place, form and sampling. */
static void choose(const solve_model *m, uint32_t k, uint32_t *place, uint32_t *form,
                   cerium_sampling *sampling)
{
    *place = k % m->n_places;
    k /= m->n_places;
    const maker_prompt *p = m->prompts[*place];
    uint32_t n_forms = (p[0].tokens != NULL) + (p[1].tokens != NULL);
    static const uint8_t turns[] = {0, 1, 2, 1};
    *form = n_forms == 2 ? (k < 2 ? k : (k - 2) / 4 % 2) : p[0].tokens == NULL;
    if (p[2].tokens && k >= 2) *form = turns[(k - 2) / 4 % ARRAY_LEN(turns)];
    if (*form == 1 && !p[1].tokens) *form = 0;
    *sampling = m->o->sampling;
    sampling->pointer = m->pointer;
    sampling->seed += k;
    if (m->temperature >= 0) sampling->temperature = m->temperature;
    else sampling->temperature = maker_heat(k < n_forms ? 0 : k - n_forms + 1);
    if (sampling->temperature > 0 && !(sampling->top_p > 0)) sampling->top_p = MODEL_TOP_P;
}

bool maker_is_one_line(view text, solve_span place, uint32_t n_tokens_max)
{
    return !memchr(text.ptr + place.begin, '\n', place.end - place.begin) && n_tokens_max <= 128;
}

static bool is_one_line(const solve_model *m, uint32_t place)
{
    return maker_is_one_line(m->set->text, m->places[place], m->n_tokens_max);
}

static int start(solve_model *m, maker_stream *s, cerium_error *err)
{
    static const char *const line_end[] = {"\n"};
    uint32_t form, index = m->first + m->n_started;
    cerium_sampling sampling;
    choose(m, m->n_started, &s->place, &form, &sampling);
    const maker_prompt *p = &m->prompts[s->place][form];
    const solve_span at = m->places[s->place];
    const view text = m->set->text;
    if (is_one_line(m, s->place)) {
        sampling.stops = line_end;
        sampling.n_stops = 1;
    }
    const cerium_resume begin = {.heal_prefix = p->heal, .n_heal = p->n_heal};
    const cerium_request request = {.tokens = p->tokens, .n_tokens = p->n,
                                    .new_tokens_max = m->n_tokens_max, .sampling = &sampling,
                                    .resume = &begin, .class_ = CERIUM_CLASS_EDIT, .notify = ring,
                                    .user = m};
    infill_stop_close(&s->stop);
    s->stop = (infill_stop){0};
    s->text.len = 0;
    s->text.max = MODEL_TEXT_BYTES_MAX;
    s->is_over = false;
    if (!is_one_line(m, s->place) &&
        infill_stop_open(&s->stop, (view){text.ptr, at.begin},
                         (view){text.ptr + at.end, text.len - at.end}, 0, true))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
    if (form == 2) m->set->all[index].maker = MAKER_REPAIR;
    m->set->all[index].seed = sampling.seed;
    m->set->all[index].temperature = sampling.temperature;
    RETURN_IF(cerium_session_start(s->session, &request, err));
    s->index = index;
    m->n_started++;
    m->n_running++;
    return CERIUM_OK;
}

view maker_trim(view all, size_t at, view text)
{
    size_t end = at;
    while (end < all.len && all.ptr[end] != '\n') end++;
    const size_t rest = view_trim_end((view){all.ptr + at, end - at}, " \t\r").len;
    text = view_trim_end(text, " \t\r\n");
    if (rest && text.len > rest && !memcmp(text.ptr + text.len - rest, all.ptr + at, rest))
        text.len -= rest;
    return text;
}

static int finish(solve_model *m, maker_stream *s, const cerium_event *event, cerium_error *err)
{
    bool cut = !s->is_over && (event->stop == CERIUM_STOP_NONE || event->stop == CERIUM_STOP_LIMIT);
    uint32_t index = s->index;
    s->index = SOLVE_NONE;
    m->n_running--;
    if (event->status && event->status != CERIUM_ERR_CANCELED)
        return error_set(err, event->status, "%s", cerium_status_text(event->status));
    if (!s->is_over && !is_one_line(m, s->place) && !cut && infill_stop_finish(&s->stop, &s->text))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
    view text = maker_trim(m->set->text, m->places[s->place].end,
                           (view){s->text.ptr, s->text.len});
    if (cut || text.len == 0) {
        solve_set_drop(m->set, index);
        return CERIUM_OK;
    }
    return solve_set_make(m->set, index, m->places[s->place], text, err);
}

static int take(solve_model *m, maker_stream *s, cerium_error *err)
{
    cerium_event event;
    while (s->index != SOLVE_NONE) {
        cerium_session_poll(s->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return CERIUM_OK;
        if (event.kind == CERIUM_EVENT_DONE) return finish(m, s, &event, err);
        m->set->n_tokens++;
        if (s->is_over) continue;
        const view more = {event.step.text, event.step.text_len};
        int status = is_one_line(m, s->place) ? bytes_append(&s->text, more.ptr, more.len)
                                              : infill_stop_feed(&s->stop, more, &s->text);
        if (status == CERIUM_ERR_MEMORY)
            return error_set(err, status, "no memory for a variant");
        s->is_over = s->stop.end != INFILL_STOP_NONE;
        if (s->is_over || status) cerium_session_cancel(s->session);
    }
    return CERIUM_OK;
}

int maker_pump(solve_model *m, cerium_error *err)
{
    uint64_t rings;
    (void)!read(m->bell, &rings, sizeof rings);
    for (uint32_t i = 0; i < m->n_streams; i++) {
        maker_stream *s = &m->streams[i];
        RETURN_IF(take(m, s, err));
        if (s->index == SOLVE_NONE && m->n_started < m->n) RETURN_IF(start(m, s, err));
    }
    return CERIUM_OK;
}

void maker_begin_line(view text, solve_span *place)
{
    size_t at = place->begin;
    while (at > 0 && (text.ptr[at - 1] == ' ' || text.ptr[at - 1] == '\t')) at--;
    if (at == 0 || text.ptr[at - 1] == '\n') place->begin = at;
}

void maker_plan(solve_model *m, uint32_t n)
{
    m->first = m->set->n;
    m->n = m->n_started = 0;
    while (m->n < n && solve_set_plan(m->set, MAKER_MODEL) != SOLVE_NONE) m->n++;
}

int maker_open(solve_model *m, cerium_error *err)
{
    cerium_engine_info info;
    cerium_engine_describe(m->engine, &info);
    m->pointer = info.pointer;
    m->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->bell < 0) return error_set(err, CERIUM_ERR_IO, "eventfd: %s", strerror(errno));
    for (uint32_t i = 0; i < m->n_places; i++) maker_begin_line(m->set->text, &m->places[i]);
    for (uint32_t i = 0; i < m->n_places; i++)
        RETURN_IF(make_prompts(m, i, info.context_tokens_max, err));
    while (m->n_streams < MODEL_STREAMS) {
        maker_stream *s = &m->streams[m->n_streams];
        *s = (maker_stream){.index = SOLVE_NONE};
        RETURN_IF(cerium_session_open(&s->session, m->engine, NULL, err));
        m->n_streams++;
    }
    return CERIUM_OK;
}

void maker_close(solve_model *m)
{
    for (uint32_t i = 0; i < m->n_streams; i++) cerium_session_cancel(m->streams[i].session);
    for (uint32_t i = 0; i < m->n_streams; i++) {
        cerium_session_close(&m->streams[i].session);
        infill_stop_close(&m->streams[i].stop);
        bytes_free(&m->streams[i].text);
    }
    for (uint32_t i = 0; i < m->n_places; i++) {
        for (int k = 0; k < MODEL_FORMS; k++) memory_free(m->prompts[i][k].tokens);
        bytes_free(&m->hinted[i]);
    }
    if (m->bell > 0) close(m->bell);
    m->n_streams = m->n_places = 0;
    m->bell = 0;
}
