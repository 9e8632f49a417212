/* edit.c - `cerium edit FILE "INSTRUCTION"`: a minimal edit by an instruction-tuned model, shown as
 * a unified diff, and written when asked to; or refused with the reason. */
#include "programs/programs.h"

#include <errno.h>
#include <jansson.h>
#include <semaphore.h>
#include <unistd.h>

#include "programs/apply.h"
#include "programs/generate.h"
#include "programs/output.h"
#include "protocol/diff.h"
#include "protocol/edit_answer.h"

enum { WHOLE_TOKENS_MAX = 1200, LINES_MIN = 40, BLOCKS_TOKENS = 1024, WHOLE_MORE_TOKENS = 256 };
enum { INSTRUCTION_BYTES_MAX = 1 << 20, ANSWER_BYTES_MAX = 16 << 20 };

typedef enum { FORM_AUTO = 0, FORM_BLOCKS = 1, FORM_WHOLE = 2 } edit_form;

typedef struct {
    options o;
    bool apply, quiet;
    edit_form form;
    uint32_t hunks_max, lines_max;
    watchdog watchdog;
    const char *path, *replay;
    apply_file file;      /* the file to edit */
    bytes instruction;
    bool has_cr;          /* all lines end with CR LF; the model sees LF */
    bool has_mark;        /* it begins with a byte order mark, which the model does not see */
    bytes text;           /* the file as the model sees it */
    bytes answer, edited; /* edited: in the form of text */
    bytes out;            /* the edited text, in the file's encoding */
    generation g;
    bool was_cut;         /* the answer reached its token limit */
} edit;

/* clang-format off */
static const option_spec own[] = {
    {"apply", NULL, "write the file: whole or not at all, with its permissions, through links, and "
     "only if it is still what was read", TAKES_FLAG(edit, apply)},
    {"form", NULL,
     "what to ask the model for: blocks (search and replace), whole (the file), or auto, the "
     "default: whole for files of at most 1200 tokens",
     TAKES_WORD(edit, form, "auto, blocks, whole")},
    {"max-hunks", "N", "refuse changes in more than N places (default 8)",
     TAKES_U32(edit, hunks_max, 1, DIFF_LINES_MAX)},
    {"max-lines", "N",
     "refuse more than N changed lines (default: half of the file, at least 40)",
     TAKES_U32(edit, lines_max, 1, DIFF_LINES_MAX)},
    {"tokens", .help = "generate at most N tokens (default: what the form may need)"},
    {"replay", "FILE", "take the model's answer from a file; all else is computed",
     TAKES_ANY(edit, replay)},
    {"quiet", NULL, "print no figures at the end", TAKES_FLAG(edit, quiet)},
    {"json", .help = "print {\"diff\", \"hunks\", \"applied\", ...}"},
    {"guard", .help = "what the watchdog does about a weak line that the edit adds: block (refuse "
     "the edit; the default), warn or off. CLASS=WHAT sets one class; may be given several times"},
};
/* clang-format on */
const command_table edit_command = {
    .name = "edit",
    .usage = "[OPTIONS] FILE [INSTRUCTION]",
    .about = "Change FILE as INSTRUCTION (or standard input) says, with a model that follows "
             "instructions, and show the change as a unified diff. The file stays as it is "
             "without --apply.\n\n"
             "An edit is refused, with exit status 1, when the answer was cut off, when a block "
             "fits no place or several, when two blocks touch the same lines, and when it changes "
             "more than --max-hunks and --max-lines allow; with --apply also when the file cannot "
             "be written. Blanks at line ends, CR LF and a byte order mark stay as they were.",
    .groups = OPTIONS_ENGINE | OPTIONS_SAMPLING | OPTIONS_JSON | OPTIONS_GUARD,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium edit -m qwen2.5-coder.gguf src/main.c 'check what fopen returns' --apply",
};

/* ---- line ends, and the mark at the beginning ---- */

static const char mark[] = "\xef\xbb\xbf";
enum { MARK_BYTES = sizeof mark - 1 };

