/* chat_template.h - a model's own chat template, run.  Private to this folder and its tests.
 *
 * Probes rendered when a model is opened show what a template accepts and how it closes a turn; see
 * docs/chat.md. */
#ifndef TOKENIZER_CHAT_TEMPLATE_H
#define TOKENIZER_CHAT_TEMPLATE_H

#include "template/jinja.h"
#include "tokenizer/chat_forms.h"

enum { CHAT_REFUSAL_BYTES = 320, CHAT_CALLS_BYTES = 1024, CHAT_MARK_TEXT_MAX = 64 };

struct chat_template {
    jinja_template *program;
    bool parts;          /* it requires content as a list of parts */
    bool text_arguments; /* and arguments of calls as a JSON string */
    bool tools;          /* it renders tools and calls; else cerium does so, as text */
    bool tools_always;   /* it requires an empty list if there are no tools */
    jinja_template *spoken; /* if not: tools and calls as text */
    int32_t end;         /* the special token that ends a turn, or TOKEN_NONE */
    char calls[CHAT_CALLS_BYTES];     /* how calls are written, as JSON (chat_marks.c); or "" */
    char refusal[CHAT_REFUSAL_BYTES]; /* one line: why it cannot be run; "": it can */
};

/* A conversation as text.  messages: pieces of k; generation: it ends with the assistant's opening.
 * *run is to be closed, and holds *out.  CERIUM_ERR_FORMAT with *err, CERIUM_ERR_MEMORY. */
typedef struct {
    jinja_run *run;
    jinja_output out;
    json_t **kept; /* [n_kept] owned: borrowed by values of the run */
    size_t n_kept;
    char *marks;   /* owned: names of the sampled turns */
} chat_rendering;

CERIUM_CHECKED int chat_template_text(const chat_template *c, const talk *k, bool generation,
                                      chat_rendering *out, jinja_error *err);
void chat_template_text_free(chat_rendering *r);

/* The text in place of sampled turn i, which must not occur in messages. */
enum { CHAT_MARK_BYTES = 16 };

/* Renderings of the same question with calls in the answer, and the names in them. */
typedef struct {
    view other, two, number, truth; /* f(a="v", b="w"); two calls of f(a="v"); f(a=5); f(a=true) */
    view calls, prompt, answered; /* two calls with other ids; no answer; one that is text */
    view question, answer, name, key, value, second, figure, yes;
    view arguments, ids[2];
    view end; /* text of the token that ends a turn, or empty */
    bool opens_thought;
} chat_call_probes;

/* In a mark: an id, or the number of a call. */
enum { CHAT_MARK_ANY = '\1' };

static inline json_t *mark_json(view text) { return json_stringn_nocheck(text.ptr, text.len); }

/* How calls with a tag for each argument are written; false: they have another form, or it is
 * unknown. */
bool chat_find_marks(const chat_call_probes *p, char out[CHAT_CALLS_BYTES]);
/* The same for calls whose arguments are a JSON object after a name. */
bool chat_find_json_marks(const chat_call_probes *p, char out[CHAT_CALLS_BYTES]);

#endif
