/* solve_asked.c - asks for variants, and reads the answers. */
#include "programs/solve_asked.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/json.h"
#include "programs/output.h"
#include "programs/solve_model.h"
#include "protocol/infill_stop.h"

enum { WAVE = 16, LINE_BYTES_MAX = 16 << 20, READ_BYTES = 65536 };

void asked_plan(solve_asked *a, uint32_t n)
{
    a->in.max = LINE_BYTES_MAX;
    for (uint32_t i = 0; i < a->n_places; i++) maker_begin_line(a->set->text, &a->places[i]);
    a->first = a->set->n;
    while (a->n < n && solve_set_plan(a->set, MAKER_MODEL) != SOLVE_NONE) a->n++;
}

void asked_close(solve_asked *a)
{
    bytes_free(&a->in);
    a->n = 0;
}

json_t *asked_state(const solve_asked *a)
{
    return a->why[0] ? json_text(view_of(a->why)) : json_null();
}

/* Plan no more of them, and drop those asked for: they are the last planned ones. */
static void give_up(solve_asked *a, const char *why)
{
    snprintf(a->why, sizeof a->why, "%.*s", (int)sizeof a->why - 1, why);
    a->set->n = a->first + a->n_done;
    a->n = a->n_done;
    a->n_asked = 0;
}

/* ---- asking ---- */

static int ask(solve_asked *a, cerium_error *err)
{
    const view text = a->set->text;
    const uint32_t turn = a->n_waves / a->n_places, left = a->n - a->n_done;
    const float heat = a->temperature < 0 ? maker_heat(turn) : a->temperature;
    a->place = a->n_waves % a->n_places;
    a->n_asked = turn == 0 ? 1 : left < WAVE ? left : WAVE;
    const solve_span at = a->places[a->place];
    const view before = maker_before(text, at.begin, MODEL_PREFIX_BYTES);
    view after = {text.ptr + at.end, text.len - at.end};
    if (after.len > MODEL_SUFFIX_BYTES) after.len = MODEL_SUFFIX_BYTES;
    /* Alternately from both sides of the place, and from the text before it alone. */
    a->has_suffix = !a->no_suffix && after.len && (turn < 1 || (turn - 1) / 4 % 2 == 0);
    for (uint32_t i = 0; i < a->n_asked; i++) {
        solve_variant *v = &a->set->all[a->first + a->n_done + i];
        v->seed = a->seed + a->n_done + i;
        v->temperature = heat;
    }
    json_t *event = json_pack(
        "{s:s, s:o, s:I, s:I, s:f, s:f, s:I, s:f}", "event", "ask", "prompt", json_text(before),
        "n", (json_int_t)a->n_asked, "max_tokens", (json_int_t)a->n_tokens_max, "temperature",
        (double)heat, "top_p", heat > 0 ? (double)MODEL_TOP_P : 1.0, "seed",
        (json_int_t)((a->seed + a->n_done) & INT64_MAX), "min_confidence", 0.0);
    int bad = event ? 0 : -1;
    if (a->has_suffix) bad |= json_object_set_new(event, "suffix", json_text(after));
    if (maker_is_one_line(text, at, a->n_tokens_max))
        bad |= json_object_set_new(event, "stop", json_string("\n"));
    a->n_waves++;
    if (bad) {
        json_decref(event);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a request");
    }
    RETURN_IF(output_json(event, JSON_COMPACT, err));
    return output_flush(err);
}

/* ---- answers ---- */

/* The part of a text up to the end of the place; *cut: it has no end. */
static int end_text(const solve_asked *a, view piece, bytes *out, bool *cut)
{
    const view text = a->set->text;
    const solve_span at = a->places[a->place];
    infill_stop stop = {0};
    if (maker_is_one_line(text, at, a->n_tokens_max))
        return bytes_append(out, piece.ptr, piece.len);
    int status = infill_stop_open(&stop, (view){text.ptr, at.begin},
                                  (view){text.ptr + at.end, text.len - at.end}, 0, true);
    if (!status) status = infill_stop_feed(&stop, piece, out);
    if (stop.end != INFILL_STOP_NONE) *cut = false;
    else if (!status && !*cut) status = infill_stop_finish(&stop, out);
    infill_stop_close(&stop);
    if (status && status != CERIUM_ERR_MEMORY) *cut = true;
    return status == CERIUM_ERR_MEMORY ? status : CERIUM_OK;
}

static int take_choice(solve_asked *a, uint32_t i, const json_t *choice, cerium_error *err)
{
    const uint32_t index = a->first + a->n_done + i;
    const json_t *text = json_object_get(choice, "text");
    const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
    const view piece = {json_is_string(text) ? json_string_value(text) : "",
                        json_string_length(text)};
    bool cut = !reason || strcmp(reason, "stop") != 0;
    bytes out = {.max = MODEL_TEXT_BYTES_MAX};
    int status = end_text(a, piece, &out, &cut);
    if (status == CERIUM_ERR_MEMORY) {
        bytes_free(&out);
        return error_set(err, status, "no memory for a variant");
    }
    const view made = maker_trim(a->set->text, a->places[a->place].end,
                                 (view){out.ptr, out.len});
    if (cut || !made.len) solve_set_drop(a->set, index);
    else status = solve_set_make(a->set, index, a->places[a->place], made, err);
    bytes_free(&out);
    return status;
}

static int take_answer(solve_asked *a, view line, cerium_error *err)
{
    json_t *all = json_read(line, JSON_ALLOW_NUL, NULL);
    const json_t *choices = json_object_get(all, "choices"), *choice;
    const char *why = json_string_value(
        json_object_get(json_object_get(all, "error"), "message"));
    const json_t *n_tokens =
        json_object_get(json_object_get(all, "usage"), "completion_tokens");
    int status = CERIUM_OK;
    size_t i;
    if (!json_is_array(choices) || json_array_size(choices) != a->n_asked) {
        if (a->has_suffix && why) {
            a->no_suffix = true; /* that may be the reason: try once more */
            a->n_waves--;
        } else {
            give_up(a, why ? why : "an answer of the model cannot be read");
        }
    } else {
        a->set->n_tokens += (uint64_t)json_integer_value(n_tokens);
        json_array_foreach(choices, i, choice)
            if (!status) status = take_choice(a, (uint32_t)i, choice, err);
        a->n_done += a->n_asked;
    }
    a->n_asked = 0;
    json_decref(all);
    return status;
}

/* One line answers one request.  *found: the line was complete. */
static int take_line(solve_asked *a, bool *found, cerium_error *err)
{
    const char *end = a->in.len ? memchr(a->in.ptr, '\n', a->in.len) : NULL;
    *found = end != NULL;
    if (!end) return CERIUM_OK;
    const size_t n = (size_t)(end - a->in.ptr);
    int status = take_answer(a, (view){a->in.ptr, n}, err);
    memmove(a->in.ptr, end + 1, a->in.len - n - 1);
    a->in.len -= n + 1;
    return status;
}

int asked_pump(solve_asked *a, cerium_error *err)
{
    static char buffer[READ_BYTES];
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    while (a->n_asked) {
        bool found;
        RETURN_IF(take_line(a, &found, err));
        if (found) break;
        if (poll(&in, 1, 0) <= 0) return CERIUM_OK;
        const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) give_up(a, "nobody answers on standard input");
        else if (bytes_append(&a->in, buffer, (size_t)n))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for an answer");
    }
    return a->n_done < a->n ? ask(a, err) : CERIUM_OK;
}
