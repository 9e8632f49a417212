/* translation.c - reading pieces, common places, and spelling the open bytes. */
#include "speculation/translation.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

enum {
    PIECE_BYTES = 4096,  /* bytes of text encoded at once */
    PIECE_TOKENS = 64,   /* most tokens of the model in a piece, */
    OVERLAP_TOKENS = 8,  /* of which this many were read before: the end of a text may change */
    LOOK_BACK = 48,      /* draft tokens searched for a place to continue from */
    ROOM_TOKENS = 64,    /* tokens that a timeline keeps free for guesses */
};

#define NO_PLACE UINT32_MAX

typedef struct {
    view text;
    int32_t id;
} spelling;

struct translator {
    const tokenizer *model, *draft;
    bool copies;
    tokenizer_scratch *to_draft, *to_model;
    spelling *sorted; /* [n_sorted] of the draft model's vocabulary, tokens that are text */
    uint32_t n_sorted;
    /* the current piece */
    char text[PIECE_BYTES];
    size_t text_len;
    uint32_t begins[PIECE_TOKENS]; /* where tokens [first, first + n_begins) begin in text */
    uint32_t first, n_begins;
    int32_t tokens[PIECE_BYTES];
};

static view bytes_of(const tokenizer *t, int32_t token)
{
    view text;
    text.ptr = tokenizer_bytes(t, token, &text.len);
    return text;
}

/* ---- opening ---- */

/* Sizes of one family often have more or fewer tokens that nothing uses. */
static bool is_same(const tokenizer *a, const tokenizer *b)
{
    uint32_t n = tokenizer_n_tokens(a) < tokenizer_n_tokens(b) ? tokenizer_n_tokens(a)
                                                                : tokenizer_n_tokens(b);
    for (uint32_t i = 0; i < n; i++)
        if (!view_equal(bytes_of(a, (int32_t)i), bytes_of(b, (int32_t)i)) ||
            tokenizer_is_control(a, (int32_t)i) != tokenizer_is_control(b, (int32_t)i))
            return false;
    return true;
}

/* The tokens of a text, as far as they spell it: a vocabulary may lack bytes.  False if its tokens
 * are not text. */
static bool encode(tokenizer_scratch *x, const tokenizer *t, view text, int32_t *tokens,
                   uint32_t cap, uint32_t *n_out, size_t *n_bytes)
{
    size_t n = 0, at = 0, i = 0;
    *n_out = 0;
    *n_bytes = 0;
    if (tokenizer_scratch_encode(x, text, tokens, cap, &n, NULL)) return false;
    for (; i < n; i++) {
        view piece = bytes_of(t, tokens[i]);
        if (piece.len > text.len - at || memcmp(text.ptr + at, piece.ptr, piece.len) ||
            tokenizer_is_control(t, tokens[i]))
            break;
        at += piece.len;
    }
    *n_out = (uint32_t)i;
    *n_bytes = at;
    return true;
}

/* Code can be spelled if all printable ASCII can.  Other bytes may be missing if they never
 * occurred where the vocabulary was made: a text that has one gets no drafts. */
static bool says_code(tokenizer_scratch *x, const tokenizer *t)
{
    for (int byte = '\n'; byte < 0x7f; byte++) {
        char c = (char)byte;
        int32_t tokens[4];
        uint32_t n;
        size_t n_bytes;
        if (byte > '\n' && byte < ' ') continue;
        if (!encode(x, t, (view){&c, 1}, tokens, ARRAY_LEN(tokens), &n, &n_bytes) || n_bytes != 1)
            return false;
    }
    return true;
}

