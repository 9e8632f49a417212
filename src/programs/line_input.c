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

/* Signals while a line is read: SIGINT gives up the line, SIGWINCH tells
 * of another size, the others end the program when the terminal is as it was before. */
static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
static volatile sig_atomic_t interrupted; /* the signal, or 0 */
static volatile sig_atomic_t resized;     /* the terminal has another size */

static void on_signal(int number)
{
    if (number == SIGWINCH) resized = 1;
    else interrupted = number;
}

#if HAS_LIBEDIT

/* What is pasted arrives between two marks (xterm's bracketed paste, DECSET 2004). */
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

static char *tell_prompt(EditLine *edit)
{
    static char text[32];
    line_input *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    snprintf(text, sizeof text, "%s", l ? l->prompt : "");
    return text;
}

/* ---- keys that libedit has no function for ---- */

static unsigned char on_tab(EditLine *edit, int key)
{
    (void)key;
    return el_insertstr(edit, "\t") ? CC_ERROR : CC_REFRESH;
}

/* The rest of "ESC [ 1 ; modifier letter", an arrow key with Ctrl or Alt: a word to the left or to
 * the right; others do nothing. */
static unsigned char on_modified_key(EditLine *edit, int key)
{
    (void)key;
    wchar_t letter = 0;
    do
        if (el_wgetc(edit, &letter) != 1) return CC_EOF;
    while (letter < '@' || letter > '~');
    if (letter == 'C') el_push(edit, "\033f");
    if (letter == 'D') el_push(edit, "\033b");
    return CC_NORM;
}

/* Pasted text is text, with its tabs and lines: nothing in it is a key.  Its last line is ended by
 * the Enter key. */
static unsigned char on_paste(EditLine *edit, int key)
{
    static const wchar_t end[] = L"\033[201~";
    (void)key;
    bytes text = {.max = LINE_BYTES_MAX * sizeof(wchar_t)};
    size_t n_end = 0;
    wchar_t letter, before = 0;
    bool fits = true;
    while (n_end < ARRAY_LEN(end) - 1 && el_wgetc(edit, &letter) == 1) {
        if (letter == end[n_end]) {
            n_end++;
            continue;
        }
        fits = fits && !bytes_append(&text, end, n_end * sizeof *end);
        n_end = letter == end[0];
        /* The end of a line is sent as CR, LF or both, and libedit has the terminal swap them. */
        const bool is_pair = (before == '\r' && letter == '\n') ||
                             (before == '\n' && letter == '\r');
        before = is_pair ? 0 : letter;
        if (letter == '\r') letter = '\n';
        if (!n_end && !is_pair) fits = fits && !bytes_append(&text, &letter, sizeof letter);
    }
    size_t n = text.len / sizeof letter;
    while (n && !memcmp(text.ptr + (n - 1) * sizeof letter, L"\n", sizeof letter)) n--;
    text.len = n * sizeof letter;
    fits = fits && !bytes_append(&text, L"", sizeof letter) &&
           (!n || !el_winsertstr(edit, (const wchar_t *)(void *)text.ptr));
    bytes_free(&text);
    return interrupted ? CC_EOF : fits ? CC_REFRESH : CC_ERROR;
}

static void bind_keys(EditLine *edit)
{
    el_wset(edit, EL_ADDFN, L"tab", L"insert a tab", on_tab); /* the other copies, and leaks */
    el_wset(edit, EL_ADDFN, L"modified-key", L"an arrow with Ctrl or Alt", on_modified_key);
    el_wset(edit, EL_ADDFN, L"paste", L"insert what is pasted", on_paste);
    el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(edit, EL_BIND, "\t", "tab", NULL);
    el_set(edit, EL_BIND, "\033[1;", "modified-key", NULL);
    el_set(edit, EL_BIND, "\033[200~", "paste", NULL);
}

/* ---- the history ---- */

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

/* May it be read, and written anew?  A file that is absent or empty may. */
static bool is_history(const char *path)
{
    static const char first[] = "_HiStOrY_V2_\n"; /* libedit's */
    char text[sizeof first - 1];
    struct stat about;
    if (stat(path, &about)) return errno == ENOENT;
    if (!S_ISREG(about.st_mode)) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    return !n || (n == sizeof text && !memcmp(text, first, n));
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
    if (!*l->path) return;
    if (is_history(l->path)) {
        history(l->history, &event, H_LOAD, l->path);
        return;
    }
    fprintf(stderr, "cerium: %s: no history of cerium; nothing is kept (CERIUM_HISTORY names "
                    "another file)\n", l->path);
    l->path[0] = 0;
}

/* A letter from the terminal: 1, or 0 at the end, or -1.  A signal is delivered only while ppoll()
 * waits: an earlier one is seen then.  read() alone would lose it and wait for the next key. */
static int read_letter(EditLine *edit, wchar_t *out)
{
    char text[MB_LEN_MAX];
    size_t n = 0;
    int got = -1;
    sigset_t mask, before;
    sigemptyset(&mask);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++) sigaddset(&mask, caught[i]);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    while (!interrupted && n < sizeof text) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (ppoll(&in, 1, NULL, &before) < 0 && errno == EINTR) {
            if (resized) el_resize(edit);
            resized = 0;
            continue;
        }
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
    bind_keys(l->edit);
    el_source(l->edit, NULL);
    open_history(l);
}

static void close_editor(line_input *l)
{
    if (l->history) history_end(l->history);
    if (l->edit) el_end(l->edit);
    if (l->edit) fputs(paste_off, stderr);
    fflush(stderr);
    l->edit = NULL;
    l->history = NULL;
}

static bool read_edited(line_input *l, view *line)
{
    int n = 0;
    fputs(paste_on, stderr);
    fflush(stderr);
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
    struct sigaction action = {.sa_handler = on_signal}, before[ARRAY_LEN(caught)];
    l->prompt = prompt;
    interrupted = 0;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++) {
        sigaction(caught[i], NULL, &before[i]);
        /* What is ignored stays so (nohup); only talk() ignores SIGINT, between two lines. */
        if (before[i].sa_handler != SIG_IGN || caught[i] == SIGINT)
            sigaction(caught[i], &action, NULL);
    }
    errno = 0;
    bool read = l->edit ? read_edited(l, line) : read_plain(l, line);
    for (size_t i = 0; i < ARRAY_LEN(caught); i++) sigaction(caught[i], &before[i], NULL);
    if (interrupted) {
        clearerr(stdin);
        fputs("\n", stderr);
        if (interrupted == SIGINT) return LINE_INTERRUPTED;
        close_editor(l);
        raise(interrupted);
        return LINE_END;
    }
    if (!read) return LINE_END;
    while (line->len && (line->ptr[line->len - 1] == '\n' || line->ptr[line->len - 1] == '\r'))
        line->len--;
    return LINE_READ;
}
