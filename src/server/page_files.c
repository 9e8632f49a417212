/* page_files.c - looks up a file of the page: there are so few that a walk is fastest. */
#include "server/page_files.h"

const page_file *page_find(view path)
{
    for (size_t i = 0; i < page_n_files; i++) {
        if (view_equal(path, view_of(page_files[i].path))) return &page_files[i];
    }
    return NULL;
}
