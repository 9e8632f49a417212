/* carrier.h - code inside other text: scripts in HTML and components, cells of notebooks.
 * Bytes of HTML and of notebooks go in; segments of their code come out, with their positions. */
#ifndef GUARD_CARRIER_H
#define GUARD_CARRIER_H

#include "guard/json_reader.h"
#include "guard/unwrap.h"

enum { CARRIER_TAG_BYTES = 160, CARRIER_HELD = 16 };

typedef struct {
    unwrap_segment segment; /* as it came */
    /* HTML */
    enum { HTML_TEXT, HTML_TAG, HTML_VALUE, HTML_SCRIPT, HTML_COMMENT, HTML_FRONT } state;
    uint8_t dashes; /* at the beginning of a line of the script before the page */
    bool past;      /* there is none, or it has ended */
    char tag[CARRIER_TAG_BYTES]; /* of the open tag, or the end of what was read */
    uint32_t n_tag, n_name;
    char quote;
    bool event; /* the value is code */
    char held[CARRIER_HELD]; /* of a script: it may be its end */
    uint64_t held_at[CARRIER_HELD];
    unwrap_side held_side;
    uint32_t n_held;
    /* notebooks */
    json_reader json;
    bool cells, is_text, is_type, in_source, begun;
    char type[8];
    uint32_t n_type;
    char first; /* of a line of a cell; 0 after its end */
} carrier;

/* segment and byte of an unwrap_sink, before `to`. */
void carrier_segment(carrier *k, unwrap_segment s, const unwrap_sink *to);
void carrier_byte(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to);
/* The stream has ended. */
void carrier_finish(carrier *k, const unwrap_sink *to);
/* The first withheld byte; UINT64_MAX: none. */
uint64_t carrier_held(const carrier *k);
/* Is its output a string of a notebook's JSON?  The value of an attribute: its quote, or 0. */
bool carrier_is_string(const carrier *k);
char carrier_quote(const carrier *k);

#endif
