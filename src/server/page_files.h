/* page_files.h - the files of the page at /, which are in the program: bytes, type, tag.
 *
 * web/ is the source; tools/embed.sh makes a C file of it when the program is built.  Everything
 * here is constant and lives as long as the program. */
#ifndef SERVER_PAGE_FILES_H
#define SERVER_PAGE_FILES_H

#include "base/base.h"

typedef struct {
    const char *path; /* "/app.js"; index.html is "/" */
    view content;
    const char *type; /* for Content-Type */
    const char *etag; /* with its quotes; another one when the content is another */
} page_file;

/* Headers for each of them: nothing from elsewhere, no page around it; asked for again each time,
 * which the tag answers with 304. */
#define PAGE_POLICY                                                                                \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "                    \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#define PAGE_CACHE_CONTROL "no-cache"

/* path: of the request, without its query.  NULL when there is no such file. */
const page_file *page_find(view path);

/* What tools/embed.sh makes. */
extern const page_file page_files[];
extern const size_t page_n_files;

#endif
