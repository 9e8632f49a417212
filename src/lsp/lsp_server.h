/* lsp_server.h - a language server between an editor and a model: its reactions to messages, to
 * generated text, and to passing time.
 *
 * It has no thread, no socket and no clock: a host passes it messages and the time, and runs its
 * orders.  Each order ends later in a call of one of the functions below.
 *
 * Text is generated when a document changes and sent when an editor asks; one generation runs for a
 * document, a newer one supersedes it, and an answer is for the newest text, or null. */
#ifndef LSP_LSP_SERVER_H
#define LSP_LSP_SERVER_H

#include "guard/guard.h"
#include "lsp/document_text.h"
#include "protocol/next_edit.h"
#include "snippets/snippet_index.h"

enum {
    LSP_DOCUMENTS_MAX = 1024,  /* open at once */
    LSP_FINDINGS_MAX = 1000,   /* reported for a document */
    LSP_REPAIR_BYTES = 4096,
};

typedef struct lsp_server lsp_server;

/* An order for a completion.  Views are valid during the call. */
typedef struct {
    uint64_t document; /* a running one for it is superseded */
    uint64_t serial;   /* returned with the text */
    view before, after; /* with LF, whatever the file has */
    const char *path;   /* its name, for the model */
    guard_language language;
    double confidence;  /* the least of the generated text; below 0: as the model asks */
    bool warm_up;       /* only compute the prompt, generate nothing */
    const cerium_context_file *files; /* [n_files] lines of other files, for the model */
    uint32_t n_files;
    uint32_t n_candidates; /* above 0: so many different texts, which end in
                              lsp_server_candidates(); or in lsp_server_ended(): there are none */
    bool is_line;          /* of these: one line each */
} lsp_order;

/* A part of a candidate's text, and the log-probability of the token that yielded it. */
typedef struct {
    uint32_t len;
    float logprob;
} lsp_piece;

/* One of several texts for a place. */
typedef struct {
    view text;
    const lsp_piece *pieces; /* [n_pieces] in order: together all of the text */
    size_t n_pieces;
    bool is_cut;             /* it may continue: its last line is not whole */
} lsp_candidate;

enum { LSP_CANDIDATES_MAX = 5 };

typedef enum {
    LSP_ENDED_STOP = 0,     /* the model ended it */
    LSP_ENDED_LENGTH = 1,   /* the text may continue */
    LSP_ENDED_CANCELED = 2,
    LSP_ENDED_FAILED = 3,
    LSP_ENDED_UNSURE = 4,   /* it was held back for low confidence */
} lsp_end;

/* A weakness that the watchdog found. */
typedef struct {
    guard_finding finding;           /* `held` must not be read */
    char line[LSP_REPAIR_BYTES];     /* [n_line] the corrected line; none if n_line is 0 */
    size_t n_line;
} lsp_judged;

typedef enum {
    LSP_OUTCOME_TAKEN = 0,   /* or a part of it */
    LSP_OUTCOME_TYPED = 1,   /* key by key: it was right */
    LSP_OUTCOME_REFUSED = 2, /* the user wrote something else */
    LSP_OUTCOME_CHOSEN = 3,  /* one of several candidates was taken */
} lsp_outcome_kind;

/* The outcome of a completion that was shown unasked, or of several candidates. */
typedef struct {
    lsp_outcome_kind kind;
    const char *model, *language; /* the editor's name of the language */
    double probability;           /* that the model gave it when shown */
    double standard;              /* the threshold in the model's file, 0: none */
    uint32_t n_shown, n_taken;    /* characters */
    uint32_t chosen;              /* which candidate, from 0; of CHOSEN */
} lsp_outcome;

/* An edit by instruction. */
typedef struct {
    uint64_t document, serial;
    view text;
    const char *path, *instruction;
} lsp_edit_order;

/* The user's next change, predicted from where the caret is; the text has only LF. */
typedef struct {
    uint64_t document, serial; /* a running one for another place is useless now */
    next_edit_place place;
} lsp_predict_order;

