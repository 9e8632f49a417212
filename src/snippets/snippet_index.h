/* snippet_index.h - the identifiers of a workspace's files, and a search for the lines that are
 * most relevant to the place of the caret.
 *
 * A file is cut into units of a few lines.  A search weighs the identifiers around the place by
 * their rarity and distance (BM25), and takes lines with words that the place does not show
 * already: definitions of names used there, and lines like those around it.  It reads no file and
 * has no thread. */
#ifndef SNIPPETS_SNIPPET_INDEX_H
#define SNIPPETS_SNIPPET_INDEX_H

#include "base/memory.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

enum {
    SNIPPETS_FILE_BYTES_MAX = 64 << 10, /* a longer one is data, or generated */
    SNIPPETS_FILES_MAX = 4096,
    SNIPPETS_BYTES_MAX = 16 << 20,      /* of all files; there are as many terms as bytes at most */
    SNIPPETS_MAX = 3,                   /* in a search */
};

/* A file's text and terms.  Immutable, so any thread may make one. */
typedef struct snippet_file snippet_file;

/* path: from the root of the workspace.  CERIUM_ERR_CAPACITY: it is too long, or not text;
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int snippet_file_open(snippet_file **out, view path, view text);
void snippet_file_close(snippet_file **file);

typedef struct {
    snippet_file *list[SNIPPETS_FILES_MAX]; /* [n] */
    uint32_t n;
    size_t n_bytes;
} snippet_index;

/* Takes the file, and replaces the one with its path; is_open: the user works on it.
 * CERIUM_ERR_CAPACITY: there is no room for it. */
CERIUM_CHECKED int snippet_index_put(snippet_index *x, snippet_file *file, bool is_open);
void snippet_index_drop(snippet_index *x, view path);
void snippet_index_close(snippet_index *x);

/* The place of the caret: borrowed. */
typedef struct {
    view path;          /* the file's own; it is not searched */
    view before, after; /* text that the model sees anyway */
    size_t bytes_max;   /* of all snippets */
    bool only_alike;    /* do not search definitions of names used here */
} snippet_query;

/* The result; owned. */
typedef struct {
    bytes text;
    cerium_context_file files[SNIPPETS_MAX]; /* [n], the best last: nearest to the place */
    double scores[SNIPPETS_MAX];
    uint32_t lines[SNIPPETS_MAX]; /* of the file, from 1, of the beginning; 0: definitions from
                                     several places */
    uint32_t n;
} snippets;

CERIUM_CHECKED int snippets_find(const snippet_index *x, const snippet_query *q, snippets *out);
void snippets_close(snippets *s);

/* ---- for the files of snippets/, and for measurements ---- */

typedef struct {
    uint32_t hash;
    uint16_t unit, n; /* its count in the unit */
} snippet_term;

typedef struct {
    uint32_t from, to; /* whole lines of the text */
    uint32_t n_terms;
} snippet_unit;

/* A line that defines a name, by the name's term. */
typedef struct {
    uint32_t hash, from, to;
} snippet_definition;

struct snippet_file {
    char *path, *text;     /* owned; the text is [n_text] */
    size_t n_text;
    bytes units;           /* snippet_unit[n_units] */
    bytes terms;           /* snippet_term[n_terms], by hash, then unit */
    bytes definitions;     /* snippet_definition[n_definitions], by hash */
    uint32_t n_units, n_terms, n_definitions;
    uint32_t stem;         /* term of its name without extension, as in imports; for a folder's own
                              file that of the folder */
    bool is_open;
};

/* Terms of a word: whole, its parts (fooBar, foo_bar: foo, bar), and its first three letters. */
enum { TERMS_OF_WORD_MAX = 12, TERM_PREFIX_BYTES = 3 };
typedef struct {
    uint32_t hash;
    bool is_part; /* weighs less than the whole */
} word_term;

uint32_t term_of_word(view word);
uint32_t term_of_prefix(view word);
/* How many; the whole word is the first. */
uint32_t terms_of_word(view word, word_term out[TERMS_OF_WORD_MAX]);

#endif
