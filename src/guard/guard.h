/* guard.h - the watchdog: reads code as it is written and says which bytes may be released.
 *
 * A guard is a compiled set of rules: read once, immutable, shared by all threads.  A guard_worker
 * is one thread's scratch (parser, tree, matcher): one call at a time.  A guard_stream is one text
 * that grows: bounded memory (guard_stream_bytes()), no thread of its own, and the same findings
 * however its bytes are cut.
 *
 *   guard_feed(stream, worker, bytes, len, &result);
 *   release everything before result.safe; look at result.findings
 *
 * One logical line is held back (a newline outside brackets and strings, at most
 * GUARD_LINE_BYTES_MAX), is judged when it is complete, and is then released or found weak.  In
 * prose, single words are held.  A line of Java whose verdict depends on a later function is held
 * until that is complete, at most GUARD_DEFERRED_BYTES.  This folder knows nothing of tokens or
 * models. */
#ifndef GUARD_GUARD_H
#define GUARD_GUARD_H

#include "base/base.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define GUARD_RULES_MAX       1024u       /* rules of all files; the project's own are 300 */
#define GUARD_RULES_BYTES_MAX (4u << 20)  /* their strings, tests included */
#define GUARD_RULE_FILE_MAX   (1u << 20)  /* one file of them */
#define GUARD_LINE_BYTES_MAX  1024u       /* held back at most: a logical line */
#define GUARD_DEFERRED_BYTES  4096u       /* and from a line on that waits for a function */
#define GUARD_WINDOW_BYTES    8192u       /* of code that a verdict can see, the held line too */
#define GUARD_WINDOW_KEPT     4096u       /* of it that stays when it is full */
#define GUARD_DEPTH_MAX       96u         /* nesting of expressions and blocks that is followed */
#define GUARD_BRACKETS_MAX    128u        /* open brackets and strings that the lexer tracks */
#define GUARD_PARSE_BYTES     (32u << 20)  /* that tree-sitter may take for one window */
#define GUARD_NODES_MAX       8192u       /* of the tree of one window */
#define GUARD_VARIABLES_MAX   256u        /* that one window's verdict follows */
#define GUARD_MARGIN_BYTES    16u         /* before the lines of a fence in a list or a quotation */
#define GUARD_FIX_BYTES       256u        /* of a safe form, with its NUL */
#define GUARD_FINDINGS_MAX    64u         /* of one call; more are not reported */

#define GUARD_READER_BYTES    8192u       /* the most that a reader keeps of a stream */
#define GUARD_READER_FINDINGS 16u         /* of one line */

_Static_assert(GUARD_LINE_BYTES_MAX * 2 <= GUARD_WINDOW_KEPT, "the held line is always seen");
_Static_assert(GUARD_WINDOW_KEPT * 2 <= GUARD_WINDOW_BYTES, "a full window halves");

typedef enum {
    GUARD_TEXT = 0, /* prose, configuration, anything: secrets only */
    GUARD_PYTHON = 1,
    GUARD_JAVASCRIPT = 2, /* with JSX */
    GUARD_TYPESCRIPT = 3,
    GUARD_TSX = 4,
    GUARD_JAVA = 5,
    GUARD_GO = 6,
    GUARD_C = 7,
    GUARD_CPP = 8,
    GUARD_PHP = 9,
    GUARD_RUBY = 10,
    GUARD_SHELL = 11,    /* read by lines, without a grammar */
    GUARD_HTML = 12,     /* and components: their scripts are JavaScript */
    GUARD_NOTEBOOK = 13, /* JSON, whose cells are Python */
    GUARD_LANGUAGES = 14,
} guard_language;

/* What the bytes of a stream are. */
typedef enum {
    GUARD_CODE = 0,   /* code of one language */
    GUARD_ANSWER = 1, /* prose with Markdown fences, diffs and patches */
    GUARD_JSON = 2,   /* arguments of a tool call: the strings of a JSON value are code */
    GUARD_TURN = 3,   /* a model's output in its chat form: an answer, and in it JSON objects and
                         <parameter=NAME> values for calls of tools */
} guard_form;

