/* proposals.h - what was proposed for places of a document, and what of it is left.
 *
 * A proposal is text between two texts.  Typing what it says takes from it, going back gives it
 * back, and one whose surroundings come back (undo) fits again.  Nothing here asks a model. */
#ifndef LSP_PROPOSALS_H
#define LSP_PROPOSALS_H

#include "lsp/document_text.h"

enum {
    LSP_PROPOSALS_MAX = 24,       /* kept of a document */
    LSP_PROPOSAL_BYTES_MAX = 64 << 10,
    LSP_PROPOSAL_AROUND = 1024,   /* bytes on each side by which a place is known again */
    LSP_PROPOSAL_CLOSERS = 4,     /* that an editor may have put in after the caret */
};

typedef struct {
    uint32_t id;
    size_t at;             /* of the document, where it begins */
    uint64_t before, after; /* hashes of what is there */
    size_t n_before;       /* bytes of `before` */
    bytes text;
    bytes marks;           /* of lsp_mark, one a token */
    size_t asked;          /* bytes of text when more was asked for last */
    size_t seed;           /* bytes of text that were given, not made */
    bool ended;            /* nothing more comes by itself */
    bool is_cut;           /* it was ended in the middle of something */
    bool dry;              /* nor when it is asked for */
    size_t shown_to;       /* bytes of text that an editor has, from any place in it */
} lsp_proposal;

/* Up to byte `end` of the text, its log-probability is that. */
typedef struct {
    size_t end;
    double logprob;
} lsp_mark;

typedef struct {
    lsp_proposal list[LSP_PROPOSALS_MAX]; /* [n], the newest first */
    uint32_t n, last_id;
} lsp_proposals;

/* Where a proposal is at a place. */
typedef struct {
    size_t typed;     /* bytes of it that are there */
    size_t n_closers; /* bytes after the place that its end brings, too */
} lsp_fit;

/* A new one for the text between [.., at) with `seed` and [after, ..); NULL without memory.  It
 * stays where it is until the next begin or drop. */
lsp_proposal *lsp_proposals_begin(lsp_proposals *all, const lsp_text *t, size_t at, size_t behind,
                                  view seed);
/* The newest that fits; NULL: none. */
lsp_proposal *lsp_proposals_find(lsp_proposals *all, const lsp_text *t, size_t at, lsp_fit *fit);
/* Does this one fit, newer ones or not? */
bool lsp_proposal_fits(const lsp_proposal *p, const lsp_text *t, size_t at, lsp_fit *fit);
lsp_proposal *lsp_proposals_by_id(lsp_proposals *all, uint32_t id);
/* The document changed: bytes [from, to) became n. */
void lsp_proposals_move(lsp_proposals *all, size_t from, size_t to, size_t n);
void lsp_proposals_drop(lsp_proposals *all, uint32_t id);
void lsp_proposals_close(lsp_proposals *all);

/* More of it; logprob of the token that brought it. */
CERIUM_CHECKED int lsp_proposal_add(lsp_proposal *p, view text, double logprob);
/* Log-probability of its bytes [from, to). */
double lsp_proposal_logprob(const lsp_proposal *p, size_t from, size_t to);

#endif
