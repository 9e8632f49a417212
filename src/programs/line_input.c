/* line_input.c - reads lines with libedit, or with fgets() without it. */
#include "programs/line_input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/file.h"
#include "base/memory.h"

#if __has_include(<histedit.h>)
#include <histedit.h>
#define HAS_LIBEDIT 1
#else
#define HAS_LIBEDIT 0
typedef struct editline EditLine;
typedef struct history History;
#endif

enum { PATH_BYTES = 4096 };

struct line_input {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    const char *prompt;
    bool is_terminal;
    char path[PATH_BYTES]; /* of the history file; "" for none */
    char text[LINE_BYTES_MAX];
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

#if HAS_LIBEDIT

static char *tell_prompt(EditLine *edit)
{
    static char text[32];
    line_input *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    snprintf(text, sizeof text, "%s", l ? l->prompt : "");
    return text;
}

/* The path of the user's history; "" if there is no place for it. */
static void find_path(char out[PATH_BYTES])
{
    const char *own = getenv("CERIUM_HISTORY");
    char folder[PATH_BYTES - sizeof "/history"];
    int n = 0;
    if (own && *own) n = snprintf(out, PATH_BYTES, "%s", strcmp(own, "off") ? own : "");
    else if (file_state_folder(folder, sizeof folder))
        n = snprintf(out, PATH_BYTES, "%s/history", folder);
    if (n <= 0 || n >= PATH_BYTES) out[0] = 0;
}

static void open_history(line_input *l)
{
    HistEvent event;
    l->history = history_init();
    if (!l->history) return;
    history(l->history, &event, H_SETSIZE, LINE_HISTORY_MAX);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->edit, EL_HIST, history, l->history);
    find_path(l->path);
    if (*l->path) history(l->history, &event, H_LOAD, l->path);
}

/* A letter from the terminal: 1, or 0 at the end, or -1.  SIGINT is delivered only while ppoll()
 * waits: an earlier one is seen then.  read() alone would lose it and wait for the next key. */
static int read_letter(EditLine *edit, wchar_t *out)
{
    (void)edit;
    char text[MB_LEN_MAX];
    size_t n = 0;
    int got = -1;
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    while (!interrupted && n < sizeof text) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (ppoll(&in, 1, NULL, &before) < 0 && errno == EINTR) continue;
        const ssize_t r = read(STDIN_FILENO, text + n, 1);
        if (r <= 0) {
            got = (int)r;
            break;
        }
        mbstate_t state = {0};
        const size_t len = mbrtowc(out, text, ++n, &state);
        if (len == (size_t)-2) continue; /* more bytes of it follow */
        if (len == (size_t)-1) {         /* not a letter: left out */
            n = 0;
            continue;
        }
        got = 1;
        break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return interrupted ? -1 : got;
}

static void open_editor(line_input *l)
{
    const char *term = getenv("TERM");
    if (!term || !*term || !strcmp(term, "dumb") || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return;
    /* Letters of more than one byte take one column in any language. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    l->edit = el_init("cerium", stdin, stderr, stderr);
    if (!l->edit) return;
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, tell_prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_SIGNAL, 0);
    el_set(l->edit, EL_GETCFN, read_letter);
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(l->edit, NULL);
    open_history(l);
}

static void close_editor(line_input *l)
{
    if (l->history) history_end(l->history);
    if (l->edit) el_end(l->edit);
}

static bool read_edited(line_input *l, view *line)
{
    int n = 0;
    const char *text = el_gets(l->edit, &n);
    if (!text || n <= 0) return false;
    *line = (view){text, (size_t)n};
    return true;
}

void line_input_remember(line_input *l, const char *text)
{
    HistEvent event;
    if (!l->history || !*text || *text == ' ') return;
    history(l->history, &event, H_ENTER, text);
    if (!*l->path) return;
    file_make_folders(l->path);
    int fd = open(l->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* before there is a line in it */
    if (fd < 0) return;
    bool own = !fchmod(fd, 0600);
    close(fd);
    if (own) history(l->history, &event, H_SAVE, l->path);
}

#else

static void open_editor(line_input *l) { (void)l; }
static void close_editor(line_input *l) { (void)l; }
static bool read_edited(line_input *l, view *line)
{
    (void)l;
    (void)line;
    return false;
}
void line_input_remember(line_input *l, const char *text)
{
    (void)l;
    (void)text;
}

#endif

static bool read_plain(line_input *l, view *line)
{
    fputs(l->prompt, stderr);
    fflush(stderr);
    if (!fgets(l->text, sizeof l->text, stdin)) return false;
    *line = view_of(l->text);
    return true;
}

int line_input_open(line_input **out, cerium_error *err)
{
    line_input *l = memory_zalloc(1, sizeof *l);
    if (!l) return error_set(err, CERIUM_ERR_MEMORY, "no memory for lines");
    l->prompt = "";
    l->is_terminal = isatty(STDIN_FILENO);
    open_editor(l);
    *out = l;
    return CERIUM_OK;
}

void line_input_close(line_input **l)
{
    if (!*l) return;
    close_editor(*l);
    memory_free(*l);
    *l = NULL;
}

/* Outside of reading, the terminal is in line mode. */
bool line_input_waits(const line_input *l)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return l->is_terminal && poll(&in, 1, 0) == 1 && (in.revents & POLLIN);
}

line_result line_input_read(line_input *l, const char *prompt, view *line)
{
    struct sigaction action = {.sa_handler = on_interrupt}, before; /* it ends reading */
    l->prompt = prompt;
    interrupted = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before);
    errno = 0;
    bool read = l->edit ? read_edited(l, line) : read_plain(l, line);
    sigaction(SIGINT, &before, NULL);
    if (interrupted) {
        clearerr(stdin);
        fputs("\n", stderr);
        return LINE_INTERRUPTED;
    }
    if (!read) return LINE_END;
    while (line->len && (line->ptr[line->len - 1] == '\n' || line->ptr[line->len - 1] == '\r'))
        line->len--;
    return LINE_READ;
}
