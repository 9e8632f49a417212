/* mesh_memory.c - the memory that a mesh owns until it is closed. */
#include "base/memory.h"
#include "wafer/mesh_core.h"

void *mesh_own(mesh *m, size_t n, size_t size)
{
    CHECK(m->n_owned < ARRAY_LEN(m->owned));
    void *p = memory_zalloc(n ? n : 1, size);
    if (p) m->owned[m->n_owned++] = p;
    else m->short_of_memory = true;
    return p;
}
