/* canvas.c - writes SVG as text. */
#include "wafer/canvas.h"

#include <errno.h>

#include "base/text.h"

enum { PICTURE_BYTES_MAX = 16 << 20 };

void canvas_put(canvas *c, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK(n >= 0 && (size_t)n < sizeof text);
    c->b.max = PICTURE_BYTES_MAX;
    if (!c->status) c->status = bytes_append(&c->b, text, (size_t)n);
}

void canvas_escape(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; *text && n + 7 < size; text++) {
        const char *as = *text == '<'   ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '&' ? "&amp;"
                         : *text == '"' ? "&quot;"
                                        : NULL;
        if (as)
            n += (size_t)snprintf(out + n, size - n, "%s", as);
        else if ((unsigned char)*text >= ' ')
            out[n++] = *text;
    }
    out[n] = 0;
}

void canvas_text(canvas *c, double x, double y, const char *class_, const char *text)
{
    char safe[512];
    canvas_escape(safe, sizeof safe, text);
    canvas_put(c, "<text x='%.1f' y='%.1f' class='%s'>%s</text>\n", x, y, class_, safe);
}

int canvas_check(const char *path, cerium_error *err)
{
    if (text_ends_with(path, ".svg") || text_ends_with(path, ".html")) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_ARGUMENT, "%s: a picture is a file.svg or a file.html", path);
}

void canvas_begin(canvas *c, const char *path, const char *title, double width, double height)
{
    char safe[256];
    canvas_escape(safe, sizeof safe, title);
    if (text_ends_with(path, ".html"))
        canvas_put(c,
                   "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>%s</title>"
                   "<style>body{margin:0;background:#fff}svg{display:block;margin:auto}</style>"
                   "</head><body>\n",
                   safe);
    canvas_put(c,
               "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
               "viewBox='0 0 %.0f %.0f'>\n<style>text{font:12px sans-serif;fill:#222}"
               ".t{font-size:18px;font-weight:bold}.s{font-size:11px;fill:#555}"
               ".m{text-anchor:middle}.e{text-anchor:end}"
               ".w{text-anchor:middle;fill:#fff;font-size:11px}</style>\n"
               "<rect width='%.0f' height='%.0f' fill='#fff'/>\n",
               width, height, width, height, width, height);
}

int canvas_finish(canvas *c, const char *path, cerium_error *err)
{
    canvas_put(c, "</svg>\n");
    if (text_ends_with(path, ".html")) canvas_put(c, "</body></html>\n");
    int status = c->status;
    if (status) {
        error_set(err, status, "%s: no memory for the picture", path);
    } else {
        FILE *f = fopen(path, "wb");
        bool ok = f && fwrite(c->b.ptr, 1, c->b.len, f) == c->b.len;
        if (f && fclose(f)) ok = false;
        if (!ok) status = error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    }
    bytes_free(&c->b);
    return status;
}
