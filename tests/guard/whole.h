/* whole.h - is code a whole text of its language, by its grammar alone?  For tests and benchmarks
 * of what the watchdog writes. */
#ifndef GUARD_WHOLE_H
#define GUARD_WHOLE_H

#include <tree_sitter/api.h>

#include "base/memory.h"
#include "base/text.h"
#include "guard/language.h"
#include "guard/tree.h"

typedef struct {
    guard_language language;
    view code;
    bool good;
} whole_job;

static inline void whole_run(void *arg)
{
    whole_job *p = arg;
    TSParser *parser = ts_parser_new();
    ts_parser_set_language(parser, role_grammar(p->language));
    TSTree *parsed = ts_parser_parse_string(parser, NULL, p->code.ptr, (uint32_t)p->code.len);
    p->good = parsed && !ts_node_has_error(ts_tree_root_node(parsed));
    if (parsed) ts_tree_delete(parsed);
    ts_parser_delete(parser);
}

/* PHP without a tag would be read as HTML. */
static inline bool whole_is_apart(guard_language language, view code)
{
    return language == GUARD_PHP && !memmem(code.ptr, code.len, "<?", 2);
}

/* Without an error, and without anything that the parser had to insert.  apart: see above. */
static inline bool whole_parses(guard_language language, view code, bool apart)
{
    tree_memory memory;
    bytes all = {.max = SIZE_MAX / 2};
    if (!guard_has_grammar(language) || tree_memory_open(&memory)) return false;
    bool enough = !bytes_append(&all, "<?php ", apart ? 6 : 0) &&
                  !bytes_append(&all, code.ptr, code.len) && !bytes_append(&all, "\n", 1);
    whole_job job = {.language = language, .code = {all.ptr, all.len}};
    enough &= tree_memory_run(&memory, whole_run, &job);
    tree_memory_close(&memory);
    bytes_free(&all);
    return enough && job.good;
}

#endif
