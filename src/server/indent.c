/* indent.c - holds a line back until its indentation is known. */
#include "server/indent.h"

/* Whether all of held after its line break is blank: the indentation is not known yet. */
static bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool indent_feed(bytes *held, uint32_t least, view text, bytes *show, int *status)
{
    show->len = 0;
    *status = CERIUM_OK;
    if (!least) {
        *status = bytes_append(show, text.ptr, text.len);
        return false;
    }
    for (size_t i = 0; i < text.len && !*status; i++) {
        char c = text.ptr[i];
        if (c == '\n') {
            /* A blank line has no indentation: it is shown with its break. */
            *status = bytes_append(show, held->ptr, held->len);
            held->len = 0;
            if (!*status) *status = bytes_append(held, &c, 1);
        } else if (held->len && is_blank(c)) {
            *status = bytes_append(held, &c, 1);
        } else if (held->len) {
            if (held->len - 1 < least) {
                held->len = 0;
                return true;
            }
            *status = bytes_append(show, held->ptr, held->len);
            held->len = 0;
            if (!*status) *status = bytes_append(show, &c, 1);
        } else {
            *status = bytes_append(show, &c, 1);
        }
    }
    return false;
}