/* By what an attacker gains, not by how certain the match is. */
typedef enum {
    GUARD_NOTE = 0,  /* no finding: the usual default, or code that is meant to do this */
    GUARD_WARN = 1,  /* release, with a finding */
    GUARD_BLOCK = 2, /* must not be released */
} guard_severity;

/* How far the worst value of a finding is from constant. */
typedef enum {
    GUARD_CONSTANT = 0,
    GUARD_UNKNOWN = 1,
    GUARD_PARAMETER = 2, /* of the function that it is in */
    GUARD_SOURCE = 3,    /* from outside; of a secret: it looks live */
} guard_value;

typedef struct {
    const char *rule, *weakness, *message, *idiom; /* of the guard, while it is open */
    uint32_t cwe;
    guard_severity severity;
    guard_value value;
    bool unlikely;        /* most such findings in clean code were wrong */
    guard_language language;
    uint64_t begin, end;  /* bytes of the stream: the weak expression, clipped to the held line */
    uint64_t line_begin;  /* byte of the stream at which the held line begins: cut there */
    uint64_t raised;      /* bytes that had been fed when it was raised */
    uint32_t line;        /* of begin, from 1; in a string of JSON, of that string's text */
    uint32_t kind;        /* weakness as a number: guard_weakness_name() */
    bool escaped;         /* the line is in a string of JSON */
    bool added;           /* and after the + of a diff */
    bool continues;       /* a part of its line was released before */
    bool known;           /* it was there before: a note */
    char fix[GUARD_FIX_BYTES]; /* the safe form of the whole expression [begin, end), or "" */
    const char *needs;    /* a line that must precede the safe form, or NULL */
    bool has_environment; /* the module for reading the environment is imported */
    view held;            /* the held line as code, owned by the worker, until the next call with
                             it; empty if a part of it is not new, or was released */
    uint32_t from, to;    /* the weak expression in it */
    uint64_t line_end;    /* byte of the stream after the held line */
    char margin[GUARD_MARGIN_BYTES]; /* [n_margin] of each of its lines */
    uint8_t n_margin;
    uint8_t escapes;      /* strings of JSON in which the line is */
    char quote;           /* of the attribute that the line is in, or 0 */
    uint64_t name;        /* of a guard_reader: see there */
    bool is_import;
} guard_finding;

typedef struct {
    uint64_t safe; /* bytes of the stream, from its beginning, that may be released */
    const guard_finding *findings; /* of this call; until the next call with the same worker */
    uint32_t n_findings;
    uint32_t n_judged; /* lines of this call that were parsed and judged; most are not */
    bool late;  /* a line exceeded its limits and was judged without its tree */
    bool blind; /* a line that rules would check was not checked: this build lacks the grammar of
                   its language */
    uint32_t unjudged_line; /* of the stream, from 1: the first line that was either */
    guard_language language; /* of the last text */
} guard_result;

/* Another reader of the code, beside the rules: it gets each logical line when that is complete. */
typedef struct {
    uint32_t begin, end;  /* bytes of the line */
    uint32_t lines_back;  /* it is in an earlier line, which is gone */
    bool late;
    bool is_import;
    uint64_t name;        /* the same for the same name */
    const char *message, *idiom; /* for as long as the stream is used */
} guard_read;

typedef struct {
    void *user;
    /* A text begins.  state: [GUARD_READER_BYTES], copied with the stream. */
    void (*begin)(void *user, void *state);
    /* The next line of it; whole: else it continues.  Findings go to out; returns how many.
     * Findings in code that is not new are dropped. */
    uint32_t (*line)(void *user, void *state, guard_language language, view line, bool whole,
                     guard_read out[GUARD_READER_FINDINGS]);
} guard_reader;

typedef struct guard guard;
typedef struct guard_worker guard_worker;
typedef struct guard_stream guard_stream;

/* Read every *.yaml of folder.  Seconds at most; returns owned.
 * Errors: CERIUM_ERR_IO; CERIUM_ERR_FORMAT for a bad rule, with its file and line;
 * CERIUM_ERR_MEMORY. */
int guard_open(guard **out, const char *folder, cerium_error *err)
    __attribute__((warn_unused_result));
void guard_close(guard **g);
/* A language whose grammar this build lacks is read only for secrets and by lines; other code that
 * its rules would check makes a result blind. */
