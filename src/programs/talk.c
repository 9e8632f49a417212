/* talk.c - the conversation's turns, and the commands that begin with /. */
#include "programs/talk.h"

#include <errno.h>
#include <signal.h>

#include "programs/line_input.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/terminal.h"

enum {
    TURNS_MAX = 512,
    TEXT_BYTES_MAX = 64 << 20,
    MESSAGE_BYTES_MAX = 16 << 20,
    STEER_STEPS = 64, /* steps that a line may still take after the user typed a new message */
};

typedef struct {
    const talk_config *config;
    line_input *lines;
    cerium_message messages[TURNS_MAX];
    char *contents[TURNS_MAX]; /* owned */
    size_t n;
    bytes typed; /* the next message */
    bool over;
} talking;

int talk_tokens(const cerium_engine *engine, const cerium_message *messages, size_t n,
                int32_t **tokens, size_t *n_tokens, cerium_error *err)
{
    size_t cap = 0;
    *tokens = NULL;
    const cerium_chat chat = {.messages = messages, .n_messages = n};
    int status = cerium_chat_tokens(engine, &chat, NULL, 0, &cap, err);
    if (status != CERIUM_ERR_CAPACITY) return status;
    *tokens = memory_alloc(cap * sizeof **tokens);
    if (!*tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory for %zu tokens", cap);
    status = cerium_chat_tokens(engine, &chat, *tokens, cap, n_tokens, err);
    if (status) {
        memory_free(*tokens);
        *tokens = NULL;
    }
    return status;
}

/* ---- answers ---- */

static int say(talking *t, const char *role, view content, cerium_error *err)
{
    if (t->n == TURNS_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "the conversation has %d messages; /clear "
                         "begins another", TURNS_MAX);
    t->contents[t->n] = memory_copy(content.ptr ? content.ptr : "", content.len);
    if (!t->contents[t->n]) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a message");
    t->messages[t->n] = (cerium_message){.role = role, .content = t->contents[t->n]};
    t->n++;
    return CERIUM_OK;
}

static void take_back(talking *t, size_t n)
{
    while (t->n > n) memory_free(t->contents[--t->n]);
}

static bool has_system(const talking *t) { return t->n && !strcmp(t->messages[0].role, "system"); }

/* A running answer. */
typedef struct {
    const talking *t;
    bytes text;
    bool may_steer, is_steered; /* ended by a line that was typed since it began */
    size_t from;                /* bytes of the answer at that time, */
    uint32_t n_steps;           /* and its steps since */
} saying;

static bool in_fence(view text)
{
    bool in = false, at_start = true;
    for (size_t i = 0; i < text.len; i++) {
        if (at_start && view_starts((view){text.ptr + i, text.len - i}, VIEW("```"))) in = !in;
        at_start = text.ptr[i] == '\n' || (at_start && text.ptr[i] == ' ');
    }
    return in;
}

/* The user typed a line: the answer ends after the next line outside a fenced block, or soon. */
static bool is_enough(saying *s)
{
    if (!s->is_steered && s->may_steer && line_input_waits(s->t->lines)) {
        s->is_steered = true;
        s->from = s->text.len;
    }
    if (!s->is_steered) return false;
    const char *end = s->text.len > s->from
                          ? memrchr(s->text.ptr + s->from, '\n', s->text.len - s->from)
                          : NULL;
    if (end && !in_fence((view){s->text.ptr, (size_t)(end - s->text.ptr)})) return true;
    return ++s->n_steps > STEER_STEPS;
}

static int show_and_keep(void *user, view text, cerium_error *err)
{
    saying *s = user;
    RETURN_IF(generate_to_file(stdout, text, err));
    int status = bytes_append(&s->text, text.ptr, text.len);
    if (status) return error_set(err, status, "the answer is too long to go on");
    return is_enough(s) ? GENERATE_ENOUGH : CERIUM_OK;
}

/* The answer goes to the terminal and into the conversation. */
static int answer(talking *t, cerium_error *err)
{
    int32_t *tokens = NULL;
    size_t n = 0;
    generation g;
    /* A line typed before the answer began is the next message, and does not end this one. */
    saying s = {.t = t, .text.max = TEXT_BYTES_MAX, .may_steer = !line_input_waits(t->lines)};
    RETURN_IF(talk_tokens(t->config->engine, t->messages, t->n, &tokens, &n, err));
    generation_order order = t->config->order;
    order.tokens = tokens;
    order.n_tokens = n;
    order.text = show_and_keep;
    order.user = &s;
    int status = generate(t->config->session, t->config->engine, &order, &g, err);
    memory_free(tokens);
    if (!status) printf("\n");
    if (!status && !t->config->quiet) {
        print_generation(&g, stderr);
        if (s.is_steered) fputs("The answer ended for what you typed.\n", stderr);
    }
    if (!status) status = say(t, "assistant", (view){s.text.ptr, s.text.len}, err);
    bytes_free(&s.text);
    return status;
}

/* A failed turn does not end the conversation. */
static int turn(talking *t, size_t n_before, cerium_error *err)
{
    int status = answer(t, err);
    if (!status) return output_flush(err);
    if (ferror(stdout)) return status;
    take_back(t, n_before);
    fprintf(stderr, "%s%s\n", err->message,
            status == CERIUM_ERR_CAPACITY ? " (/clear begins another conversation)" : "");
    return CERIUM_OK;
}

/* ---- commands ---- */

static int do_help(talking *t, const char *rest, cerium_error *err);

static int do_clear(talking *t, const char *rest, cerium_error *err)
{
    (void)rest;
    (void)err;
    take_back(t, has_system(t) ? 1 : 0);
    fprintf(stderr, "The conversation is cleared.\n");
    return CERIUM_OK;
}

static int do_bye(talking *t, const char *rest, cerium_error *err)
{
    (void)rest;
    (void)err;
    t->over = true;
    return CERIUM_OK;
}

static int do_system(talking *t, const char *rest, cerium_error *err)
{
    take_back(t, 0);
    if (!*rest) {
        fprintf(stderr, "No system message; the conversation starts again.\n");
        return CERIUM_OK;
    }
    fprintf(stderr, "The system message is set; the conversation starts again.\n");
    return say(t, "system", view_of(rest), err);
}

static int do_again(talking *t, const char *rest, cerium_error *err)
{
    (void)rest;
    if (!t->n || strcmp(t->messages[t->n - 1].role, "assistant") != 0) {
        fprintf(stderr, "No answer yet.\n");
        return CERIUM_OK;
    }
    take_back(t, t->n - 1);
    return turn(t, t->n - 1, err);
}

/* Saves it as Markdown; an existing file stays. */
static int do_save(talking *t, const char *rest, cerium_error *err)
{
    (void)err;
    if (!*rest) {
        fprintf(stderr, "/save FILE: name the file.\n");
        return CERIUM_OK;
    }
    FILE *f = fopen(rest, "wx");
    bool bad = !f;
    for (size_t i = 0; f && i < t->n; i++)
        bad |= fprintf(f, "## %s\n\n%s\n\n", t->messages[i].role, t->contents[i]) < 0;
    if (f && fclose(f)) bad = true;
    if (bad) fprintf(stderr, "%s: %s\n", rest, strerror(errno));
    else fprintf(stderr, "%s: %zu messages\n", rest, t->n);
    return CERIUM_OK;
}

static const struct {
    const char *name, *what; /* what: NULL where another name is an alias of it */
    int (*run)(talking *t, const char *rest, cerium_error *err);
} commands[] = {
    {"help", "/help           this text", do_help},
    {"?", NULL, do_help},
    {"clear", "/clear          forget the conversation and begin another", do_clear},
    {"new", NULL, do_clear},
    {"system", "/system TEXT    begin another, with this system message", do_system},
    {"again", "/again          answer the last message once more", do_again},
    {"regen", NULL, do_again},
    {"save", "/save FILE      write the conversation to a file", do_save},
    {"bye", "/bye            end, as /exit, /quit and Ctrl-D do", do_bye},
    {"exit", NULL, do_bye},
    {"quit", NULL, do_bye},
};

static int do_help(talking *t, const char *rest, cerium_error *err)
{
    (void)t;
    (void)rest;
    (void)err;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (commands[i].what) fprintf(stderr, "  %s\n", commands[i].what);
    fputs("  \"\"\"             begins and ends a message of several lines; a \\ at a line's end\n"
          "                  goes on in the next one, too; what is pasted is one message\n"
          "  //text          a message that begins with a slash\n"
          "  Ctrl-C          stops an answer, or gives up a line\n"
          "  Enter           while an answer comes: it ends soon, and what you typed is next\n"
          "  arrow keys      move in the line, and to earlier ones; Ctrl-R looks for one\n",
          stderr);
    return CERIUM_OK;
}

/* Is it meant as a command?  "/usr/bin/env is what?" is not. */
static bool is_command(const char *text)
{
    if (*text != '/' || text[1] == '/') return false;
    size_t n = strcspn(text, " \t\n");
    return !memchr(text + 1, '/', n - 1) && n > 1;
}

static int command(talking *t, const char *text, cerium_error *err)
{
    const char *names[ARRAY_LEN(commands)];
    char name[64];
    const size_t n = strcspn(text + 1, " \t\n");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text + 1);
    const char *rest = text + 1 + n;
    rest += strspn(rest, " \t");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        names[i] = commands[i].name;
        if (!strcmp(names[i], name)) return commands[i].run(t, rest, err);
    }
    const char *near = nearest_name(name, names, ARRAY_LEN(names));
    if (near) fprintf(stderr, "Unknown command /%s; did you mean /%s?\n", name, near);
    else fprintf(stderr, "Unknown command /%s; see /help\n", name);
    return CERIUM_OK;
}

