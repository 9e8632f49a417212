/* complete.c - `cerium complete FILE:LINE[:COL]`: fill in the middle at a place in a real file. */
#include "programs/programs.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "programs/generate.h"
#include "programs/output.h"
#include "programs/terminal.h"
#include "protocol/infill_stop.h"

enum { FILE_BYTES_MAX = 64 << 20, CONTEXT_FILES_MAX = 32, SHOW_LINES = 4 };
enum { BEFORE_BYTES = 64 << 10 }; /* of the file, for the watchdog */

typedef struct {
    options o;
    uint32_t lines;
    bool show, quiet;
    bool whole_tokens;     /* the model continues after the last token before the hole */
    bool measured;         /* --min-confidence was given: */
    double confidence_min; /* least probability of what is shown */
    double logprob;        /* of all tokens so far */
    double pointer;        /* below 0: as the model file asks */
    const char *repo;
    const char *context_paths[CONTEXT_FILES_MAX];
    bytes context_texts[CONTEXT_FILES_MAX];
    size_t n_context;
    char path[4096];
    uint32_t line, column; /* column 0: the end of the line */
    bytes text;
    size_t at; /* byte of text where the hole is */
    size_t n_heal; /* bytes before it that the completion's tokens spell again */
    infill_stop stop;
    bytes out; /* the completion */
    size_t n_fed; /* bytes that the model wrote */
    uint32_t n_lines;
    watchdog watchdog;
} completion;

static bool take_context_file(void *program, const char *value)
{
    completion *c = program;
    if (c->n_context == CONTEXT_FILES_MAX)
        return option_wants("given at most %d times", CONTEXT_FILES_MAX);
    return option_text(value, &c->context_paths[c->n_context++]);
}

/* clang-format off */
static const option_spec own[] = {
    {"tokens", .help = "generate at most N tokens (default 64)"},
    {"lines", "N", "end after N lines (default 1; 0: after the block that they are in)",
     TAKES_U32(completion, lines, 0, 100000)},
    {"min-confidence", "X",
     "show nothing where the model gives the completion a probability below X, from 0 to 1; "
     "`cerium eval` finds the X above which lines are right half the time",
     TAKES_F64(completion, confidence_min, 0, 1), GIVEN(completion, measured)},
    {"context-file", "FILE", "a file that the model may look at; may be given several times",
     TAKES_CALL(take_context_file)},
    {"repo", "NAME", "name of the repository", TAKES_ANY(completion, repo)},
    {"no-healing", NULL, "begin after the last token before the place, not within it",
     TAKES_FLAG(completion, whole_tokens)},
    {"pointer", "X",
     "mix in what the file has after places like this one, from 0 (off) to 1 (default: what the "
     "model file says; 1 for the bundled one)",
     TAKES_F64(completion, pointer, 0, 1)},
    {"show", NULL, "show the completion in its place", TAKES_FLAG(completion, show)},
    {"quiet", NULL, "print no figures at the end, and no findings of the watchdog",
     TAKES_FLAG(completion, quiet)},
    {"json", .help = "print {\"text\", \"tokens\", \"stop\", ...}; without text a \"note\" that "
                     "says why, with --min-confidence also \"confidence\" and \"held_back\""},
};
/* clang-format on */
const command_table complete_command = {
    .name = "complete",
    .usage = "[OPTIONS] FILE:LINE[:COL]",
    .about = "Fill in the middle at a place in a file: after column COL of line LINE. Both count "
             "from 1, columns in bytes; without COL the place is the end of the line. The file is "
             "not changed. A completion ends before the line that follows it, and where it would "
             "repeat itself.",
    .groups = OPTIONS_ENGINE | OPTIONS_SAMPLING | OPTIONS_JSON | OPTIONS_GUARD,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium complete --show examples/point.py:8",
};