typedef struct {
    void *user;
    void (*send)(void *user, view body, bool is_answer); /* other messages may be dropped */
    void (*log)(void *user, const char *line);
    /* False: no model is available now, and no end is reported. */
    bool (*generate)(void *user, const lsp_order *order);
    void (*cancel)(void *user, uint64_t document);
    /* The document was closed: nothing more is asked for it.  NULL: nothing is kept of any. */
    void (*forget)(void *user, uint64_t document);
    /* Ends in lsp_server_judged().  False: there is no watchdog. */
    bool (*judge)(void *user, uint64_t document, int64_t version, view text, const char *path,
                  guard_language language);
    /* Ends in lsp_server_edited().  False: it cannot be done, *why says the reason. */
    bool (*edit)(void *user, const lsp_edit_order *order, const char **why);
    void (*cancel_edit)(void *user);
    /* Ends in lsp_server_predicted().  False: there is no model for it. */
    bool (*predict)(void *user, const lsp_predict_order *order);
    /* Each file of code below it ends in lsp_server_file(), again after each change.  NULL: there
     * are no files. */
    void (*read_folder)(void *user, const char *path);
    /* NULL: no counts, and the model's own confidence decides. */
    void (*outcome)(void *user, const lsp_outcome *o);
    /* The least probability of what is shown unasked in that language; standard: the model's
     * own. */
    double (*confidence)(void *user, const char *model, const char *language, double standard);
    /* Tokens a second of the answers so far; 0: none yet.  NULL: unknown. */
    double (*speed)(void *user);
} lsp_host;

CERIUM_CHECKED int lsp_server_open(lsp_server **out, const lsp_host *host);
void lsp_server_close(lsp_server **s);

/* A message arrived.  now: nanoseconds of a monotonic clock. */
void lsp_server_take(lsp_server *s, view body, uint64_t now);
/* When to call lsp_server_tick(); UINT64_MAX: not before another event. */
uint64_t lsp_server_due(const lsp_server *s);
void lsp_server_tick(lsp_server *s, uint64_t now);
/* The editor sent exit, or must send nothing more; *status of the process. */
bool lsp_server_is_over(const lsp_server *s, int *status);
/* The id of the editor's process; 0: unknown. */
int64_t lsp_server_parent(const lsp_server *s);

/* ---- reports of the host ---- */

typedef enum {
    LSP_MODEL_LOADING = 0,
    LSP_MODEL_READY = 1,
    LSP_MODEL_FAILED = 2, /* for now, or for good: why */
} lsp_model_state;

typedef struct {
    lsp_model_state state;
    const char *model, *why;
    double confidence;     /* least probability of what is shown unasked */
    size_t before_bytes, after_bytes; /* of a prompt, roughly */
    size_t snippet_bytes;  /* of these for lines of other files; 0: none */
    bool snippets_pay;     /* a measured gain from them */
} lsp_model;

void lsp_server_model(lsp_server *s, const lsp_model *m);
/* Takes a file of the workspace, by its whole path. */
void lsp_server_file(lsp_server *s, snippet_file *file);
/* More text of an order; logprob: of the token that yielded it. */
void lsp_server_text(lsp_server *s, uint64_t document, uint64_t serial, view text, double logprob,
                     uint64_t now);
void lsp_server_ended(lsp_server *s, uint64_t document, uint64_t serial, lsp_end end,
                      uint64_t now);
/* The texts of an order of candidates, the likeliest first; it is over. */
void lsp_server_candidates(lsp_server *s, uint64_t document, uint64_t serial,
                           const lsp_candidate *list, size_t n, uint64_t now);
void lsp_server_judged(lsp_server *s, uint64_t document, int64_t version,
                       const lsp_judged *findings, size_t n, uint64_t now);
/* Lines of the text of that order; n 0: no proposal. */
void lsp_server_predicted(lsp_server *s, uint64_t document, uint64_t serial,
                          const next_edit *edits, size_t n);
/* The edited text, or the reason for none. */
void lsp_server_edited(lsp_server *s, uint64_t serial, view text, const char *why, uint64_t now);

#endif
