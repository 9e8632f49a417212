/* lsp_parts.h - shared by the files of the language server.  Private to lsp/. */
#ifndef LSP_LSP_PARTS_H
#define LSP_LSP_PARTS_H

#include <jansson.h>

#include "guard/tree_memory.h"
#include "lsp/edit_history.h"
#include "lsp/ghost_item.h"
#include "lsp/lsp_server.h"
#include "protocol/infill_stop.h"
#include "snippets/snippet_index.h"

enum {
    LSP_PARSE_ERROR = -32700, LSP_INVALID_REQUEST = -32600, LSP_METHOD_NOT_FOUND = -32601,
    LSP_INVALID_PARAMS = -32602, LSP_INTERNAL_ERROR = -32603, LSP_NOT_INITIALIZED = -32002,
    LSP_REQUEST_CANCELLED = -32800, LSP_SERVER_CANCELLED = -32802, LSP_REQUEST_FAILED = -32803,
};

#define LSP_MS UINT64_C(1000000)

enum { LSP_ROOTS_MAX = 16 };

/* The user's settings: docs/editors.md. */
typedef struct {
    bool enable, next_edit, feedback, status;
    enum { LSP_AUTO = 0, LSP_ON = 1, LSP_OFF = 2 } retrieval; /* AUTO: as the model asks */
    json_t *languages; /* {id: bool}, or NULL */
    json_t *exclude;   /* globs, or NULL */
    uint32_t lines_max, delay_ms;
    uint32_t candidates; /* of an answer to a user who asks */
    bool always_several; /* and of others */
    double confidence; /* below 0: the model's own */
    bool watchdog;     /* findings are reported */
} lsp_settings;

/* An inline completion for which an editor waits. */
typedef struct {
    json_t *id; /* NULL: none */
    size_t at;  /* place in the text */
    uint64_t asked_ns, not_before_ns;
    bool invoked, selected;
    lsp_place place; /* of `at`; a change of the text ends the question */
    size_t from; /* selected: the item's range is [from, at), and it begins with */
    bytes text;
    bool waited; /* its times have passed: only new text answers it */
    uint32_t n_max; /* candidates that it wants */
    uint64_t others_until_ns; /* it waits for others until then; 0: not */
    bool asked_others; /* once is enough */
} lsp_question;

typedef struct lsp_document {
    char *uri, *path, *language_id; /* owned; path: the file's name, for people and models */
    guard_language language;
    uint64_t key;
    int64_t version;
    lsp_text text;
    bool has_cr;      /* its lines end with CR LF */
    bool is_file, is_minified;
    uint32_t n_unmeasured; /* changes since is_minified was computed */

    lsp_proposals proposals;
    uint64_t serial;  /* of the running order; 0: none */
    uint32_t running; /* its proposal; 0: a warm-up, or candidates */
    struct {
        bool runs;          /* `serial` is an order of candidates */
        uint32_t of;        /* beside this proposal, */
        size_t at, n_after; /* between these places */
    } others;
    infill_stop stop;
    bytes after;      /* the sent text after the running order's place */
    double logprob;   /* of text that `stop` holds back */
    uint32_t n_lines;
    lsp_question question;
    uint64_t hot_until_ns, warm_at_ns;
    size_t caret;     /* its last known place */

    struct {
        uint32_t id;         /* of the proposal that the editor shows; 0: none */
        size_t from, to;     /* bytes of it that were shown */
        size_t typed, taken; /* bytes of it in the text; of these, those that arrived at once */
        uint64_t at_ns;
        double probability;
    } seen;
    struct {
        uint32_t ids[LSP_CANDIDATES_MAX]; /* [n] proposals of the last answer with several; 0: no
                                             longer possible */
        size_t ends[LSP_CANDIDATES_MAX], typed[LSP_CANDIDATES_MAX]; /* bytes of each */
        uint32_t n;
        bool taken;         /* text arrived at once */
    } offered;

    uint64_t changed_ns;
    uint32_t typed_line;   /* unfinished until then: */
    uint64_t typed_until_ns;
    bytes findings;        /* of lsp_judged */
    int64_t judged_version, sent_version;
    bool is_judged, is_judging;
    uint64_t judge_at_ns;
    json_t *pull;          /* id of a waiting textDocument/diagnostic */
    char *previous;        /* and its previousResultId */

    int64_t kept_version;  /* of the text used for snippets; INT64_MIN: none */
    snippets found;        /* lines of other files, before the prompts of this one */
    uint32_t found_line;   /* of the place that they were chosen for */
    bool was_found, found_is_old;

    edit_history history;
    uint64_t look_at_ns;   /* for other places of the last edit; 0: not, or done */
    bytes original;        /* the text when it was opened; empty if too large */
    struct {
        json_t *id;        /* of the copilotInlineEdit that waits for a model; NULL: none */
        uint64_t serial;
    } prediction;
} lsp_document;