/* ---- lines ---- */

static int add_line(talking *t, view line, bool ends, cerium_error *err)
{
    int status = bytes_append(&t->typed, line.ptr, line.len);
    if (!status && !ends) status = bytes_append(&t->typed, "\n", 1);
    return status ? error_set(err, status, "a message is too long") : CERIUM_OK;
}

/* Append a message to t->typed, with its end; LINE_INTERRUPTED discards all of it. */
static int read_message(talking *t, line_result *how, cerium_error *err)
{
    static const char quotes[] = "\"\"\"";
    const size_t n_quotes = sizeof quotes - 1;
    bool in_block = false, more = true;
    view line;
    t->typed.len = 0;
    for (bool first = true; more; first = false) {
        *how = line_input_read(t->lines, first ? "> " : ". ", &line);
        if (*how != LINE_READ) return CERIUM_OK;
        if (first && view_starts(line, view_of(quotes))) {
            in_block = true;
            line = (view){line.ptr + n_quotes, line.len - n_quotes};
            first = line.len == 0;
        }
        bool closes = in_block && line.len >= n_quotes &&
                      !memcmp(line.ptr + line.len - n_quotes, quotes, n_quotes);
        bool continues = !in_block && line.len && line.ptr[line.len - 1] == '\\';
        if (closes) line.len -= n_quotes;
        if (continues) line.len--;
        more = (in_block && !closes) || continues;
        if (in_block && first && more) continue; /* the quotes had their own line */
        RETURN_IF(add_line(t, line, !more, err));
    }
    int status = bytes_append(&t->typed, "", 1);
    return status ? error_set(err, status, "a message is too long") : CERIUM_OK;
}

