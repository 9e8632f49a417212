/* lsp_host.h - the parts that `cerium lsp` drives: an engine in this process or a remote server,
 * the watchdog on its own thread, and edits in a separate process.  Private to the program. */
#ifndef PROGRAMS_LSP_HOST_H
#define PROGRAMS_LSP_HOST_H

#include <poll.h>

#include "lsp/lsp_server.h"
#include "programs/feedback.h"
#include "programs/watchdog.h"

/* Rings an eventfd, from any thread. */
typedef struct {
    int fd;
} lsp_bell;

void lsp_bell_ring(void *bell);

/* Tokens that were generated, and the time that this took. */
typedef struct {
    uint64_t n, ns;
} lsp_pace;

/* Tokens a second; 0: none were generated. */
static inline double lsp_pace_speed(const lsp_pace *p)
{
    return p->ns ? 1e9 * (double)p->n / (double)p->ns : 0;
}

/* ---- lsp_judge.c: findings of whole documents ---- */

typedef struct lsp_judge lsp_judge;

/* Its thread loads the rules, then waits for documents. */
CERIUM_CHECKED int lsp_judge_open(lsp_judge **out, watchdog *g, lsp_bell *bell, cerium_error *err);
void lsp_judge_close(lsp_judge **judge);
/* Wait until the rules are loaded, on any thread; returns the error of loading. */
CERIUM_CHECKED int lsp_judge_ready(lsp_judge *j, cerium_error *err);
bool lsp_judge_ask(lsp_judge *j, uint64_t document, int64_t version, view text, const char *path,
                   guard_language language);
void lsp_judge_look(lsp_judge *j, lsp_server *s);

/* ---- lsp_engine.c: the model in this process ---- */

typedef struct lsp_engine lsp_engine;

/* How to predict next edits. */
typedef struct {
    next_edit_form form; /* NEXT_EDIT_NONE: as the model's file or its name says */
    const char *replay;  /* a file with the model's answer, or NULL */
} lsp_predicting;

/* Begin to load what the options name; never blocks.  g: watches generated text; judge: loads the
 * rules, NULL if it is off. */
CERIUM_CHECKED int lsp_engine_open(lsp_engine **out, const options *o, lsp_predicting how,
                                   watchdog *g, lsp_judge *judge, lsp_bell *bell,
                                   cerium_error *err);
void lsp_engine_close(lsp_engine **engine);
bool lsp_engine_generate(lsp_engine *e, const lsp_order *order);
void lsp_engine_cancel(lsp_engine *e, uint64_t document);
/* Send the server the new feedback. */
void lsp_engine_look(lsp_engine *e, lsp_server *s);
double lsp_engine_speed(const lsp_engine *e);

/* Is there a model for edits? */
bool lsp_engine_predict(lsp_engine *e, const lsp_predict_order *order);

/* ---- lsp_prompt.c: what answers of the engine have in common ---- */

/* The prompt of an order within a bound of tokens; n_heal bytes at the end of the text before the
 * hole are left out.  *tokens: returned owned, also on failure. */
CERIUM_CHECKED int lsp_prompt_make(const cerium_engine *engine, const cerium_engine_info *info,
                                   size_t tokens_max, const lsp_order *o, size_t n_heal,
                                   int32_t **tokens, size_t *n, cerium_error *err);
/* Bytes at the end of the text before the hole that the answer begins with. */
size_t lsp_prompt_heal(const cerium_engine *engine, const cerium_engine_info *info,
                       const lsp_order *o);
typedef void lsp_piece_fn(void *user, view text, double logprob);
/* The text that a watch released, token by token. */
void lsp_watched_pieces(const cerium_engine *engine, const watch_result *out, lsp_piece_fn *fn,
                        void *user);

/* ---- lsp_engine_candidates.c: several texts for one place, by the model in this process ---- */

enum { LSP_CANDIDATE_ROWS = 6 }; /* sessions that it opens */

typedef struct lsp_candidates lsp_candidates;

CERIUM_CHECKED int lsp_candidates_open(lsp_candidates **out, cerium_engine *engine,
                                       size_t prompt_tokens, watchdog *g, lsp_bell *bell,
                                       cerium_error *err);
void lsp_candidates_close(lsp_candidates **candidates);
/* One order at a time: an older one is superseded. */
CERIUM_CHECKED int lsp_candidates_begin(lsp_candidates *c, const lsp_order *o, cerium_error *err);
void lsp_candidates_cancel(lsp_candidates *c, uint64_t document);
void lsp_candidates_look(lsp_candidates *c, lsp_server *s);

/* ---- lsp_predict.c: next edits by the model in this process ---- */

typedef struct lsp_predictor lsp_predictor;

/* how.form: one that rewrites lines.  g: judges proposed edits. */
CERIUM_CHECKED int lsp_predictor_open(lsp_predictor **out, cerium_engine *engine,
                                      lsp_predicting how, watchdog *g, lsp_bell *bell);
void lsp_predictor_close(lsp_predictor **predictor);
bool lsp_predictor_ask(lsp_predictor *p, const lsp_predict_order *order);
void lsp_predictor_look(lsp_predictor *p, lsp_server *s);

/* ---- lsp_remote.c: the model of a server ---- */

typedef struct lsp_remote lsp_remote;

/* url: as http://127.0.0.1:8383.  On failure *out may be set and must be closed. */
CERIUM_CHECKED int lsp_remote_open(lsp_remote **out, const char *url, cerium_error *err);
void lsp_remote_close(lsp_remote **remote);
bool lsp_remote_generate(lsp_remote *r, const lsp_order *order);
void lsp_remote_cancel(lsp_remote *r, uint64_t document);
bool lsp_remote_predict(lsp_remote *r, const lsp_predict_order *order);
/* The document was closed. */
void lsp_remote_forget(lsp_remote *r, uint64_t document);
/* Like poll(), and also waits for the server. */
int lsp_remote_poll(lsp_remote *r, struct pollfd *fds, uint32_t n, int timeout_ms);
void lsp_remote_look(lsp_remote *r, lsp_server *s);
double lsp_remote_speed(const lsp_remote *r);

/* ---- lsp_workspace.c: files of the editor's folders ---- */

typedef struct lsp_workspace lsp_workspace;

CERIUM_CHECKED int lsp_workspace_open(lsp_workspace **out, lsp_bell *bell, cerium_error *err);
void lsp_workspace_close(lsp_workspace **workspace);
/* Its files are needed, or may have changed. */
void lsp_workspace_read(lsp_workspace *w, const char *path);
/* Hand over the files that were read. */
void lsp_workspace_look(lsp_workspace *w, lsp_server *s);

/* ---- lsp_edit.c: edits by instruction ---- */

typedef struct lsp_edit lsp_edit;

/* replay: a file with the model's answer, or NULL.  On failure *out may be set. */
CERIUM_CHECKED int lsp_edit_open(lsp_edit **out, const options *o, const char *replay,
                                 cerium_error *err);
void lsp_edit_close(lsp_edit **edit);
/* False: it was not begun, *why says the reason. */
bool lsp_edit_start(lsp_edit *e, const lsp_edit_order *order, const char **why);
void lsp_edit_stop(lsp_edit *e);
/* Poll it for reading; -1: nothing runs. */
int lsp_edit_fd(const lsp_edit *e);
void lsp_edit_look(lsp_edit *e, lsp_server *s, bool is_readable);

#endif