typedef struct {
    uint64_t requests, answers, shown, superseded, canceled;
    uint64_t accepted, accepted_characters, partly_accepted, generated, next_edits;
} lsp_counts;

typedef struct other_places other_places;

struct lsp_server {
    lsp_host host;
    bool is_initialized, is_greeted, is_shut, is_over;
    int64_t parent;
    lsp_encoding encoding;
    struct {
        bool pulls, refreshes, applies, changes, progress, configuration, registers, versions;
        bool shows; /* a place of a document, on request */
    } can;
    lsp_settings settings;
    lsp_model model;
    char model_name[256], model_why[512];
    bool reported_failure;
    lsp_document *documents[LSP_DOCUMENTS_MAX];
    uint32_t n_documents;
    uint64_t last_key, last_serial, last_id;
    uint64_t snoozed_until_ns;
    uint64_t configuration_id; /* of our own request; 0: none */
    lsp_counts counts;
    snippet_index files;
    char *roots[LSP_ROOTS_MAX]; /* [n_roots] owned: of the workspace, without '/' at their ends */
    uint32_t n_roots;
    tree_memory parser; /* for names and their scopes */
    bool has_parser;
    other_places *places; /* owned: of the last edit that was looked at; or NULL */
    bool asks_next; /* the editor has asked for next edits */
    struct {
        uint64_t serial, document, apply_id;
        int64_t version;
        json_t *id;    /* of the waiting executeCommand */
        size_t from, to; /* of the comment to remove */
        bool has_progress;
        bytes before;  /* the sent text */
    } edit;
};

