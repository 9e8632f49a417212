/* lsp_server.h - a language server between an editor and a model: what it says to messages, to
 * text that is generated, and to time that passes.
 *
 * It has no thread, no socket and no clock: a host gives it messages and the time, and does what
 * it asks for.  What a host is asked for ends in a call of one of the functions below, later.
 *
 * Text is generated when a document changes and is answered when an editor asks; one generation
 * runs for a document, a newer one supersedes it, and an answer is for the newest text, or null. */
#ifndef LSP_LSP_SERVER_H
#define LSP_LSP_SERVER_H

#include "guard/guard.h"
#include "lsp/document_text.h"
#include "protocol/next_edit.h"
#include "snippets/snippet_index.h"

enum {
    LSP_DOCUMENTS_MAX = 1024,  /* open at once */
    LSP_FINDINGS_MAX = 1000,   /* reported of a document */
    LSP_REPAIR_BYTES = 4096,
};

typedef struct lsp_server lsp_server;

/* A completion that is to be generated.  Views are valid during the call. */
typedef struct {
    uint64_t document; /* what runs for it is superseded */
    uint64_t serial;   /* comes back with the text */
    view before, after; /* with LF, whatever the file has */
    const char *path;   /* its name, for the model */
    guard_language language;
    double confidence;  /* that what is said has at least; below 0: as the model says */
    bool warm_up;       /* the prompt is computed, nothing is said */
    const cerium_context_file *files; /* [n_files] lines of other files, for the model */
    uint32_t n_files;
} lsp_order;

typedef enum {
    LSP_ENDED_STOP = 0,     /* the model had no more to say */
    LSP_ENDED_LENGTH = 1,   /* there may be more */
    LSP_ENDED_CANCELED = 2,
    LSP_ENDED_FAILED = 3,
    LSP_ENDED_UNSURE = 4,   /* it was held back */
} lsp_end;

/* A weakness that the watchdog found. */
typedef struct {
    guard_finding finding;           /* `held` is not to be read */
    char line[LSP_REPAIR_BYTES];     /* [n_line] its line as it should be; none where n_line is 0 */
    size_t n_line;
} lsp_judged;

typedef enum {
    LSP_OUTCOME_TAKEN = 0,   /* or some of it */
    LSP_OUTCOME_TYPED = 1,   /* key by key: it was right */
    LSP_OUTCOME_REFUSED = 2, /* something else was written */
} lsp_outcome_kind;

/* What became of a completion that was shown unasked. */
typedef struct {
    lsp_outcome_kind kind;
    const char *model, *language; /* the editor's name of the language */
    double probability;           /* that the model gave it when it was shown */
    double standard;              /* the least that the model's file says, 0: nothing */
    uint32_t n_shown, n_taken;    /* characters */
} lsp_outcome;

/* An edit by instruction. */
typedef struct {
    uint64_t document, serial;
    view text;
    const char *path, *instruction;
} lsp_edit_order;

/* What the user would change next, as a model for it sees where he is; text has LF alone. */
typedef struct {
    uint64_t document, serial; /* what runs for another is of no use any more */
    next_edit_place place;
} lsp_predict_order;

typedef struct {
    void *user;
    void (*send)(void *user, view body, bool is_answer); /* others may be dropped */
    void (*log)(void *user, const char *line);
    /* False: no model can be asked now, and nothing ends. */
    bool (*generate)(void *user, const lsp_order *order);
    void (*cancel)(void *user, uint64_t document);
    /* Ends in lsp_server_judged().  False: there is no watchdog. */
    bool (*judge)(void *user, uint64_t document, int64_t version, view text, const char *path,
                  guard_language language);
    /* Ends in lsp_server_edited().  False with *why: it cannot be done. */
    bool (*edit)(void *user, const lsp_edit_order *order, const char **why);
    void (*cancel_edit)(void *user);
    /* Ends in lsp_server_predicted().  False: there is no model for it. */
    bool (*predict)(void *user, const lsp_predict_order *order);
    /* Each file of code below it ends in lsp_server_file(), and again when it has changed.  NULL:
     * there are no files. */
    void (*read_folder)(void *user, const char *path);
    /* NULL: no counts, and the model's own confidence decides. */
    void (*outcome)(void *user, const lsp_outcome *o);
    /* What is shown unasked in that language has at least; standard: the model's own. */
    double (*confidence)(void *user, const char *model, const char *language, double standard);
} lsp_host;

CERIUM_CHECKED int lsp_server_open(lsp_server **out, const lsp_host *host);
void lsp_server_close(lsp_server **s);

/* A message came.  now: nanoseconds of a clock that never goes back. */
void lsp_server_take(lsp_server *s, view body, uint64_t now);
/* When lsp_server_tick() is to be called, UINT64_MAX: not before something else happens. */
uint64_t lsp_server_due(const lsp_server *s);
void lsp_server_tick(lsp_server *s, uint64_t now);
/* It said exit, or nothing may come any more; *status of the process. */
bool lsp_server_is_over(const lsp_server *s, int *status);
/* Of the editor's process; 0: unknown. */
int64_t lsp_server_parent(const lsp_server *s);

/* ---- what the host reports ---- */

typedef enum {
    LSP_MODEL_LOADING = 0,
    LSP_MODEL_READY = 1,
    LSP_MODEL_FAILED = 2, /* for now, or for good: why */
} lsp_model_state;

typedef struct {
    lsp_model_state state;
    const char *model, *why;
    double confidence;     /* what is shown unasked has at least */
    size_t before_bytes, after_bytes; /* of a prompt, about */
    size_t snippet_bytes;  /* of them for lines of other files; 0: none */
    bool snippets_pay;     /* it was measured that it gains by them */
} lsp_model;

void lsp_server_model(lsp_server *s, const lsp_model *m);
/* Takes a file of the workspace, by its whole path. */
void lsp_server_file(lsp_server *s, snippet_file *file);
/* More text of an order; logprob: of the token that brought it. */
void lsp_server_text(lsp_server *s, uint64_t document, uint64_t serial, view text, double logprob,
                     uint64_t now);
void lsp_server_ended(lsp_server *s, uint64_t document, uint64_t serial, lsp_end end,
                      uint64_t now);
void lsp_server_judged(lsp_server *s, uint64_t document, int64_t version,
                       const lsp_judged *findings, size_t n, uint64_t now);
/* Lines of the text of that order; n 0: nothing is proposed. */
void lsp_server_predicted(lsp_server *s, uint64_t document, uint64_t serial,
                          const next_edit *edits, size_t n);
/* The edited text, or why there is none. */
void lsp_server_edited(lsp_server *s, uint64_t serial, view text, const char *why, uint64_t now);

#endif
