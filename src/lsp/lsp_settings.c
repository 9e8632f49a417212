/* lsp_settings.c - the user's settings, from initializationOptions or workspace/configuration. */
#include "lsp/lsp_parts.h"

#include <fnmatch.h>

void lsp_settings_begin(lsp_settings *set)
{
    *set = (lsp_settings){.enable = true, .next_edit = true, .lines_max = 12, .confidence = -1,
                          .watchdog = true, .feedback = true, .candidates = 3};
}

static void read_bool(const json_t *from, const char *key, bool *out)
{
    const json_t *value = json_object_get(from, key);
    if (json_is_boolean(value)) *out = json_is_true(value);
}

static void read_number(const json_t *from, const char *key, uint32_t most, uint32_t *out)
{
    const json_t *value = json_object_get(from, key);
    json_int_t n = json_integer_value(value);
    if (json_is_integer(value) && n >= 0) *out = n < most ? (uint32_t)n : most;
}

static void keep(json_t **out, json_t *value)
{
    json_decref(*out);
    *out = json_incref(value);
}

void lsp_settings_read(lsp_server *s, const json_t *from)
{
    lsp_settings *set = &s->settings;
    if (json_object_get(from, "cerium")) from = json_object_get(from, "cerium");
    if (!json_is_object(from)) return;
    json_t *languages = json_object_get(from, "languages");
    json_t *exclude = json_object_get(from, "exclude"), *least;
    const json_t *retrieval = json_object_get(from, "retrieval");
    read_bool(from, "enable", &set->enable);
    read_bool(from, "nextEdit", &set->next_edit);
    if (json_is_boolean(retrieval))
        set->retrieval = json_is_true(retrieval) ? LSP_ON : LSP_OFF;
    read_bool(from, "feedback", &set->feedback);
    read_bool(from, "status", &set->status);
    read_bool(from, "watchdog", &set->watchdog);
    read_number(from, "maxLines", 1000, &set->lines_max);
    if (!set->lines_max) set->lines_max = 1;
    read_number(from, "delay", 10000, &set->delay_ms);
    read_number(from, "candidates", LSP_CANDIDATES_MAX, &set->candidates);
    if (!set->candidates) set->candidates = 1;
    read_bool(from, "alwaysSeveral", &set->always_several);
    if (json_is_object(languages)) keep(&set->languages, languages);
    if (json_is_array(exclude)) keep(&set->exclude, exclude);
    least = json_object_get(from, "minConfidence");
    if (json_is_number(least) && json_number_value(least) >= 0 && json_number_value(least) <= 1)
        set->confidence = json_number_value(least);
}

void lsp_settings_close(lsp_settings *set)
{
    json_decref(set->languages);
    json_decref(set->exclude);
    set->languages = set->exclude = NULL;
}

bool lsp_settings_exclude(const lsp_settings *set, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t i;
    const json_t *glob;
    json_array_foreach(set->exclude, i, glob)
    {
        const char *words = json_string_value(glob);
        if (words && (!fnmatch(words, path, 0) || !fnmatch(words, name, 0))) return true;
    }
    return false;
}

bool lsp_settings_allow(const lsp_settings *set, const lsp_document *d)
{
    const json_t *of = json_object_get(set->languages, d->language_id);
    return set->enable && (!of || json_is_true(of)) && !lsp_settings_exclude(set, d->path);
}
