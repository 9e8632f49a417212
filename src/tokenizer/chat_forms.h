/* chat_forms.h - shared by the renderers of the chat forms.  Private to this folder.
 *
 * A talk is a list of pieces.  Renderers process it turn by turn: consecutive pieces of the
 * assistant are one turn, and so are consecutive results of tools. */
#ifndef TOKENIZER_CHAT_FORMS_H
#define TOKENIZER_CHAT_FORMS_H

#include <jansson.h>

#include "tokenizer/chat.h"
#include "tokenizer/prompt.h"

typedef enum {
    PIECE_SYSTEM,  /* and a developer's */
    PIECE_USER,
    PIECE_CONTENT, /* of the assistant: its text, */
    PIECE_THOUGHT, /* thought */
    PIECE_CALL,    /* and called */
    PIECE_SAMPLED, /* a whole turn of the assistant as tokens */
    PIECE_RESULT,  /* the result of a call */
} piece_kind;

typedef struct {
    piece_kind kind;
    view content, name, id;
    const int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
} piece;

typedef struct {
    const char *name;
    bool free_text; /* takes unescaped text: shown as an object with one string, "input" */
    json_t *spec;   /* {"type": "function", "function": {...}}; NULL: tools are not rendered */
} chat_tool;

typedef struct {
    prompt *p;
    const chat_form *form;
    const piece *list; /* [n] */
    size_t n;
    const chat_tool *tools; /* [n_tools] */
    size_t n_tools;
    bool says_tools;        /* there are tools, and this is the place for them */
    bool continues, open;
    const int32_t *after;   /* [n_after] the timeline to continue */
    size_t n_after;
    size_t *n_head;         /* or NULL: see chat_head_ends() */
    const json_t *variables; /* an object: the template's variables beside messages; or NULL */
} talk;

/* ---- chat.c ---- */

/* Without ASCII white space at both ends. */
view chat_trim(view text);
/* One past the last piece of the turn that begins with piece i. */
size_t chat_turn_end(const talk *k, size_t i);
/* The text so far is the head of the conversation: another one could replace it. */
void chat_head_ends(const talk *k);
/* Tokens of a sampled turn, on their own: no neighbouring text is encoded together with them. */
void chat_sampled(const talk *k, const piece *one);
/* Whether a timeline ends with scaffold. */
bool chat_ends(const tokenizer *t, const int32_t *tokens, size_t n, const char *scaffold);
/* The missing part of the scaffold end + rest, after the turn of the assistant that tokens end
 * with. */
void chat_close(const talk *k, const int32_t *tokens, size_t n, const char *end, const char *rest);

/* ---- chat_json.c ---- */

/* Text as a JSON string, invalid UTF-8 replaced; NULL without memory. */
json_t *chat_json_string(view text);
/* Text that is JSON; NULL: it is not, or without memory (*status has the reason). */
json_t *chat_json_parse(view text, int *status);
/* The specification of a tool; NULL and *status likewise. */
json_t *chat_tool_spec(const cerium_tool *tool, int *status);
/* As Python's json.dumps(ensure_ascii=False, indent) writes it; indent 0 = one line. */
void chat_json(prompt *p, const json_t *value, size_t indent);
/* Arguments of a call as one JSON value: {"input": text} for tools that take free text. */
void chat_arguments(const talk *k, const piece *call);
/* The same as a tree; NULL: they are not an object.  Returns owned. */
json_t *chat_arguments_object(const talk *k, const piece *call);

/* ---- chat_hermes.c: tools in the form of most families ---- */

void chat_hermes_tools(const talk *k);
void chat_hermes_call(const talk *k, const piece *call);

/* ---- chat_xml.c: tools in the form of Qwen3-Coder and Qwen3.5 ---- */

void chat_xml_tools(const talk *k);  /* each as XML: Qwen3-Coder */
void chat_xml_tools_json(const talk *k); /* each as JSON: Qwen3.5 */
void chat_xml_call(const talk *k, const piece *call);

/* ---- one renderer for each family ---- */

void chat_render_chatml(const talk *k);
void chat_render_turns(const talk *k);
void chat_render_inst(const talk *k);
void chat_render_harmony(const talk *k);
/* By the template of the form. */
void chat_render_template(const talk *k);
/* Does it have a variable of this name? */
bool chat_template_uses(const chat_template *c, const char *name);

#endif
