/* rules_files.c - a folder of files of rules, and the life of a set. */
#include <dirent.h>
#include <errno.h>

#include "guard/rules.h"

int rules_begin(rule_set *rules)
{
    *rules = (rule_set){0};
    RETURN_IF(arena_open(&rules->strings, GUARD_RULES_BYTES_MAX));
    rules->list = memory_zalloc(GUARD_RULES_MAX, sizeof *rules->list);
    if (rules->list) return CERIUM_OK;
    arena_close(&rules->strings);
    return CERIUM_ERR_MEMORY;
}

static void close_facts(language_facts *f)
{
    pattern_list *lists[] = {&f->sources, &f->own,        &f->cleaners,
                             &f->guards,  &f->formatters, &f->mutators};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) pattern_list_close(lists[i]);
    for (int w = 0; w < WEAK_COUNT; w++) pattern_list_close(&f->cleaners_of[w]);
    for (uint32_t i = 0; i < f->n_fills; i++) pattern_list_close(&f->fills[i].names);
    for (uint32_t i = 0; i < f->n_copies; i++) pattern_list_close(&f->copies[i].names);
    pcre2_code_free(f->handler);
    pcre2_code_free(f->parameter);
    pcre2_code_free(f->loose);
}

void rules_close(rule_set *rules)
{
    for (uint32_t i = 0; i < rules->n; i++) {
        rule *u = &rules->list[i];
        pattern_list_close(&u->names);
        for (uint32_t k = 0; k < u->n_ifs; k++) {
            pcre2_code_free(u->ifs[k].is);
            pcre2_code_free(u->ifs[k].is_not);
        }
        pcre2_code_free(u->match);
        pcre2_code_free(u->unless);
        pcre2_code_free(u->seen);
        pcre2_code_free(u->unseen);
        for (int k = 0; k < RULE_NEAR; k++) pcre2_code_free(u->near[k]);
    }
    for (int l = 0; l < GUARD_LANGUAGES; l++) close_facts(&rules->facts[l]);
    memory_free(rules->list);
    arena_close(&rules->strings);
    *rules = (rule_set){0};
}

static int read_whole(const char *path, bytes *out, cerium_error *err)
{
    FILE *f = fopen(path, "rb");
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    char chunk[4096];
    size_t n;
    int status = CERIUM_OK;
    while (!status && (n = fread(chunk, 1, sizeof chunk, f)) > 0)
        status = bytes_append(out, chunk, n);
    if (status)
        error_set(err, status, "%s: larger than %u bytes: split it", path, GUARD_RULE_FILE_MAX);
    else if (ferror(f)) status = error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    fclose(f);
    return status;
}

static int is_rules(const struct dirent *d)
{
    size_t len = strlen(d->d_name);
    return len > 5 && d->d_name[0] != '.' && !strcmp(d->d_name + len - 5, ".yaml");
}

int rules_open(rule_set *rules, const char *folder, cerium_error *err)
{
    struct dirent **names = NULL;
    char path[4096];
    int status = rules_begin(rules);
    if (status) return error_set(err, status, "no memory for rules");
    int n = scandir(folder, &names, is_rules, alphasort);
    if (n < 0) status = error_set(err, CERIUM_ERR_IO, "%s: %s", folder, strerror(errno));
    if (n == 0)
        status = error_set(err, CERIUM_ERR_IO, "%s: no rules (*.yaml) in it", folder);
    for (int i = 0; i < n; i++) {
        bytes text = {.max = GUARD_RULE_FILE_MAX};
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (!status) status = read_whole(path, &text, err);
        if (!status) status = rules_read(rules, path, (view){text.ptr, text.len}, err);
        bytes_free(&text);
        memory_release(names[i]);
    }
    memory_release(names);
    if (status) rules_close(rules);
    return status;
}