/* The text without a mark, and without CR when every line ends with CR LF. */
static int take_text(edit *e, cerium_error *err)
{
    view in = {e->file.text.ptr, e->file.text.len};
    size_t n_feeds = 0, n_pairs = 0;
    e->has_mark = in.len >= MARK_BYTES && memcmp(in.ptr, mark, MARK_BYTES) == 0;
    if (e->has_mark) in = (view){in.ptr + MARK_BYTES, in.len - MARK_BYTES};
    for (size_t i = 0; i < in.len; i++) {
        n_feeds += in.ptr[i] == '\n';
        n_pairs += in.ptr[i] == '\n' && i > 0 && in.ptr[i - 1] == '\r';
        if (in.ptr[i] == 0)
            return error_set(err, CERIUM_ERR_FORMAT, "%s: not a text: it has NUL bytes", e->path);
    }
    e->has_cr = n_feeds > 0 && n_pairs == n_feeds;
    e->text.max = e->edited.max = EDIT_FILE_BYTES_MAX;
    int status = bytes_reserve(&e->text, in.len);
    for (size_t i = 0; i < in.len && !status; i++)
        if (!e->has_cr || in.ptr[i] != '\r' || i + 1 == in.len || in.ptr[i + 1] != '\n')
            e->text.ptr[e->text.len++] = in.ptr[i];
    return status ? error_set(err, status, "no memory for %s", e->path) : CERIUM_OK;
}

static int put_back(edit *e)
{
    bytes *out = &e->out;
    out->max = 2 * (size_t)EDIT_FILE_BYTES_MAX + MARK_BYTES;
    if (e->has_mark) RETURN_IF(bytes_append(out, mark, MARK_BYTES));
    for (size_t i = 0; i < e->edited.len; i++) {
        if (e->has_cr && e->edited.ptr[i] == '\n') RETURN_IF(bytes_append(out, "\r", 1));
        RETURN_IF(bytes_append(out, e->edited.ptr + i, 1));
    }
    return CERIUM_OK;
}

/* ---- asking ---- */

/* Longer than any run of backticks in the file. */
static void choose_fence(view text, char fence[16])
{
    size_t longest = 2, n = 0;
    for (size_t i = 0; i < text.len; i++) {
        n = text.ptr[i] == '`' ? n + 1 : 0;
        if (n > longest) longest = n;
    }
    n = longest + 1 < 15 ? longest + 1 : 15;
    memset(fence, '`', n);
    fence[n] = 0;
}

static int append_text(bytes *to, const char *text) { return bytes_append(to, text, strlen(text)); }

static int write_prompt(const edit *e, bytes *to)
{
    static const char ask_blocks[] =
        "Answer with search/replace blocks of this form and nothing else:\n\n"
        "<<<<<<< SEARCH\nlines of the file, exactly as they are\n=======\n"
        "the lines in their place\n>>>>>>> REPLACE\n\n"
        "Each SEARCH must be whole lines that occur once in the file: add lines around them where "
        "they would not be unique. Keep the blocks as short as that allows.";
    static const char ask_whole[] =
        "Answer with the whole file after the edit, in one fenced block like the one above, and "
        "nothing else. Keep every line that the instruction does not concern as it is.";
    char fence[16];
    view text = {e->text.ptr, e->text.len};
    choose_fence(text, fence);
    to->max = EDIT_FILE_BYTES_MAX + 2 * INSTRUCTION_BYTES_MAX;
    const char *slash = strrchr(e->path, '/');
    RETURN_IF(append_text(to, "This is the file "));
    RETURN_IF(append_text(to, slash ? slash + 1 : e->path));
    RETURN_IF(append_text(to, ":\n\n"));
    RETURN_IF(append_text(to, fence));
    RETURN_IF(append_text(to, "\n"));
    RETURN_IF(bytes_append(to, text.ptr, text.len));
    if (text.len && text.ptr[text.len - 1] != '\n') RETURN_IF(append_text(to, "\n"));
    RETURN_IF(append_text(to, fence));
    RETURN_IF(append_text(to, "\n\nEdit it as follows, and change nothing else:\n"));
    RETURN_IF(bytes_append(to, e->instruction.ptr, e->instruction.len));
    RETURN_IF(append_text(to, "\n\n"));
    RETURN_IF(append_text(to, e->form == FORM_WHOLE ? ask_whole : ask_blocks));
    return bytes_append(to, "", 1); /* ends the text */
}

typedef struct {
    int32_t *prompt, *prediction, *script; /* owned */
    size_t n_prompt, n_prediction, n_script;
} edit_tokens;

