/* lsp_remote_parts.h - what the files of `cerium lsp --server` share: its connections, and the
 * answers that run.  Private to them. */
#ifndef PROGRAMS_LSP_REMOTE_PARTS_H
#define PROGRAMS_LSP_REMOTE_PARTS_H

#include <curl/curl.h>
#include <jansson.h>

#include "programs/lsp_host.h"
#include "programs/lsp_kept.h"
#include "programs/server_address.h"

enum {
    SLOTS = 8,                 /* documents with a running answer at the same time */
    NEW_TOKENS = 64,
    ANSWER_BYTES_MAX = 1 << 20,
    BEFORE_BYTES = 6 << 10, AFTER_BYTES = 2 << 10, SNIPPET_BYTES = 768,
    CONNECT_MS = 3000,
    ANSWER_MS = 60000, /* without a word: the connection is lost */
    RETRY_MS = 250, RETRY_MS_MAX = 10000,
    KEPT_MS = 5 * 60 * 1000, /* a text that rests is closed at the server */
    LSP_NAME_BYTES = 24,
};

typedef struct {
    lsp_remote *r;
    CURL *easy;          /* made at first use, and kept */
    bool runs;
    bytes body, answer;
    uint64_t document, serial, used, used_ns;
    uint32_t n_tokens;   /* used by this order */
    uint32_t n_candidates; /* above 0: it asks for so many texts at once */
    bool is_line;        /* one line each */
    double confidence;
    bytes before, after; /* of the order; before grows by the received lines */
    json_t *files;       /* of the order, as input_extra, or changes; NULL: none */
    char path[256];
    lsp_kept kept;       /* before and after at the server */
    char id[32];         /* of the completion over the socket */
    bool is_sent;        /* it runs, since or with its newest event at: */
    uint64_t heard_at_ns;
    bool was_refused;    /* for a text that the server did not have */
} transfer_slot;

struct lsp_remote {
    CURLM *multi;
    struct curl_slist *headers;
    char url[SERVER_ADDRESS_BYTES], why[512], model[256];
    double confidence;      /* from the model's file, and its pointer: 0 where unknown */
    double pointer;
    lsp_pace pace;
    transfer_slot slots[SLOTS], hello; /* hello: checks whether the server is up */
    lsp_server *server;     /* while messages are read */
    lsp_socket *socket;     /* NULL: none, or it is lost */
    void (*message)(void *user, view text); /* that came over it */
    transfer_slot opening;  /* marks its handle */
    uint64_t silence_ns;    /* the most of it, while something runs */
    uint64_t idle_ns;       /* until a text is closed */
    bool has_none;          /* the server does not keep texts: POST serves */
    uint64_t n_asked;
    transfer_slot edits;    /* one prediction of edits at a time, and its whole file */
    bytes original;         /* as it was opened; empty: unknown */
    lsp_kept opened;        /* the same at the server */
    bool predicts;          /* the model has a form for edits, as far as known */
    uint64_t n_used, retry_at_ns;
    uint32_t retry_ms;
    bool is_there, is_news, is_refused; /* refused: another key is needed */
};

/* ---- lsp_transfer.c ---- */

/* Begin or end a request of a slot by HTTP; ending also cancels it at the socket. */
bool lsp_transfer_begin(lsp_remote *r, transfer_slot *t, const char *route);
void lsp_transfer_end(transfer_slot *t);
/* Its texts, for one that does not run. */
void lsp_transfer_free(transfer_slot *t);
/* Open the WebSocket if there is none and there may be one. */
void lsp_remote_open_socket(lsp_remote *r);
/* By which the server knows the text of a slot. */
void lsp_remote_name(const lsp_remote *r, const transfer_slot *t, char out[LSP_NAME_BYTES]);
/* There is no server for now: it is asked for its models again, later. */
void lsp_remote_lose(lsp_remote *r, const char *why);

/* ---- lsp_remote_socket.c ---- */

/* A text that came, for user: an lsp_remote. */
void lsp_remote_message(void *user, view text);
/* When there is something to do if nothing comes; UINT64_MAX: never. */
uint64_t lsp_remote_due(const lsp_remote *r);
/* Read and write it; close the texts that rest. */
void lsp_remote_look_at_socket(lsp_remote *r, lsp_server *s);

/* ---- lsp_remote_lines.c ---- */

/* Ask for the next line of the slot's order; false: it cannot be. */
bool lsp_remote_ask_line(lsp_remote *r, transfer_slot *t);
void lsp_remote_line_done(lsp_remote *r, transfer_slot *t, lsp_server *s, const json_t *done);
void lsp_remote_line_ended(transfer_slot *t, lsp_server *s, lsp_end how);
void lsp_remote_line_answered(lsp_remote *r, transfer_slot *t, lsp_server *s, CURLcode code,
                              long status);

/* ---- lsp_remote_candidates.c ---- */

/* Rows to ask for, for so many different texts. */
uint32_t lsp_remote_rows(uint32_t n_candidates);
/* What a request of the slot has beside that of a line, if it is of candidates. */
void lsp_remote_ask_candidates(const transfer_slot *t, json_t *request);
/* Texts of an order of candidates: the first, and those that the answer has beside it. */
void lsp_remote_candidates_done(transfer_slot *t, lsp_server *s, view first, bool is_cut,
                                const json_t *answer);

/* ---- lsp_remote_edits.c ---- */

/* Ask for the edits of r->edits; false: it cannot be. */
bool lsp_remote_ask_edit(lsp_remote *r);
/* answer: NULL: there is none. */
void lsp_remote_edits_read(lsp_remote *r, lsp_server *s, const json_t *answer, long status);
void lsp_remote_edits_answered(lsp_remote *r, lsp_server *s, CURLcode code, long status);

#endif
