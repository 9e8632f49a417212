/* go_mod.c - the lines of a go.mod (go.dev/ref/mod#go-mod-file). */
#include "exists/go.h"

static view next_word(view *line)
{
    *line = view_trim_start(*line, " \t\r\"`");
    size_t n = 0;
    while (n < line->len && !strchr(" \t\r\"`", line->ptr[n])) n++;
    view word = {line->ptr, n};
    *line = (view){line->ptr + n, line->len - n};
    return view_starts(word, VIEW("//")) ? (view){word.ptr, 0} : word;
}

void go_mod_each(view text, void (*each)(void *user, view directive, view module, view version),
                 void *user)
{
    view block = {NULL, 0};
    for (size_t at = 0; at < text.len;) {
        const char *stop = memchr(text.ptr + at, '\n', text.len - at);
        view line = {text.ptr + at, stop ? (size_t)(stop - text.ptr) - at : text.len - at};
        at += line.len + 1;
        view word = next_word(&line);
        if (!word.len) continue;
        if (block.len && word.ptr[0] == ')') {
            block.len = 0;
            continue;
        }
        view directive = block.len ? block : word, module = block.len ? word : next_word(&line);
        if (!block.len && module.len && module.ptr[0] == '(') block = word;
        else if (module.len) each(user, directive, module, next_word(&line));
    }
}