static int chat_tokens(const edit *e, const cerium_engine *engine, edit_tokens *t,
                       cerium_error *err)
{
    bytes prompt = {0};
    int status = write_prompt(e, &prompt);
    if (status) {
        bytes_free(&prompt);
        return error_set(err, status, "no memory for the prompt");
    }
    const cerium_message messages[] = {
        {.role = "system", .content = "You are a careful programmer who edits one file."},
        {.role = "user", .content = prompt.ptr},
    };
    const cerium_chat chat = {.messages = messages, .n_messages = ARRAY_LEN(messages)};
    status = cerium_chat_tokens(engine, &chat, NULL, 0, &t->n_prompt, err);
    if (status == CERIUM_ERR_CAPACITY) {
        t->prompt = memory_alloc(t->n_prompt * sizeof *t->prompt);
        status = t->prompt ? cerium_chat_tokens(engine, &chat, t->prompt, t->n_prompt,
                                                &t->n_prompt, err)
                           : error_set(err, CERIUM_ERR_MEMORY, "no memory for the prompt");
    }
    bytes_free(&prompt);
    return status;
}

/* The chat form, the prompt, the prediction and the recording. */
static int make_tokens(edit *e, const cerium_engine *engine, edit_tokens *t, cerium_error *err)
{
    RETURN_IF(encode(engine, (view){e->text.ptr, e->text.len}, 0, &t->prediction, &t->n_prediction,
                     err));
    if (e->form == FORM_AUTO)
        e->form = t->n_prediction <= WHOLE_TOKENS_MAX ? FORM_WHOLE : FORM_BLOCKS;
    RETURN_IF(chat_tokens(e, engine, t, err));
    if (!e->replay) return CERIUM_OK;
    bytes text = {.max = ANSWER_BYTES_MAX};
    int status = read_file(e->replay, &text, err);
    view written = {text.ptr, text.len};
    if (!status) status = encode(engine, written, 0, &t->script, &t->n_script, err);
    bytes_free(&text);
    if (!status && t->n_script == 0)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: an empty answer", e->replay);
    return status;
}

/* ---- the answer ---- */

static void post(void *user) { sem_post(user); }

/* Read the request's events until it ends. */
static int follow(edit *e, cerium_session *session, sem_t *bell, cerium_error *err)
{
    cerium_event event = {0};
    int status = CERIUM_OK;
    while (event.kind != CERIUM_EVENT_DONE) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_NONE)
            while (sem_wait(bell) && errno == EINTR) continue;
        if (event.kind == CERIUM_EVENT_STEP && !status) {
            status = bytes_append(&e->answer, event.step.text, event.step.text_len);
            if (status) cerium_session_cancel(session);
        }
    }
    cerium_usage usage;
    cerium_session_usage(session, &usage);
    e->g = (generation){.prompt_tokens = usage.prompt_tokens,
                        .reused_tokens = usage.reused_tokens,
                        .new_tokens = usage.new_tokens,
                        .prompt_ns = usage.queue_ns + usage.prompt_ns,
                        .first_ns = usage.first_token_ns,
                        .rest_ns = usage.duration_ns - usage.first_token_ns,
                        .stop = event.stop};
    e->was_cut = event.stop == CERIUM_STOP_NONE || event.stop == CERIUM_STOP_LIMIT;
    if (status) return error_set(err, status, "no memory for the answer");
    if (event.status == CERIUM_ERR_CANCELED)
        return error_set(err, event.status, "%s: stopped; it is unchanged", e->path);
    return event.status ? error_set(err, event.status, "%s", cerium_status_text(event.status)) : 0;
}

