/* page_files.c - finds a file of the page: a linear search is fastest for so few. */
#include "server/page_files.h"

const page_file *page_find(view path)
{
    for (size_t i = 0; i < page_n_files; i++) {
        if (view_equal(path, view_of(page_files[i].path))) return &page_files[i];
    }
    return NULL;
}
