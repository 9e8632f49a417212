/* metered.h - usage by day, tenant and model, summed when written. */
#ifndef STORE_METERED_H
#define STORE_METERED_H

#include "store/live.h"
#include "store/store.h"

/* Write records of a journal (live_peek) to the database, in one transaction that also stores the
 * journal's position.  Records before that are skipped, so writing a batch twice is harmless.
 *   end: the number after the last record */
CERIUM_CHECKED int store_usage_write(store *s, int64_t journal, const live_record *records,
                                     uint32_t n, uint64_t end, cerium_error *err);
/* The journal's position; 0: unknown. */
CERIUM_CHECKED int store_usage_sequence(store *s, int64_t journal, uint64_t *sequence,
                                        cerium_error *err);

/* Columns to group by; the others are summed. */
enum { USAGE_BY_DAY = 1, USAGE_BY_KEY = 2, USAGE_BY_MODEL = 4 };

typedef struct {
    int64_t day;       /* since 1970-01-01 */
    uint64_t tenant;
    const char *key;   /* its name; NULL: no key of the store */
    const char *tier;
    const char *model;
    uint64_t requests, input_tokens, cached_tokens, output_tokens, nanodollars;
} store_usage;

typedef struct {
    unsigned by;             /* USAGE_BY_* */
    int64_t first_day, last_day; /* both included */
    const char *key;         /* only of keys with this name, revoked ones too; NULL = of all */
    const char *model;       /* only of this model; NULL = of all */
} usage_query;

/* Calls seen() for each row, in the order day, key, model, until it returns false. */
CERIUM_CHECKED int store_usage_read(store *s, const usage_query *query,
                                    bool (*seen)(void *arg, const store_usage *row), void *arg,
                                    cerium_error *err);

#endif