static int answer(edit *e, cerium_engine *engine, const edit_tokens *t, cerium_error *err)
{
    cerium_engine_info info;
    cerium_session *session = NULL;
    sem_t bell;
    cerium_engine_describe(engine, &info);
    uint64_t n = e->form == FORM_WHOLE ? t->n_prediction + t->n_prediction / 2 + WHOLE_MORE_TOKENS
                                       : BLOCKS_TOKENS;
    if (e->o.n_tokens_given) n = e->o.n_tokens;
    if (t->n_prompt + n > info.context_tokens_max)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%s: the prompt has %zu tokens and the answer may have %llu, but the "
                         "context only %u; edit a smaller file, or give --form blocks or -n",
                         e->path, t->n_prompt, (unsigned long long)n, info.context_tokens_max);
    cerium_request request = {.tokens = t->prompt,
                              .n_tokens = t->n_prompt,
                              .new_tokens_max = (uint32_t)n,
                              .sampling = &e->o.sampling,
                              .class_ = CERIUM_CLASS_EDIT,
                              .script = t->script,
                              .n_script = t->n_script,
                              .prediction = t->prediction,
                              .n_prediction = t->n_prediction,
                              .notify = post,
                              .user = &bell};
    RETURN_IF(cerium_session_open(&session, engine, NULL, err));
    sem_init(&bell, 0, 0);
    interrupt_cancels(session);
    e->answer.max = ANSWER_BYTES_MAX;
    int status = cerium_session_start(session, &request, err);
    if (!status) status = follow(e, session, &bell, err);
    interrupt_restore();
    cerium_session_close(&session);
    sem_destroy(&bell);
    return status;
}

/* ---- the edit ---- */

static int make_edit(edit *e, cerium_error *err)
{
    char fault[EDIT_FAULT_MAX] = "";
    view text = {e->text.ptr, e->text.len}, written = {e->answer.ptr, e->answer.len}, whole;
    edit_blocks *blocks = memory_alloc(sizeof *blocks);
    if (!blocks) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the edit");
    int status = CERIUM_ERR_FORMAT;
    if (e->was_cut)
        snprintf(fault, sizeof fault, "the answer was cut off after %u tokens; give more with -n",
                 e->g.new_tokens);
    else if (e->form == FORM_BLOCKS && edit_blocks_read(written, blocks, fault))
        status = edit_blocks_apply(blocks, text, &e->edited, fault);
    else if (e->form == FORM_WHOLE && edit_whole_read(written, text, &whole, fault))
        status = edit_whole_apply(whole, text, &e->edited, fault);
    memory_free(blocks);
    if (status) return error_set(err, status, "%s is unchanged: %s", e->path, fault);
    return CERIUM_OK;
}

/* Reject edits that are too large: changes in many places, or of much of the file. */
static int check_size(const edit *e, const diff *d, cerium_error *err)
{
    uint32_t added, removed, hunks = diff_hunks(d);
    diff_count(d, &added, &removed);
    uint32_t most = e->lines_max, changed = added > removed ? added : removed;
    if (!most) most = d->n_lines[0] / 2 > LINES_MIN ? d->n_lines[0] / 2 : LINES_MIN;
    if (d->n_changes == 0)
        return error_set(err, CERIUM_ERR_FORMAT, "%s is unchanged: the answer changes nothing",
                         e->path);
    if (hunks > e->hunks_max)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s is unchanged: the answer changes %u places, more than --max-hunks %u",
                         e->path, hunks, e->hunks_max);
    if (changed > most)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s is unchanged: the answer changes %u lines, more than --max-lines %u",
                         e->path, changed, most);
    return CERIUM_OK;
}

static int print_json(const edit *e, const diff *d, cerium_error *err)
{
    char *text = NULL;
    size_t len = 0;
    uint32_t added, removed;
    FILE *out = open_memstream(&text, &len);
    if (!out) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the diff");
    diff_print(d, e->path, out);
    fclose(out);
    diff_count(d, &added, &removed);
    json_t *shown = json_text((view){text, len});
    json_t *all = json_pack(
        "{s:o, s:s, s:b, s:i, s:i, s:i, s:o, s:i, s:i, s:i, s:f}", "file", json_name(e->path),
        "form",
        e->form == FORM_WHOLE ? "whole" : "blocks", "applied", (int)e->apply, "hunks",
        (int)diff_hunks(d), "lines_added", (int)added, "lines_removed", (int)removed, "diff", shown,
        "prompt_tokens", (int)e->g.prompt_tokens, "reused_tokens", (int)e->g.reused_tokens,
        "tokens", (int)e->g.new_tokens, "first_token_ms", (double)e->g.first_ns / 1e6);
    memory_release(text);
    return output_json(all, JSON_INDENT(2), err);
}

/* The watchdog judges only the added lines, with the lines around them. */
static int check_weak(edit *e, const diff *d, cerium_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (!e->watchdog.on) return CERIUM_OK;
    FILE *out = open_memstream(&text, &len);
    if (!out) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the diff");
    fprintf(out, "diff --git a/%s b/%s\n", e->path, e->path);
    diff_print(d, e->path, out);
    fclose(out);
    const guard_stream_config config = {.form = GUARD_ANSWER};
    int status = watchdog_judge(&e->watchdog, &config, (view){NULL, 0}, (view){text, len},
                                e->path, "is unchanged", err);
    memory_release(text);
    return status;
}

