/* command_table.c - the options of a command: its own, and the shared ones of its groups. */
#include "programs/command_line.h"

#include "programs/terminal.h"

static const option_spec *shared; /* [n_shared] */
static size_t n_shared;

void command_share(const option_spec *options, size_t n)
{
    shared = options;
    n_shared = n;
}

size_t command_options(const command_table *c, const option_spec *out[COMMAND_OPTIONS_MAX])
{
    const struct {
        const option_spec *at;
        size_t n;
    } tables[] = {{c->own, c->n_own}, {c->also, c->n_also}, {shared, n_shared}};
    size_t n = 0;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (size_t i = 0; i < tables[t].n; i++) {
            const option_spec *o = &tables[t].at[i];
            if (o->kind == OPTION_SHARED || (o->groups && !(o->groups & c->groups))) continue;
            CHECK(n < COMMAND_OPTIONS_MAX);
            out[n++] = o;
        }
    return n;
}

const option_spec *command_option(const command_table *c, const char *name)
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    size_t n = command_options(c, all);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return NULL;
}

const char *command_near_option(const command_table *c, const char *name)
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    const char *names[COMMAND_OPTIONS_MAX];
    size_t n = command_options(c, all);
    for (size_t i = 0; i < n; i++) names[i] = all[i]->name;
    return nearest_name(name, names, n);
}

const char *command_help_of(const command_table *c, const option_spec *option)
{
    for (size_t i = 0; i < c->n_own; i++)
        if (c->own[i].kind == OPTION_SHARED && !strcmp(c->own[i].name, option->name))
            return c->own[i].help;
    return option->help;
}
