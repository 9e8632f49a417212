/* proposals.h - the proposals for places of a document, and their untyped rests.
 *
 * A proposal is text between two texts.  Typing its text shortens the rest, deleting it restores
 * the rest, and a proposal whose surroundings return (undo) fits again.  Nothing here asks a
 * model. */
#ifndef LSP_PROPOSALS_H
#define LSP_PROPOSALS_H

#include "lsp/document_text.h"

enum {
    LSP_PROPOSALS_MAX = 24,       /* kept for a document */
    LSP_PROPOSAL_BYTES_MAX = 64 << 10,
    LSP_PROPOSAL_AROUND = 1024,   /* bytes on each side that identify a place */
    LSP_PROPOSAL_CLOSERS = 4,     /* that an editor may have inserted after the caret */
};

typedef struct {
    uint32_t id;
    size_t at;             /* of the document, its beginning */
    uint64_t before, after; /* hashes of the text there */
    size_t n_before;       /* bytes of `before` */
    bytes text;
    bytes marks;           /* of lsp_mark, one a token */
    size_t asked;          /* bytes of text at the last request for more */
    size_t seed;           /* bytes of text that were given, not generated */
    bool ended;            /* the generation is over */
    bool is_cut;           /* it was ended in the middle */
    bool dry;              /* asking for more yields nothing, either */
    size_t shown_to;       /* bytes of text shown in an editor, from any place in it */
    bool has_others;       /* other candidates are known, */
    size_t others_after;   /* after so many bytes of it */
} lsp_proposal;

/* The log-probability of the text up to byte `end`. */
typedef struct {
    size_t end;
    double logprob;
} lsp_mark;

typedef struct {
    lsp_proposal list[LSP_PROPOSALS_MAX]; /* [n], the newest first */
    uint32_t n, last_id;
} lsp_proposals;

/* How a proposal fits a place. */
typedef struct {
    size_t typed;     /* bytes of it that are in the text */
    size_t n_closers; /* bytes after the place that its end also has */
} lsp_fit;

/* Begin a proposal between [.., at) with `seed` and [behind, ..); NULL without memory.  Its address
 * is valid until the next begin or drop. */
lsp_proposal *lsp_proposals_begin(lsp_proposals *all, const lsp_text *t, size_t at, size_t after,
                                  view seed);
/* The same behind another of the list, so that the other is found first; NULL also if that one is
 * not there. */
lsp_proposal *lsp_proposals_begin_behind(lsp_proposals *all, uint32_t id, const lsp_text *t,
                                         size_t at, size_t after);
/* The newest one that fits; NULL: none. */
lsp_proposal *lsp_proposals_find(lsp_proposals *all, const lsp_text *t, size_t at, lsp_fit *fit);
/* Does this one fit, regardless of newer ones? */
bool lsp_proposal_fits(const lsp_proposal *p, const lsp_text *t, size_t at, lsp_fit *fit);
lsp_proposal *lsp_proposals_by_id(lsp_proposals *all, uint32_t id);
/* The document changed: bytes [from, to) became n. */
void lsp_proposals_move(lsp_proposals *all, size_t from, size_t to, size_t n);
void lsp_proposals_drop(lsp_proposals *all, uint32_t id);
void lsp_proposals_close(lsp_proposals *all);

/* Append to it; logprob of the token that yielded the text. */
CERIUM_CHECKED int lsp_proposal_add(lsp_proposal *p, view text, double logprob);
/* Log-probability of its bytes [from, to). */
double lsp_proposal_logprob(const lsp_proposal *p, size_t from, size_t to);

#endif