/* Is the edit within the instruction's scope and allowed? */
static int check(edit *e, cerium_error *err)
{
    diff d;
    RETURN_IF(diff_open(&d, (view){e->text.ptr, e->text.len},
                        (view){e->edited.ptr, e->edited.len}, false, err));
    int status = check_size(e, &d, err);
    if (!status) status = check_weak(e, &d, err);
    diff_close(&d);
    return status;
}

/* The diff of the original bytes, with marks and CR, so that patch accepts it. */
static int show_and_apply(edit *e, cerium_error *err)
{
    diff d;
    RETURN_IF(check(e, err));
    if (put_back(e)) return error_set(err, CERIUM_ERR_MEMORY, "no memory for %s", e->path);
    const view was = {e->file.text.ptr, e->file.text.len}, now = {e->out.ptr, e->out.len};
    RETURN_IF(diff_open(&d, was, now, false, err));
    int status = e->apply ? apply_write(&e->file, now, err) : CERIUM_OK;
    if (!status && e->o.json)
        status = print_json(e, &d, err);
    else if (!status)
        diff_print(&d, e->path, stdout);
    diff_close(&d);
    return status;
}

static int run_edit(edit *e, cerium_engine *engine, cerium_error *err)
{
    cerium_engine_info info;
    edit_tokens t = {0};
    cerium_engine_describe(engine, &info);
    if (!info.chat_form[0] && !e->replay)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "%s is not a model that follows instructions: it has no chat form; "
                         "name one with -m, for example a Qwen2.5-Coder Instruct", info.name);
    int status = make_tokens(e, engine, &t, err);
    if (!status) status = answer(e, engine, &t, err);
    if (!status) status = make_edit(e, err);
    if (!status) status = show_and_apply(e, err);
    if (e->g.new_tokens && !e->quiet) print_generation(&e->g, stderr);
    memory_free(t.prompt);
    memory_free(t.prediction);
    memory_free(t.script);
    return status;
}

static int read_instruction(edit *e, int argc, char **argv, cerium_error *err)
{
    const char *text = argc - optind == 2 ? argv[optind + 1] : NULL;
    e->instruction.max = INSTRUCTION_BYTES_MAX;
    int status = text && strcmp(text, "-") ? bytes_append(&e->instruction, text, strlen(text))
                                           : read_file("-", &e->instruction, err);
    if (!status && memchr(e->instruction.ptr ? e->instruction.ptr : "", 0, e->instruction.len))
        return error_set(err, CERIUM_ERR_FORMAT, "the instruction has NUL bytes");
    if (!status && e->instruction.len == 0)
        return error_set(err, CERIUM_ERR_ARGUMENT, "the instruction is empty");
    return status;
}

int program_edit(int argc, char **argv)
{
    static edit e = {.hunks_max = 8};
    cerium_error err;
    cerium_engine *engine = NULL;
    RETURN_IF(command_parse(&edit_command, &e, argc, argv));
    int n = argc - optind;
    if (n < 1 || n > 2) return usage_error("edit", "name one file and one instruction");
    if (n == 1 && isatty(STDIN_FILENO)) return usage_error("edit", "say what to do with the file");
    e.path = argv[optind];
    int status = apply_open(&e.file, e.path, &err);
    if (!status && e.apply) status = apply_check(&e.file, &err);
    if (!status) status = take_text(&e, &err);
    if (!status) status = read_instruction(&e, argc, argv, &err);
    if (!status) status = watchdog_open(&e.watchdog, &e.o, &err);
    if (!status) status = options_engine(&e.o, &engine, 1, &err);
    if (!status) status = watchdog_check(&e.watchdog, &err);
    if (!status) status = run_edit(&e, engine, &err);
    cerium_engine_close(&engine);
    watchdog_close(&e.watchdog);
    apply_close(&e.file);
    bytes_free(&e.instruction);
    bytes_free(&e.text);
    bytes_free(&e.answer);
    bytes_free(&e.edited);
    bytes_free(&e.out);
    return status ? failed(&err) : 0;
}
