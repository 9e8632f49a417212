/* sarif.c - findings as JSON: lines of cerium's own, and logs of SARIF 2.1.0. */
#include "programs/scan.h"

json_t *scan_json(const char *path, const guard_finding *f)
{
    char cwe[16];
    snprintf(cwe, sizeof cwe, "CWE-%u", f->cwe);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "file",
                     path, "line", (int)f->line, "rule", f->rule, "cwe", cwe, "weakness",
                     f->weakness, "severity", f->severity == GUARD_BLOCK ? "block" : "warn",
                     "language", guard_language_name(f->language), "message", f->message, "idiom",
                     f->idiom, "begin", (json_int_t)f->begin, "end", (json_int_t)f->end,
                     "line_begin", (json_int_t)f->line_begin, "byte", (json_int_t)f->raised);
}

json_t *sarif_begin(void)
{
    return json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:s, s:s, s:[]}}, s:s, s:[]}]}", "$schema",
                     "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs",
                     "tool", "driver", "name", "cerium", "version", cerium_version(),
                     "informationUri", "https://cwe.mitre.org/", "rules", "columnKind",
                     "utf16CodeUnits", "results");
}

/* The rule's place in the list of rules, where it is put once. */
static int rule_place(json_t *rules, const guard_finding *f)
{
    size_t i;
    json_t *one;
    char cwe[16], uri[64];
    json_array_foreach (rules, i, one)
        if (!strcmp(json_string_value(json_object_get(one, "id")), f->rule)) return (int)i;
    snprintf(cwe, sizeof cwe, "CWE-%u", f->cwe);
    snprintf(uri, sizeof uri, "https://cwe.mitre.org/data/definitions/%u.html", f->cwe);
    one = json_pack("{s:s, s:{s:s}, s:{s:s}, s:s, s:{s:[s, s], s:s}}", "id", f->rule,
                    "shortDescription", "text", f->message, "help", "text", f->idiom, "helpUri",
                    uri, "properties", "tags", "security", cwe, "precision", "high");
    if (!one || json_array_append_new(rules, one)) return -1;
    return (int)json_array_size(rules) - 1;
}

int sarif_add(json_t *log, const char *path, const guard_finding *f)
{
    json_t *run = json_array_get(json_object_get(log, "runs"), 0);
    json_t *driver = json_object_get(json_object_get(run, "tool"), "driver");
    int place = rule_place(json_object_get(driver, "rules"), f);
    if (place < 0) return CERIUM_ERR_MEMORY;
    json_t *result = json_pack(
        "{s:s, s:i, s:s, s:{s:s}, s:[{s:{s:{s:s}, s:{s:i, s:I, s:I}}}]}", "ruleId", f->rule,
        "ruleIndex", place, "level", f->severity == GUARD_BLOCK ? "error" : "warning", "message",
        "text", f->message, "locations", "physicalLocation", "artifactLocation", "uri", path,
        "region", "startLine", (int)f->line, "byteOffset", (json_int_t)f->begin, "byteLength",
        (json_int_t)(f->end - f->begin));
    if (!result || json_array_append_new(json_object_get(run, "results"), result))
        return CERIUM_ERR_MEMORY;
    return CERIUM_OK;
}
