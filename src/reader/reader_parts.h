/* reader_parts.h - the inside of a reader: a state machine that takes one byte at a time, so that
 * the place of cuts does not matter, and gathers its output.  Private to the reader. */
#ifndef READER_PARTS_H
#define READER_PARTS_H

#include <jansson.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"
#include "reader/call_marks.h"
#include "reader/reader_json.h"

/* The states of the machine.  A state's function returns whether it took the byte; if not, the byte
 * goes to the new current state. */
typedef bool reader_state(cerium_reader *r, char c);

typedef struct {
    const char *name;
    void (*begin)(cerium_reader *r); /* sets the first state */
    const char *call_end;     /* reader.call_end */
    bool space;               /* an answer begins with one, which is not put out */
    bool thinks;              /* an answer may begin with <think> */
    bool tags;                /* calls in <tool_call>, as JSON or as <function=...> */
    bool bare_functions;      /* <function=...> without <tool_call> is one, too */
    bool inst;                /* [TOOL_CALLS] and [THINK] */
    bool bare_json;           /* calls are JSON at the beginning of a line */
} reader_form;

enum { READER_RUN_BYTES = 4096, READER_WINDOW_BYTES = CALL_MARK_BYTES_MAX };

/* The text after a call that is an object depends on the object's container. */
typedef enum { IN_TAG, IN_LIST, IN_LINE } object_context;

typedef enum { ARGS_FIRST, ARGS_RAW, ARGS_TEXT, ARGS_SEARCH, ARGS_REST,
               ARGS_BROKEN } arguments_mode;

struct cerium_reader {
    const reader_form *form;
    call_marks marks;         /* of a template's own way; open is NULL for families */
    const char *call_end;     /* the mark that ends a call whose arguments are broken, or NULL: the
                                 answer */
    void (*after_broken)(cerium_reader *r); /* the text that may follow it, or NULL: text */
    const cerium_tool *tools; /* [n_tools] */
    size_t n_tools;
    reader_state *state;

    /* Giving out. */
    cerium_part_fn *fn; /* during a call */
    void *user;
    int status;    /* the first error */
    cerium_part_kind run_kind;
    size_t run_len;
    char run[READER_RUN_BYTES];

    /* Text and thoughts: line feeds next to calls and thoughts are dropped. */
    size_t newlines;  /* that wait for the next byte */
    bool drops_space; /* the first byte, if it is one */
    bool fresh;       /* no text since the answer began, a thought or a call */
    bool at_start;    /* only white space yet */
    bool line_start;  /* of the text, white space aside */
    bool has_message; /* Harmony: a message was */
    bool separates;   /* there was text, and the next text is another message */
    const char *const *stops; /* [n_stops] */
    uint32_t n_stops;
    stop_state stop;
    const char *stopped_by; /* one of them was found, and all later output is dropped */
    bool whole;             /* the model ended the answer */
    bool cut;               /* the end cut a call off */
    char window[READER_WINDOW_BYTES]; /* may be the beginning of a mark */
    size_t n_window;

    /* A call. */
    bytes held;       /* its bytes, while it is not certain to be one */
    size_t n_name;
    char name[READER_NAME_BYTES_MAX];
    const cerium_tool *tool; /* the called one, or NULL: unknown */
    object_context place;
    json_scan scan;   /* of a value */
    json_text text;   /* of a string */
    size_t n_key;
    char key[READER_NAME_BYTES_MAX];
    size_t early, early_end; /* arguments that came before the name, in held; 0 = none */
    arguments_mode mode;
    size_t n_ahead;
    char ahead[READER_WINDOW_BYTES]; /* beginning of the arguments of a tool that takes text */
    bool colon;         /* after a key */
    bool has_arguments; /* the object's */
    bool has_others;    /* members that calls do not have */
    bool closing;       /* only the closing of the call's place is missing */
    bool called;        /* the call was put out, but not its end */

