/* names_fixture.h - a small environment, made by hand: numpy with a few names, and a virtual
 * environment's description of itself. */
#ifndef UNIT_NAMES_FIXTURE_H
#define UNIT_NAMES_FIXTURE_H

#include "exists/index.h"

#include "unit.h"

static inline names_index *fixture_names(void)
{
    static const char *const names_of_numpy[] = {"array", "arange", "asarray", "zeros", "float64"};
    name_table b;
    names_index *x = NULL;
    cerium_error err;
    TEST_CHECK(names_open(&b) == 0);
    uint32_t numpy = names_module(&b, VIEW("pnumpy"), SCOPE_PACKAGE, VIEW("numpy"));
    uint32_t os = names_module(&b, VIEW("pos"), 0, VIEW("os"));
    (void)names_module(&b, VIEW("p!"), SCOPE_OPEN, VIEW("p!"));
    for (size_t i = 0; i < ARRAY_LEN(names_of_numpy); i++)
        names_add(&b, numpy, view_of(names_of_numpy[i]), NAME_VALUE, 0);
    names_add(&b, os, VIEW("getcwd"), NAME_VALUE, 0);
    names_resolve(&b);
    TEST_CHECK(index_seal(&x, &b, 1, &err) == 0);
    names_close(&b);
    return x;
}

#endif
