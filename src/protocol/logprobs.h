/* logprobs.h - the tokens of a text: logprobs are sent with the delta that shows their text.
 *
 * The text of an answer is the sampled text without its markup, and comes later than its tokens, so
 * tokens wait in a queue and are taken by matching bytes.  Private to protocol/. */
#ifndef PROTOCOL_LOGPROBS_H
#define PROTOCOL_LOGPROBS_H

#include "protocol/json_out.h"
#include "protocol/protocol.h"

typedef struct {
    json_out json;        /* one object a token, one after the other */
    bytes texts;           /* their bytes */
    bytes marks;           /* token_mark for each */
    size_t first;          /* the first waiting token */
    size_t part;           /* bytes of it already taken */
    size_t fed, fed_part;  /* the first token not fully seen by the reader, and its seen bytes */
    json_out taken;       /* with the newest text: comma-separated objects */
    json_out all;         /* with all text of the piece or message */
} token_queue;

typedef struct {
    size_t text_at, text_len, json_at, json_len;
} token_mark;

typedef view token_text_fn(void *user, int32_t token);

void token_queue_free(token_queue *q);
CERIUM_CHECKED int token_queue_add(token_queue *q, const protocol_token *token,
                                   token_text_fn *text_of, void *user);
/* The length of the next cut of text at which a token ends; text.len when none does. */
size_t token_queue_cut(token_queue *q, view text);
/* Take the tokens of text, dropping those before it that are not part of it.  keep: append them to
 * taken and all. */
CERIUM_CHECKED int token_queue_take(token_queue *q, view text, bool keep);
void token_queue_drop(token_queue *q);

/* The four lists of Completions instead, of which a chunk shows only the new part. */
enum { LEGACY_LISTS = 4 };

typedef struct {
    json_out lists[LEGACY_LISTS]; /* tokens, logprobs, likeliest, offsets; comma-separated */
    size_t sent[LEGACY_LISTS];     /* bytes of them */
    uint64_t offset;               /* characters so far */
} legacy_logprobs;

void legacy_free(legacy_logprobs *l);
CERIUM_CHECKED int legacy_add(legacy_logprobs *l, const protocol_token *token,
                              token_text_fn *text_of, void *user);
/* {"tokens":[...],...} of all tokens, or of the new ones. */
void legacy_put(const legacy_logprobs *l, json_out *out, bool only_new);
void legacy_sent(legacy_logprobs *l);
uint64_t count_chars(view text);

#endif
