/* eval_set.h - the material of an evaluation: documents, and lines removed from them. */
#ifndef PROGRAMS_EVAL_SET_H
#define PROGRAMS_EVAL_SET_H

#include "programs/options.h"

enum { EVAL_LANGUAGES_MAX = 32, EVAL_NAME_BYTES = 24 };

typedef struct {
    char *path; /* owned; the id of a task if it is a hole */
    char *package; /* owned; the folder of its path unless named */
    char *text; /* owned, [len] */
    size_t len;
    uint32_t language;
    bool is_hole;       /* one task: text without [hole, hole_end) */
    size_t hole, hole_end;
} eval_document;

typedef struct {
    uint32_t document;
    size_t begin, end; /* of the line or its end in the text, without the line break */
} eval_task;

typedef struct {
    eval_document *documents; /* [n] */
    size_t n, cap;
    eval_task *tasks;         /* [n_tasks], by language */
    size_t n_tasks;
    char languages[EVAL_LANGUAGES_MAX][EVAL_NAME_BYTES];
    uint32_t n_languages;
    bool has_documents;       /* texts to predict, not holes alone */
} eval_set;

/* Read JSON Lines of {"path", "text"}, with "package" or without, or of {"prompt", "suffix",
 * "canonical_solution", "task_id"}, or all source files of a folder, by name.  CERIUM_ERR_FORMAT
 * names the line. */
CERIUM_CHECKED int eval_set_open(eval_set *set, const char *path, cerium_error *err);
/* Draw at most n_lines lines of each language by seed, or their ends from a place within them;
 * holes are always tasks. */
CERIUM_CHECKED int eval_set_draw(eval_set *set, uint32_t n_lines, bool within, uint64_t seed,
                                 cerium_error *err);
/* The nearest other document of its package, or NULL. */
const eval_document *eval_set_neighbour(const eval_set *set, size_t document);
void eval_set_close(eval_set *set);

#endif