bool guard_has_grammar(guard_language language);
/* The names of languages without a grammar, with commas; "": all have one.  For people. */
void guard_lacks(char *out, size_t size);
uint32_t guard_n_rules(const guard *g);

int guard_worker_open(guard_worker **out, const guard *g, cerium_error *err)
    __attribute__((warn_unused_result));
void guard_worker_close(guard_worker **w);

typedef struct {
    guard_form form;
    guard_language language; /* GUARD_TEXT: detected from the text, unless: */
    bool is_text;            /* it is prose, whatever it quotes */
    bool is_existing;        /* a file of a folder, not new code: rules that were wrong in most
                                of their findings only warn of parameters */
    bool allow_comments;     /* a comment with a reason suppresses: files yes, models no */
    bool notes;              /* notes are findings, too */
    bool reports_known;      /* what was there before is a finding, too, as a note */
    const guard_reader *reader; /* or NULL; borrowed */
    view path;               /* of the file: gives its purpose; read by guard_stream_open() alone */
    const view *request;     /* [n_request] texts that were there before, newest first: the same
                                weakness in the same line is known.  Borrowed, with their bytes,
                                while the stream is used. */
    size_t n_request;
} guard_stream_config;

int guard_stream_open(guard_stream **out, const guard *g, const guard_stream_config *config,
                      cerium_error *err) __attribute__((warn_unused_result));
void guard_stream_close(guard_stream **s);
size_t guard_stream_bytes(const guard_stream *s);
/* The byte with which the current text began: a fence, or the prose after it. */
uint64_t guard_segment(const guard_stream *s);
/* Copy the state of `from` to `to`; both are of the same guard. */
void guard_stream_copy(guard_stream *to, const guard_stream *from);

/* Text before the stream (a prompt's code, a prefix): read for the values of names; gives no
 * findings and counts no bytes.  Before the first guard_feed(). */
void guard_context(guard_stream *s, guard_worker *w, view text);
/* The next bytes. */
void guard_feed(guard_stream *s, guard_worker *w, const void *bytes, size_t len,
                guard_result *result);
/* The end: what is held is judged as it is. */
void guard_finish(guard_stream *s, guard_worker *w, guard_result *result);

typedef enum {
    GUARD_SYNTAX_BROKEN = 0,   /* no program of its language begins like this */
    GUARD_SYNTAX_OPEN = 1,     /* one does, and its last statement is not complete */
    GUARD_SYNTAX_COMPLETE = 2, /* one does, and only blocks are open */
} guard_syntax;

/* Is the code so far the beginning of a program?  Asked after a newline.  If only the last logical
 * line is broken, its first *n_good bytes are good.  If this cannot be known (prose, no grammar,
 * code that was broken before) the answer is GUARD_SYNTAX_COMPLETE. */
guard_syntax guard_syntax_check(const guard_stream *s, guard_worker *w, uint32_t *n_good);

/* The names of weaknesses, as rules have them: 0, 1, ...; NULL beyond the last. */
const char *guard_weakness_name(uint32_t kind);

/* By name ("python", "js", "c++") or by a file's path; GUARD_TEXT when unknown. */
guard_language guard_language_named(view name);
guard_language guard_language_of_path(view path);
/* Is a file of such a name data, configuration or prose, by its extension?  Then its language is
 * not detected: quoted code has another one. */
bool guard_path_is_text(view path);
const char *guard_language_name(guard_language language);
/* Is it a test, a fixture, an example, a document?  Weak code in it only warns. */
bool guard_path_is_soft(view path);
/* Is it Markdown: prose with fences? */
bool guard_path_is_markdown(view path);
/* Whether a text with this beginning is a diff, a patch by mail or a commit with its diff. */
bool guard_text_is_diff(view text);
/* Its rules need no tree. */
bool guard_is_read_by_lines(guard_language language);
/* Is it code of a language that has no rules, such as Rust?  It is read for secrets only. */
bool guard_path_is_other_code(view path);

/* Run the tests beside the rules; each failure is one line to out.  Returns how many failed, or a
 * negative status. */
int guard_test_rules(const guard *g, FILE *out, uint32_t *n_run, cerium_error *err);

#endif