static int take_message(talking *t, cerium_error *err)
{
    const char *text = t->typed.ptr;
    if (!text[strspn(text, " \t\n")]) return CERIUM_OK;
    line_input_remember(t->lines, text);
    if (is_command(text)) return command(t, text, err);
    if (text[0] == '/' && text[1] == '/') text++;
    const size_t before = t->n;
    RETURN_IF(say(t, "user", view_of(text), err));
    return turn(t, before, err);
}

int talk(const talk_config *config, cerium_error *err)
{
    static talking t;
    line_result how = LINE_READ;
    t = (talking){.config = config, .typed = {.max = MESSAGE_BYTES_MAX}};
    RETURN_IF(line_input_open(&t.lines, err));
    /* A Ctrl-C between an answer and the next line ends nothing. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGINT, &ignore, &before);
    fprintf(stderr, "A conversation: a line that you type redirects an answer, Ctrl-C stops it, "
                    "/help lists the commands, Ctrl-D ends.\n");
    int status = config->system ? say(&t, "system", view_of(config->system), err) : CERIUM_OK;
    while (!status && !t.over && how != LINE_END) {
        status = read_message(&t, &how, err);
        if (!status && how == LINE_READ) status = take_message(&t, err);
    }
    sigaction(SIGINT, &before, NULL);
    if (how == LINE_END) fputs("\n", stderr);
    take_back(&t, 0);
    bytes_free(&t.typed);
    line_input_close(&t.lines);
    return status;
}