static int compare_text(view a, view b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_text(const void *a, const void *b)
{
    const spelling *x = a, *y = b;
    int order = compare_text(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static int sort_spellings(translator *t)
{
    uint32_t n = tokenizer_n_tokens(t->draft);
    t->sorted = memory_alloc(n * sizeof *t->sorted);
    if (!t->sorted) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        spelling s = {bytes_of(t->draft, (int32_t)i), (int32_t)i};
        if (s.text.len > 0 && !tokenizer_is_control(t->draft, s.id)) t->sorted[t->n_sorted++] = s;
    }
    qsort(t->sorted, t->n_sorted, sizeof *t->sorted, by_text);
    return CERIUM_OK;
}

int translator_open(translator **out, const tokenizer *model, const tokenizer *draft,
                    cerium_error *err)
{
    translator *t = memory_zalloc(1, sizeof *t);
    if (!t) return error_set(err, CERIUM_ERR_MEMORY, "no memory for two vocabularies");
    t->model = model;
    t->draft = draft;
    t->copies = is_same(model, draft);
    int status = CERIUM_OK;
    if (!t->copies) {
        status = tokenizer_scratch_open(&t->to_draft, draft, PIECE_BYTES, err);
        if (!status) status = tokenizer_scratch_open(&t->to_model, model, PIECE_BYTES, err);
        if (!status && sort_spellings(t))
            status = error_set(err, CERIUM_ERR_MEMORY, "no memory for two vocabularies");
        const char *lacks = NULL;
        if (!status && !says_code(t->to_model, model)) lacks = "the model's";
        if (!status && !says_code(t->to_draft, draft)) lacks = "the draft model's";
        if (lacks)
            status = error_set(err, CERIUM_ERR_FORMAT,
                               "the vocabularies differ, and %s cannot say all of ASCII", lacks);
    }
    if (status)
        translator_close(&t);
    else
        *out = t;
    return status;
}

void translator_close(translator **t)
{
    if (!t || !*t) return;
    tokenizer_scratch_close(&(*t)->to_draft);
    tokenizer_scratch_close(&(*t)->to_model);
    memory_free((*t)->sorted);
    memory_free(*t);
    *t = NULL;
}

bool translator_copies(const translator *t) { return t->copies; }

/* ---- characters ---- */

/* How many of the last bytes begin an unfinished character. */
static uint32_t open_character(view text)
{
    for (uint32_t n = 1; n <= 3 && n <= text.len; n++) {
        uint8_t c = (uint8_t)text.ptr[text.len - n];
        if ((c & 0xC0) == 0x80) continue;
        uint32_t needs = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return needs > n ? n : 0;
    }
    return 0;
}

/* ---- reading ---- */

static bool put(translation *x, int32_t token, uint32_t place)
{
    if (x->n >= x->n_max) return false;
    if (x->n < x->n_same && x->tokens[x->n] != token) x->n_same = x->n;
    x->tokens[x->n] = token;
    x->places[x->n++] = place;
    return true;
}

/* The draft model's control token for one of the model's. */
static int32_t control_of(const translator *t, int32_t token)
{
    int32_t id = tokenizer_find(t->draft, bytes_of(t->model, token));
    if (id >= 0 && tokenizer_is_control(t->draft, id)) return id;
    for (int role = 0; role < TOKEN_ROLES; role++)
        if (role != TOKEN_UNK && tokenizer_role(t->model, role) == token)
            return tokenizer_role(t->draft, role);
    return TOKEN_NONE;
}

/* SentencePiece put a space before the text that token `at` begins: it is not part of the text. */
static view text_at(const translator *t, const int32_t *tokens, uint32_t at)
{
    view text = bytes_of(t->model, tokens[at]);
    bool begins = at > 0 && tokenizer_is_control(t->model, tokens[at - 1]);
    if (begins && text.len && *text.ptr == ' ' && tokenizer_adds_space(t->model))
        text.ptr++, text.len--;
    return text;
}

/* Gather the text of tokens [at, end) up to a control token, as much as a piece holds, but at least
 * one token.  Returns where it ends. */
static uint32_t gather(translator *t, const int32_t *tokens, uint32_t at, uint32_t end,
                       bool begins_text)
{
    t->text_len = t->n_begins = 0;
    t->first = at;
    bool has_text = at < end && !tokenizer_is_control(t->model, tokens[at]);
    if (has_text && begins_text && tokenizer_adds_space(t->draft)) t->text[t->text_len++] = ' ';
    for (; at < end && !tokenizer_is_control(t->model, tokens[at]); at++) {
        view text = text_at(t, tokens, at);
        size_t room = sizeof t->text - t->text_len;
        if (text.len > room && t->n_begins > 0) break;
        if (text.len > room) text.len = room;
        t->begins[t->n_begins++] = at == t->first ? 0 : (uint32_t)t->text_len;
        if (text.len) memcpy(t->text + t->text_len, text.ptr, text.len);
        t->text_len += text.len;
    }
    return at;
}

/* Append the gathered text as tokens of the draft model. */
static bool put_text(translation *x, translator *t)
{
    size_t n_bytes = 0, at = 0;
    uint32_t begin = 0, n = 0;
    view text = {t->text, t->text_len};
    if (text.len == 0) return true;
    if (!encode(t->to_draft, t->draft, text, t->tokens, PIECE_BYTES, &n, &n_bytes) ||
        n_bytes != text.len)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        while (begin < t->n_begins && t->begins[begin] < at) begin++;
        bool is_place = begin < t->n_begins && t->begins[begin] == at;
        if (!put(x, t->tokens[i], is_place ? t->first + begin : NO_PLACE)) return false;
        at += bytes_of(t->draft, t->tokens[i]).len;
    }
    return true;
}

/* Does a text that is encoded from here on get the same tokens as within the whole?  Words and
 * lines begin with their space or line break. */
static bool is_good_place(const translation *x, const translator *t, uint32_t i)
{
    view text = bytes_of(t->draft, x->tokens[i]);
    return i == 0 || tokenizer_is_control(t->draft, x->tokens[i]) ||
           (text.len && (*text.ptr == ' ' || *text.ptr == '\n'));
}

/* Remove draft tokens back to a common place, some tokens before the end.  Returns the model's
 * token there. */
static uint32_t step_back(translation *x, const translator *t)
{
    uint32_t latest = x->end > x->begin + OVERLAP_TOKENS ? x->end - OVERLAP_TOKENS : x->begin;
    uint32_t least = x->n > LOOK_BACK ? x->n - LOOK_BACK : 0, found = NO_PLACE;
    for (uint32_t i = x->n; i-- > least;) {
        uint32_t place = x->places[i];
        if (place == NO_PLACE || place > latest) continue;
        if (place + PIECE_TOKENS / 2 < x->end) break;
        found = i;
        if (is_good_place(x, t, i)) break;
    }
    if (found == NO_PLACE) return x->end;
    x->n = found;
    return x->places[found];
}

static bool read_piece(translation *x, translator *t, const int32_t *tokens, uint32_t n)
{
    uint32_t at = step_back(x, t), end = at + PIECE_TOKENS < n ? at + PIECE_TOKENS : n;
    x->n_open = 0;
    while (at < end) {
        bool begins = at == 0 || tokenizer_is_control(t->model, tokens[at - 1]);
        uint32_t next = gather(t, tokens, at, end, begins);
        if (next == n) { /* the end of the timeline */
            x->n_open = open_character((view){t->text, t->text_len});
            t->text_len -= x->n_open;
            memcpy(x->open, t->text + t->text_len, x->n_open);
        }
        if (!put_text(x, t)) return false;
        at = next;
        if (at < end && tokenizer_is_control(t->model, tokens[at])) {
            int32_t id = control_of(t, tokens[at]);
            if (id >= 0 && !put(x, id, at)) return false;
            at++;
        }
    }
    x->end = at > x->end ? at : x->end;
    return true;
}

/* Where a timeline of n tokens begins, so that it fits: the same place for as long as possible, and
 * the same for all readers. */
static uint32_t begin_of(const translation *x, const translator *t, uint32_t n)
{
    /* In another vocabulary a text may have more tokens. */
    uint32_t room = t->copies ? x->n_max : x->n_max / 2, step = room / 2;
    uint32_t need = n + ROOM_TOKENS;
    if (need <= room || step == 0) return x->least;
    uint32_t begin = (need - room + step - 1) / step * step;
    return begin > x->least ? begin : x->least;
}

static bool begin_anew(translation *x, const translator *t, uint32_t begin)
{
    x->n = 0;
    x->begin = x->end = begin;
    if (t->copies || !tokenizer_adds_bos(t->draft)) return true;
    return put(x, tokenizer_role(t->draft, TOKEN_BOS), NO_PLACE);
}

bool translation_read(translation *x, translator *t, const int32_t *tokens, uint32_t n)
{
    uint32_t begin = begin_of(x, t, n);
    if (x->n_max <= ROOM_TOKENS || (x->is_stuck && begin == x->begin)) return false;
    x->is_stuck = false;
    if (x->end > n) translation_cut(x, n);
    if ((begin != x->begin || x->n == 0) && !begin_anew(x, t, begin)) return false;
    if (t->copies) {
        uint32_t n_known = tokenizer_n_tokens(t->draft);
        for (; x->end < n; x->end++) {
            int32_t token = tokens[x->end];
            if (!put(x, (uint32_t)token < n_known ? token : 0, x->end)) return false;
        }
        return x->n > 0;
    }
    if (x->end == n) return x->n > 0; /* the open bytes are read, too */
    while (x->end < n)
        if (!read_piece(x, t, tokens, n)) {
            x->n = 0;
            x->is_stuck = true;
            return false;
        }
    return x->n > 0 && x->n + ROOM_TOKENS <= x->n_max;
}

void translation_cut(translation *x, uint32_t n)
{
    if (x->end <= n) return;
    x->n_open = 0;
    x->is_stuck = false;
    while (x->n > 0 && (x->places[x->n - 1] == NO_PLACE || x->places[x->n - 1] > n)) x->n--;
    if (x->n == 0) return; /* starts over */
    x->end = x->places[--x->n];
    if (x->n == 0) x->end = x->begin;
}

/* ---- guesses ---- */

/* The first of the sorted spellings that is not less than text. */
static uint32_t lower_bound(const translator *t, view text)
{
    uint32_t low = 0, high = t->n_sorted;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_text(t->sorted[middle].text, text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t translator_spell(const translator *t, view open, const float *logits, uint32_t n_vocab,
                         float *margin)
{
    int32_t best = TOKEN_NONE;
    float most = 0, next = 0;
    uint32_t n_seen = 0;
    for (size_t len = 1; len <= open.len; len++) {
        view part = {open.ptr, len};
        for (uint32_t i = lower_bound(t, part); i < t->n_sorted; i++) {
            view text = t->sorted[i].text;
            bool is_whole = len == open.len;
            if (text.len < len || memcmp(text.ptr, part.ptr, len)) break;
            if (!is_whole && text.len > len) break;
            int32_t id = t->sorted[i].id;
            if ((uint32_t)id >= n_vocab || !(logits[id] > -INFINITY)) continue;
            if (n_seen == 0 || logits[id] > most) {
                next = most;
                most = logits[id];
                best = id;
            } else if (n_seen == 1 || logits[id] > next) {
                next = logits[id];
            }
            n_seen++;
        }
    }
    *margin = n_seen > 1 ? most - next : INFINITY;
    return best;
}

uint32_t translator_guess(translator *t, view text, int32_t *tokens, uint32_t *ends, uint32_t cap)
{
    size_t n_bytes = 0, at = 0;
    uint32_t n = 0;
    text.len -= open_character(text);
    if (text.len == 0 || text.len > PIECE_BYTES) return 0;
    if (!encode(t->to_model, t->model, text, t->tokens, PIECE_BYTES, &n, &n_bytes)) return 0;
    if (n > cap) n = cap;
    for (uint32_t i = 0; i < n; i++) {
        at += bytes_of(t->model, t->tokens[i]).len;
        tokens[i] = t->tokens[i];
        ends[i] = (uint32_t)at;
    }
    return n;
}