/* ---- lsp_out.c: messages to the editor.  Values are taken, also on failure. ---- */
void lsp_answer(lsp_server *s, json_t *id, json_t *result);
void lsp_answer_error(lsp_server *s, json_t *id, int code, const char *message);
void lsp_notify(lsp_server *s, const char *method, json_t *params);
/* Returns the request's id. */
uint64_t lsp_request(lsp_server *s, const char *method, json_t *params);
/* type: 1 error, 2 warning, 3 info. */
void lsp_show(lsp_server *s, int type, const char *text);
void lsp_log(lsp_server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- lsp_json.c: reading and writing of the protocol's values ---- */
json_t *lsp_json_range(const lsp_server *s, const lsp_document *d, size_t from, size_t to);
json_t *lsp_json_text(view text);
/* Append text with the file's line ends. */
CERIUM_CHECKED int lsp_put_lines(bytes *out, const lsp_document *d, view text);
/* A change of a document by edits of its text, which it takes. */
json_t *lsp_workspace_edit(const lsp_server *s, const lsp_document *d, json_t *edits);
bool lsp_read_position(const lsp_server *s, const lsp_document *d, const json_t *from,
                       size_t *out);
bool lsp_read_range(const lsp_server *s, const lsp_document *d, const json_t *range, size_t *from,
                    size_t *to);
view lsp_read_string(const json_t *object, const char *key);
/* Remove an unfinished character from the end of a text that was cut. */
void lsp_whole_characters(char *text);
/* "file:///a%20b" is /a b; for other schemes the text after the scheme.  Returns owned, or NULL. */
char *lsp_path_of(view uri, bool *is_file);
/* The document of params.textDocument.uri, or by key or uri; NULL: it is not open. */
lsp_document *lsp_document_of(lsp_server *s, const json_t *params);
lsp_document *lsp_document_by_key(lsp_server *s, uint64_t key);
lsp_document *lsp_document_by_uri(lsp_server *s, view uri);

/* ---- lsp_documents.c ---- */
void lsp_did_open(lsp_server *s, const json_t *params, uint64_t now);
void lsp_did_change(lsp_server *s, const json_t *params, uint64_t now);
void lsp_did_close(lsp_server *s, const json_t *params);
void lsp_documents_close(lsp_server *s);

/* ---- lsp_snippets.c: lines of other files ---- */
void lsp_snippets_add_root(lsp_server *s, view uri);
void lsp_snippets_folders(lsp_server *s, const json_t *params);
/* Ask the host for the files that changed in the folders. */
void lsp_snippets_read(lsp_server *s);
void lsp_snippets_close(lsp_server *s);
/* The document is closed: its text stays known. */
void lsp_snippets_leave(lsp_server *s, lsp_document *d);
/* It changed again, so long after the last change. */
void lsp_snippets_paused(lsp_document *d, uint64_t since_ns);
/* Bytes of a prompt for lines of other files; 0: none. */
size_t lsp_snippets_bytes(const lsp_server *s);
/* Choose d->found for a place; before, after: as much text as the model sees around it. */
void lsp_snippets_choose(lsp_server *s, lsp_document *d, size_t at, view before, view after);

/* ---- lsp_completion.c ---- */
void lsp_inline_completion(lsp_server *s, json_t *id, const json_t *params, uint64_t now);
/* The document changed: bytes [from, to) became n, and the caret is after them.  After all changes
 * of a message call lsp_follow(). */
void lsp_completion_moved(lsp_document *d, size_t from, size_t to, size_t n);
void lsp_follow(lsp_server *s, lsp_document *d, uint64_t now);
void lsp_caret_rests(lsp_server *s, lsp_document *d, size_t at, uint64_t now);
/* Answer a waiting question with null. */
void lsp_completion_supersede(lsp_server *s, lsp_document *d);
void lsp_completion_drop(lsp_server *s, lsp_document *d);
bool lsp_completion_cancel(lsp_server *s, const json_t *id);
uint64_t lsp_completion_due(const lsp_document *d);
void lsp_completion_tick(lsp_server *s, lsp_document *d, uint64_t now);

/* ---- lsp_orders.c: what a model is to generate ---- */

/* What to generate: after [.., at) and before [n_after, ..) of a document. */
typedef struct {
    size_t at, n_after;
    uint32_t n_candidates; /* several, for no proposal; 0: not */
    bool is_line;          /* of these: one line each */
} lsp_aim;

/* p: the proposal to continue; NULL: candidates, or a warm-up of the place.  False: there is no
 * model. */
bool lsp_generate(lsp_server *s, lsp_document *d, lsp_proposal *p, const lsp_aim *aim);
/* The same for a new proposal of the place, with its beginning. */
bool lsp_generate_new(lsp_server *s, lsp_document *d, size_t at, size_t n_after, view seed);
/* Ask for more if little is left of a fitting proposal.  False: nothing runs for it. */
bool lsp_generate_more(lsp_server *s, lsp_document *d, lsp_proposal *p, lsp_fit fit, size_t at);
void lsp_generate_stop(lsp_server *s, lsp_document *d);
/* It ended by itself: frees what it held. */
void lsp_generate_end(lsp_document *d);
bool lsp_is_silenced(const lsp_server *s, const lsp_document *d, uint64_t now);
lsp_place lsp_place_of(const lsp_document *d, size_t at, bool is_invoked);

/* ---- lsp_answer.c: questions and their answers ---- */
enum {
    LSP_HOT_MS = 10000, /* for this long after a question a change starts a generation by itself */
    LSP_WAIT_MS = 150,
};
/* Answers the document's question if that is possible now. */
void lsp_try_answer(lsp_server *s, lsp_document *d, uint64_t now);


/* ---- lsp_candidates.c: several answers to one question ---- */
/* The first one is known: true if others have begun to be made, and the answer waits. */
bool lsp_candidates_wait(lsp_server *s, lsp_document *d, lsp_proposal *p, lsp_fit fit,
                         lsp_item first, uint64_t now);

/* A candidate of an answer. */
typedef struct {
    lsp_proposal *p;
    lsp_fit fit;
    lsp_item item;
} lsp_offer;

/* Are others of this proposal made, from that place on? */
bool lsp_candidates_run(const lsp_document *d, const lsp_proposal *p, size_t at);
/* How much of it to show at the document's question. */
lsp_item lsp_item_at(const lsp_document *d, const lsp_proposal *p, lsp_fit fit,
                     const lsp_place *place, const lsp_item_limits *limits);
/* The host made them: they are kept behind the first. */
void lsp_candidates_keep(lsp_server *s, lsp_document *d, const lsp_candidate *list, size_t n);
/* Others than the first, out[0], which fit and differ from all before: returns how many there are
 * with it. */
uint32_t lsp_candidates_find(const lsp_server *s, lsp_document *d, lsp_offer *out);

/* ---- lsp_feedback.c: the outcomes of shown proposals ---- */
/* Bytes [from, to) of a proposal were sent as the answer to the document's question. */
void lsp_feedback_shown(lsp_document *d, const lsp_proposal *p, size_t from, size_t to,
                        uint64_t now);
/* Several were offered: out[0] is the first. */
void lsp_feedback_offered(lsp_document *d, const lsp_offer *all, uint32_t n);
void lsp_feedback_changed(lsp_server *s, lsp_document *d, uint64_t now);
/* The least probability of what is shown unasked. */
double lsp_feedback_confidence(const lsp_server *s, const lsp_document *d);

/* ---- lsp_diagnostics.c ---- */
void lsp_diagnostics_changed(lsp_server *s, lsp_document *d, uint64_t now);
void lsp_diagnostics_pull(lsp_server *s, json_t *id, const json_t *params, uint64_t now);
bool lsp_diagnostics_cancel(lsp_server *s, const json_t *id);
uint64_t lsp_diagnostics_due(const lsp_document *d);
void lsp_diagnostics_tick(lsp_server *s, lsp_document *d, uint64_t now);
void lsp_diagnostics_close(lsp_server *s, lsp_document *d);
json_t *lsp_diagnostic_of(const lsp_server *s, const lsp_document *d, const lsp_judged *f);

/* ---- lsp_actions.c ---- */
void lsp_code_actions(lsp_server *s, json_t *id, const json_t *params, uint64_t now);
void lsp_execute_command(lsp_server *s, json_t *id, const json_t *params, uint64_t now);

/* ---- lsp_instruction.c: edits by instruction ---- */
/* The instruction of a comment `cerium: ...` on the line of `at`; *from, *to: the line. */
bool lsp_instruction_at(const lsp_document *d, size_t at, view *instruction, size_t *from,
                        size_t *to);
void lsp_edit_begin(lsp_server *s, json_t *id, lsp_document *d, size_t at, view instruction,
                    uint64_t now);
bool lsp_edit_cancel(lsp_server *s, const json_t *id);
void lsp_edit_applied(lsp_server *s, const json_t *answer);

/* ---- lsp_prediction.c: next edits by a model ---- */
/* False: no model is asked, and the caller must answer the question. */
bool lsp_predict(lsp_server *s, lsp_document *d, json_t *id, size_t caret);
/* Answer a waiting question with no edit. */
void lsp_prediction_drop(lsp_server *s, lsp_document *d);
bool lsp_prediction_cancel(lsp_server *s, const json_t *id);

/* ---- lsp_next_edit.c ---- */
/* The document changed: its next places are looked for when it rests, before the editor asks. */
void lsp_next_edit_changed(const lsp_server *s, lsp_document *d, uint64_t now);
void lsp_next_edit_tick(lsp_server *s, lsp_document *d, uint64_t now);
void lsp_next_edit_close(lsp_server *s);
/* An edit for copilotInlineEdit: bytes [from, to) become the text, which is taken, of n bytes. */
json_t *lsp_next_edit_json(lsp_server *s, const lsp_document *d, size_t from, size_t to,
                           json_t *text, size_t n);
void lsp_inline_edit(lsp_server *s, json_t *id, const json_t *params, uint64_t now);
void lsp_next_edit_actions(lsp_server *s, lsp_document *d, size_t at, uint64_t now, json_t *list);
/* The editor goes to the next place; the answer is its range, or null. */
void lsp_next_edit_go(lsp_server *s, json_t *id, lsp_document *d, size_t at, uint64_t now);

/* ---- lsp_settings.c ---- */
void lsp_settings_begin(lsp_settings *set);
void lsp_settings_read(lsp_server *s, const json_t *from);
void lsp_settings_close(lsp_settings *set);
bool lsp_settings_exclude(const lsp_settings *set, const char *path);
bool lsp_settings_allow(const lsp_settings *set, const lsp_document *d);

#endif
