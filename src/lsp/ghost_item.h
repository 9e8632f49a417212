/* ghost_item.h - the part of a proposal to show at a place: whole lines, whose brackets fit the
 * text around them. */
#ifndef LSP_GHOST_ITEM_H
#define LSP_GHOST_ITEM_H

#include "lsp/hole_place.h"
#include "lsp/proposals.h"

typedef struct {
    size_t len;      /* bytes of the proposal, from fit.typed on; 0: nothing to show */
    size_t replaces; /* bytes after the caret that it contains itself */
    bool is_whole;   /* the rest of the proposal would not make it longer */
} lsp_item;

typedef struct {
    uint32_t lines_max;
    double logprob_min;  /* lines less likely than that are not shown: log of min_confidence */
    bool takes_lines;    /* waited long enough: show complete lines without the rest */
} lsp_item_limits;

/* before: the text before the caret on its line. */
lsp_item lsp_item_of(const lsp_proposal *p, lsp_fit fit, const lsp_place *place, view before,
                     const lsp_item_limits *limits);

#endif