    /* In the form of a template. */
    const char *fits, *fits_end; /* the rest of possible marks, or NULL */
    size_t n_id;                 /* bytes of an id in them */

    /* XML. */
    json_t *schema;   /* owned: of the called tool, or NULL */
    unsigned types;   /* that a parameter may have */
    bool value_first; /* none of its bytes yet */
    size_t n_parameters;
    bytes value;      /* of a parameter that is not text */
};

/* ---- reader.c ---- */

void reader_put(cerium_reader *r, cerium_part_kind kind, const char *text, size_t len);
void reader_say(cerium_reader *r, char c);
void reader_think(cerium_reader *r, char c);
/* The tool with the name that was read, or NULL. */
const cerium_tool *reader_find_tool(const cerium_reader *r);
/* Put out a call: names come first. */
void reader_call(cerium_reader *r);
void reader_call_end(cerium_reader *r);
/* Keep a byte of a possible call; false: there is no more room, so it is not one. */
bool reader_hold(cerium_reader *r, char c);
/* The kept bytes are not a call: put them out as text. */
void reader_give_up(cerium_reader *r);
/* Put out text that could have begun a stop string: something else follows. */
void reader_say_held(cerium_reader *r);
/* Looks for marks: -1 none may begin here (the window's first byte is in *out), -2 wait, else the
 * mark that the window is. */
int reader_mark(cerium_reader *r, const char *const *marks, size_t n, char *out);
/* Text continues after a call. */
void reader_after_call(cerium_reader *r);

/* ---- reader_object.c: {"name": ..., "arguments": ...} ---- */

/* The byte { was taken. */
void reader_object_begin(cerium_reader *r, object_context place);
/* Arguments as JSON, streamed: after this, bytes go to reader_arguments_byte(). */
void reader_arguments_begin(cerium_reader *r);
scan_result reader_arguments_byte(cerium_reader *r, char c);
/* Whether the kept part of an object may become a call; with a mark, it may. */
bool reader_object_may_call(const cerium_reader *r);
/* The answer ended in arguments. */
void reader_arguments_end(cerium_reader *r);
/* Broken arguments: all up to the mark that ends a call is put out. */
reader_state reader_broken;

/* ---- reader_xml.c: <function=name><parameter=key>value ---- */

/* The mark <function= was taken. */
void reader_xml_begin(cerium_reader *r);
/* The answer ended in a call. */
void reader_xml_end(cerium_reader *r);

/* The name was read: put out the call; values follow by the types of its tool. */
void reader_xml_function(cerium_reader *r);
/* The key was read. */
void reader_xml_value_begin(cerium_reader *r);
void reader_xml_value_byte(cerium_reader *r, char c);
void reader_xml_value_end(cerium_reader *r);
/* The answer ended in the value. */
void reader_xml_value_flush(cerium_reader *r);
void reader_xml_arguments_end(cerium_reader *r);

/* ---- reader_marked.c: in the form of the model's own template ---- */

/* The mark that opens a call was taken. */
void reader_marked_begin(cerium_reader *r);
/* The answer ended in a call. */
void reader_marked_end(cerium_reader *r);

/* ---- reader_probed.c: the same with an object for arguments ---- */

/* The mark was taken that comes before all calls, or the one that opens a call. */
void reader_probed_section(cerium_reader *r);
void reader_probed_begin(cerium_reader *r);
/* A call ended: others of its section may follow. */
void reader_probed_next(cerium_reader *r);
/* The mark that ends a call whose arguments are broken, or NULL. */
const char *reader_probed_call_end(const call_marks *marks);

/* ---- reader_inst.c ---- */

/* The mark [TOOL_CALLS] was taken. */
void reader_inst_begin(cerium_reader *r);

/* ---- reader_harmony.c ---- */

void reader_harmony_begin(cerium_reader *r);
bool reader_harmony_thinks(const cerium_reader *r);
void reader_harmony_end(cerium_reader *r);

#endif
