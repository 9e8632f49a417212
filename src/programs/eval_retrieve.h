/* eval_retrieve.h - snippets of a package's other files for the holes of a set. */
#ifndef PROGRAMS_EVAL_RETRIEVE_H
#define PROGRAMS_EVAL_RETRIEVE_H

#include "programs/eval_set.h"
#include "snippets/snippet_index.h"

typedef enum {
    RETRIEVE_FOUND = 0,  /* definitions and similar lines, as editors get them */
    RETRIEVE_ALIKE = 1,  /* similar lines alone */
    RETRIEVE_RANDOM = 2, /* lines of any place: the gain of any text in front */
    RETRIEVE_ORACLE = 3, /* found with knowledge of the missing text: the upper bound */
    RETRIEVE_KINDS = 4,
} eval_retrieval;

typedef struct eval_retriever eval_retriever;

CERIUM_CHECKED int eval_retriever_open(eval_retriever **out, const eval_set *set);
void eval_retriever_close(eval_retriever **r);
/* before, after: as much of both sides as the model sees. */
CERIUM_CHECKED int eval_retrieve(eval_retriever *r, const eval_task *t, view before, view after,
                                 eval_retrieval kind, size_t bytes_max, uint64_t seed,
                                 snippets *out);
/* Does the missing text have a name that the rest of its file lacks and other files of its package
 * have?  No other hole can gain names. */
bool eval_names_others(const eval_set *set, const eval_task *t);

#endif