/* FILE:LINE[:COL]; the name may contain colons. */
static bool parse_place(completion *c, const char *place)
{
    uint64_t number[2];
    view rest = view_of(place);
    int n = 0;
    while (n < 2) {
        size_t colon = rest.len;
        while (colon > 0 && rest.ptr[colon - 1] != ':') colon--;
        if (colon < 2) break;
        view last = {rest.ptr + colon, rest.len - colon};
        if (!parse_u64(last, &number[n])) break;
        if (number[n] < 1 || number[n] > 1u << 30) return false;
        rest.len = colon - 1;
        n++;
    }
    if (n == 0 || rest.len == 0 || rest.len >= sizeof c->path) return false;
    memcpy(c->path, rest.ptr, rest.len);
    c->line = (uint32_t)number[n - 1];
    c->column = n == 2 ? (uint32_t)number[0] : 0;
    return true;
}

static int find_place(completion *c, cerium_error *err)
{
    size_t at = 0;
    uint32_t line = 1;
    for (; line < c->line && at < c->text.len; at++)
        if (c->text.ptr[at] == '\n') line++;
    if (line < c->line)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s has %u lines, not %u", c->path, line,
                         c->line);
    size_t end = at;
    while (end < c->text.len && c->text.ptr[end] != '\n') end++;
    if (end > at && c->text.ptr[end - 1] == '\r') end--; /* the line break has two bytes */
    if (c->column && c->column - 1 > end - at)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s:%u has %zu columns, not %u", c->path,
                         c->line, end - at, c->column);
    c->at = c->column ? at + c->column - 1 : end;
    if (c->at < c->text.len && ((unsigned char)c->text.ptr[c->at] & 0xC0) == 0x80)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s:%u:%u is within a character: columns count "
                         "bytes", c->path, c->line, c->column);
    return CERIUM_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The prompt within max tokens: text far from the hole is dropped first, in whole lines, three
 * bytes of the prefix for one of the suffix; then context files, the oldest first. */
