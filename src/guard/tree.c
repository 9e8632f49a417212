/* tree.c - parses a window and flattens its tree. */
#include "guard/tree.h"

#include <ctype.h>

/* The window bounds a parse: 8 KB take a millisecond or two in the slowest grammar, thirty if the
 * text is of another language.  This is the last resort against a grammar that runs away; it goes
 * by the processor time of this thread, so that the result is the same on a busy machine or one
 * that is stopped for a while. */
enum { PARSE_S_MAX = 10, SLICE_US = 1000000 };

static time_t thread_seconds(void)
{
    struct timespec used;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) ? 0 : used.tv_sec;
}

int tree_open(tree *t)
{
    *t = (tree){0};
    int status = tree_memory_open(&t->memory);
    if (!status) t->list = memory_alloc(GUARD_NODES_MAX * sizeof *t->list);
    if (t->list) t->parsed = memory_alloc(TREE_TEXT_MAX);
    if (t->parsed) return CERIUM_OK;
    tree_close(t);
    return CERIUM_ERR_MEMORY;
}

void tree_close(tree *t)
{
    tree_memory_close(&t->memory);
    memory_free(t->list);
    memory_free(t->parsed);
    *t = (tree){0};
}

static int32_t add(tree *t, int32_t parent, int32_t *last, node n)
{
    int32_t at = t->n++;
    t->list[at] = n;
    if (parent >= 0) {
        if (*last >= 0) t->list[*last].next = at;
        else t->list[parent].child = at;
        *last = at;
    }
    return at;
}

/* An unnamed child of a node is its operator. */
static void note_op(tree *t, int32_t parent, TSNode token)
{
    if (parent < 0) return;
    node *p = &t->list[parent];
    if (p->op) return;
    switch (p->role) {
    case NODE_BINARY:
    case NODE_COMPARE:
    case NODE_ASSIGN:
    case NODE_UPDATE: p->op = (uint8_t)role_op(ts_node_type(token)); break;
    default: break;
    }
}

/* Grammars have one node for all signs before a value; only negation has a meaning here. */
static bool negates(const tree *t, TSNode at)
{
    uint32_t begin = ts_node_start_byte(at);
    view text = {t->text.ptr + begin, ts_node_end_byte(at) - begin};
    return view_starts(text, VIEW("!")) || view_starts(text, VIEW("not"));
}

static bool flatten(tree *t, TSNode root)
{
    const uint8_t *roles = role_of_symbols(t->language), *fields = role_of_fields(t->language);
    int32_t parents[GUARD_DEPTH_MAX * 2], lasts[GUARD_DEPTH_MAX * 2];
    uint32_t depth = 0;
    TSTreeCursor c = ts_tree_cursor_new(root);
    parents[0] = -1;
    lasts[0] = -1;
    t->n = 0;
    t->broken = false;
    t->missing = UINT32_MAX;
    t->missing_sign = NULL;
    t->whole = !ts_node_has_error(root);
    bool fits = true;
    for (;;) {
        TSNode at = ts_tree_cursor_current_node(&c);
        TSSymbol symbol = ts_node_symbol(at);
        bool error = symbol == (TSSymbol)-1;
        uint8_t role = error ? NODE_BLOCK : roles[symbol];
        t->broken |= error || (role == NODE_SKIP && ts_node_has_error(at));
        if (t->missing == UINT32_MAX && ts_node_is_missing(at)) {
            t->missing = ts_node_start_byte(at);
            if (ispunct((unsigned char)*ts_node_type(at))) t->missing_sign = ts_node_type(at);
        }
        if (role == NODE_NOT && !negates(t, at)) role = NODE_OTHER;
        bool follow = ts_node_is_named(at);
        int32_t self = -1;
        if (t->n == (int32_t)GUARD_NODES_MAX) {
            fits = false;
            break;
        }
        if (follow)
            self = add(t, parents[depth], &lasts[depth],
                       (node){.role = role,
                              .field = fields[ts_tree_cursor_current_field_id(&c)],
                              .begin = ts_node_start_byte(at),
                              .end = ts_node_end_byte(at),
                              .parent = parents[depth],
                              .child = -1,
                              .next = -1});
        else if (!ts_node_is_named(at)) note_op(t, parents[depth], at);
        bool deeper = follow && role != NODE_SKIP && depth + 1 < ARRAY_LEN(parents);
        if (deeper && ts_tree_cursor_goto_first_child(&c)) {
            depth++;
            parents[depth] = self;
            lasts[depth] = -1;
            continue;
        }
        while (!ts_tree_cursor_goto_next_sibling(&c)) {
            if (!depth || !ts_tree_cursor_goto_parent(&c)) goto done;
            depth--;
        }
        if (!depth) break;
    }
done:
    ts_tree_cursor_delete(&c);
    return fits && t->n;
}

static void parse(void *arg)
{
    tree *t = arg;
    TSParser *parser = ts_parser_new();
    ts_parser_set_timeout_micros(parser, SLICE_US);
    const time_t end = thread_seconds() + PARSE_S_MAX;
    TSTree *parsed = NULL;
    bool known = ts_parser_set_language(parser, role_grammar(t->language));
    while (known && !parsed && thread_seconds() < end) /* it continues where a slice ended */
        parsed = ts_parser_parse_string(parser, NULL, t->parsed, (uint32_t)t->text.len);
    if (!parsed || !flatten(t, ts_tree_root_node(parsed))) t->n = 0;
    if (parsed) ts_tree_delete(parsed);
    ts_parser_delete(parser);
}

/* The body is left empty; in Python something must be there. */
static void leave_out(tree *t, outline_hole hole)
{
    uint32_t at = hole.begin;
    if (t->language == GUARD_PYTHON) {
        while (at < hole.end && isspace((unsigned char)t->parsed[at])) at++;
        if (hole.end - at < sizeof "pass") return;
        memcpy(t->parsed + at, "pass", 4);
        at += 4;
        t->parsed[--hole.end] = '\n';
    }
    memset(t->parsed + at, ' ', hole.end - at);
}

bool tree_read(tree *t, guard_language language, view text, const outline_hole *holes,
               uint32_t n_holes)
{
    t->n = 0;
    if (!role_of_symbols(language) || text.len > TREE_TEXT_MAX) return false;
    t->text = text;
    t->language = language;
    memcpy(t->parsed, text.ptr, text.len);
    for (uint32_t i = 0; i < n_holes; i++) leave_out(t, holes[i]);
    return tree_memory_run(&t->memory, parse, t) && t->n;
}

int32_t tree_field(const tree *t, int32_t n, node_field field)
{
    for (int32_t c = n < 0 ? -1 : t->list[n].child; c >= 0; c = t->list[c].next)
        if (t->list[c].field == field) return c;
    return -1;
}

int32_t tree_last(const tree *t, int32_t n)
{
    int32_t last = t->list[n].child;
    while (last >= 0 && t->list[last].next >= 0) last = t->list[last].next;
    return last;
}