static int fit_prompt(completion *c, const cerium_engine *engine, size_t max, int32_t **tokens,
                      size_t *n, cerium_error *err)
{
    cerium_context_file files[CONTEXT_FILES_MAX];
    for (size_t i = 0; i < c->n_context; i++)
        files[i] = (cerium_context_file){c->context_paths[i], c->context_texts[i].ptr,
                                         c->context_texts[i].len};
    const size_t at = c->at - c->n_heal; /* where the hole begins for the model */
    size_t prefix = at, suffix = c->text.len - c->at, first_file = 0;
    for (;;) {
        cerium_infill in = {.prefix = c->text.ptr + at - prefix,
                            .prefix_len = prefix,
                            .suffix = c->text.ptr + c->at,
                            .suffix_len = suffix,
                            .path = base_name(c->path),
                            .repo = c->repo,
                            .files = files + first_file,
                            .n_files = c->n_context - first_file};
        int status = cerium_infill_tokens(engine, &in, NULL, 0, n, err);
        if (status && status != CERIUM_ERR_CAPACITY) return status;
        if (*n <= max) {
            *tokens = memory_alloc(*n * sizeof **tokens);
            if (!*tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the prompt");
            return cerium_infill_tokens(engine, &in, *tokens, *n, n, err);
        }
        if (first_file < c->n_context) {
            first_file++;
        } else if (prefix + suffix == 0) {
            return error_set(err, CERIUM_ERR_CAPACITY, "the context is too small to fill anything");
        } else {
            /* Keep a little less than the share that fits. */
            double keep = (double)max / (double)*n * 0.95;
            size_t total = (size_t)((double)(prefix + suffix) * keep);
            size_t want = total / 4 < suffix ? total / 4 : suffix;
            prefix = total - want < prefix ? total - want : prefix;
            suffix = want;
            while (prefix && prefix < at && c->text.ptr[at - prefix - 1] != '\n') prefix--;
            while (suffix && c->at + suffix < c->text.len &&
                   c->text.ptr[c->at + suffix - 1] != '\n')
                suffix--;
        }
    }
}

/* Into c->out, until n lines are full.  A line break that begins the completion does not end its
 * first line. */
static int keep_text(void *user, view text, cerium_error *err)
{
    completion *c = user;
    for (size_t i = 0; i < text.len && !c->stop.end; i++) {
        bool begins = c->n_fed++ == 0;
        if (text.ptr[i] == '\n' && c->lines && !begins && ++c->n_lines == c->lines)
            return GENERATE_ENOUGH;
        if (infill_stop_feed(&c->stop, (view){text.ptr + i, 1}, &c->out))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for the completion");
    }
    return c->stop.end ? GENERATE_ENOUGH : CERIUM_OK;
}

/* A line that wrapped around is half a line: it must not go into a file, nor the break before
 * it. */
static void give_up_broken(completion *c)
{
    const size_t broken = infill_stop_broken(&c->stop);
    if (!broken || broken > c->out.len) return;
    c->out.len = view_trim_end((view){c->out.ptr, c->out.len - broken}, " \t\r\n").len;
}

static void keep_logprob(void *user, const cerium_watch_token *token)
{
    completion *c = user;
    c->logprob += (double)token->logprob;
}

/* The confidence of a line, as in `cerium eval`: the probability of all of its tokens. */
static double confidence(const completion *c) { return exp(c->logprob); }

static bool is_held_back(const completion *c)
{
    return c->measured && confidence(c) < c->confidence_min;
}

static int fill(completion *c, cerium_session *session, const cerium_engine *engine,
                const int32_t *tokens, size_t n, generation *g, cerium_error *err)
{
    size_t before = c->at < BEFORE_BYTES ? c->at : BEFORE_BYTES;
    if (c->measured) { /* no token after the end counts: drafts bring several at once */
        c->o.sampling.logprobs = true;
        c->o.sampling.step_tokens_max = 1;
    }
    generation_order order = {.tokens = tokens,
                              .n_tokens = n,
                              .heal_prefix = {c->text.ptr + c->at - c->n_heal, c->n_heal},
                              .n_new = c->o.n_tokens,
                              .sampling = &c->o.sampling,
                              .text = keep_text,
                              .seen = c->measured ? keep_logprob : NULL,
                              .user = c,
                              .watchdog = &c->watchdog,
                              .form = GUARD_CODE,
                              .language = guard_language_of_path(view_of(c->path)),
                              .before = {c->text.ptr + c->at - before, before},
                              .has_after = true};
    return generate(session, engine, &order, g, err);
}

/* The reason for an empty completion. */
static const char *nothing(const completion *c)
{
    const char *end = c->stop.end ? infill_stop_end_name(c->stop.end) : "";
    return !strcmp(end, "loop") ? "the model has nothing to add here: it repeated what is there"
                                : "the model has nothing to add here";
}

static int print_json(const completion *c, const generation *g, cerium_error *err)
{
    json_t *text = json_text((view){c->out.ptr, is_held_back(c) ? 0 : c->out.len});
    const char *stop = g->new_tokens < c->o.n_tokens ? "lines" : "tokens";
    if (c->stop.end) stop = infill_stop_end_name(c->stop.end);
    else if (g->guarded) stop = "guard";
    else if (g->stop != CERIUM_STOP_NONE) stop = stop_name(g->stop);
    json_t *all =
        json_pack("{s:o, s:i, s:i, s:o, s:s, s:i, s:i, s:f, s:f}", "file", json_name(c->path),
                  "line",
                  (int)c->line, "column", (int)c->column, "text", text, "stop", stop,
                  "prompt_tokens", (int)g->prompt_tokens, "tokens", (int)g->new_tokens,
                  "first_token_ms", (double)g->first_ns / 1e6, "tokens_per_second",
                  g->rest_ns ? (g->new_tokens - 1) * 1e9 / (double)g->rest_ns : 0.0);
    if (c->measured && all) {
        json_object_set_new(all, "confidence", json_real(confidence(c)));
        json_object_set_new(all, "held_back", json_boolean(is_held_back(c)));
    }
    if (all && !c->out.len) json_object_set_new(all, "note", json_string(nothing(c)));
    return output_json(all, JSON_INDENT(2), err);
}

/* The bytes are arbitrary: a file may have a NUL. */
static void print_text(const completion *c)
{
    write_view((view){c->out.ptr, c->out.len}, stdout);
    if (c->out.len) fputs("\n", stdout);
}

/* A few lines around the hole, the completion in bold on a terminal. */
static void print_in_place(const completion *c)
{
    bool bold = terminal_colors(stdout);
    size_t from = c->at, to = c->at;
    for (int n = 0; from > 0 && (c->text.ptr[from - 1] != '\n' || ++n < SHOW_LINES);) from--;
    for (int n = 0; to < c->text.len && (c->text.ptr[to] != '\n' || ++n < SHOW_LINES);) to++;
    write_view((view){c->text.ptr + from, c->at - from}, stdout);
    if (bold) fputs("\033[1;32m", stdout);
    write_view((view){c->out.ptr, c->out.len}, stdout);
    if (bold) fputs("\033[0m", stdout);
    write_view((view){c->text.ptr + c->at, to - c->at}, stdout);
    fputs("\n", stdout);
}

static int complete(completion *c, cerium_engine *engine, cerium_error *err)
{
    cerium_engine_info info;
    cerium_session *session = NULL;
    int32_t *tokens = NULL;
    size_t n = 0;
    generation g = {0};
    cerium_engine_describe(engine, &info);
    c->o.sampling.pointer = c->pointer < 0 ? info.pointer : (float)c->pointer;
    if (c->o.n_tokens >= info.context_tokens_max)
        return error_set(err, CERIUM_ERR_ARGUMENT, "-n %u: the context has %u tokens",
                         c->o.n_tokens, info.context_tokens_max);
    if (!c->whole_tokens) c->n_heal = cerium_infill_heal_prefix(engine, c->text.ptr, c->at);
    RETURN_IF(fit_prompt(c, engine, info.context_tokens_max - c->o.n_tokens, &tokens, &n, err));
    c->out.max = SIZE_MAX / 2;
    const view before = {c->text.ptr, c->at}, after = {c->text.ptr + c->at, c->text.len - c->at};
    int status = cerium_session_open(&session, engine, NULL, err);
    if (!status && infill_stop_open(&c->stop, before, after, 0, true))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for the completion");
    if (!status) status = fill(c, session, engine, tokens, n, &g, err);
    if (!status && infill_stop_finish(&c->stop, &c->out))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for the completion");
    give_up_broken(c);
    infill_stop_close(&c->stop);
    if (!status && c->o.json)
        status = print_json(c, &g, err);
    else if (!status && is_held_back(c))
        fprintf(stderr, "held back: confidence %.3f, under %.3f\n", confidence(c),
                c->confidence_min);
    else if (!status && c->show)
        print_in_place(c);
    else if (!status)
        print_text(c);
    if (!status && !c->o.json && !c->out.len)
        fprintf(stderr, "%s\n", nothing(c));
    if (!status && !c->quiet) print_generation(&g, stderr);
    cerium_session_close(&session);
    memory_free(tokens);
    return status;
}

static int read_files(completion *c, cerium_error *err)
{
    c->text.max = FILE_BYTES_MAX;
    RETURN_IF(read_text(c->path, &c->text, err));
    for (size_t i = 0; i < c->n_context; i++) {
        c->context_texts[i].max = FILE_BYTES_MAX;
        RETURN_IF(read_text(c->context_paths[i], &c->context_texts[i], err));
    }
    return find_place(c, err);
}

int program_complete(int argc, char **argv)
{
    static completion c = {.o = {.n_tokens = 64}, .lines = 1, .pointer = -1};
    cerium_error err;
    cerium_engine *engine = NULL;
    RETURN_IF(command_parse(&complete_command, &c, argc, argv));
    if (argc - optind != 1) return usage_error("complete", "name one place, as in FILE:LINE");
    if (!parse_place(&c, argv[optind]))
        return usage_error("complete", "'%s' is not FILE:LINE[:COL]", argv[optind]);
    int status = read_files(&c, &err);
    if (!status) status = watchdog_open(&c.watchdog, &c.o, &err);
    c.watchdog.quiet = c.quiet;
    if (!status) status = options_engine(&c.o, &engine, 1, &err);
    if (!status) status = watchdog_check(&c.watchdog, &err);
    if (!status) status = complete(&c, engine, &err);
    cerium_engine_close(&engine);
    watchdog_close(&c.watchdog);
    bytes_free(&c.text);
    bytes_free(&c.out);
    for (size_t i = 0; i < c.n_context; i++) bytes_free(&c.context_texts[i]);
    return status ? failed(&err) : 0;
}
