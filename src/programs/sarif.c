/* sarif.c - findings as JSON: lines of cerium's own, and logs of SARIF 2.1.0. */
#include "programs/scan.h"

#include "base/memory.h"
#include "programs/output.h"

static const char *confidence_of(const guard_finding *f)
{
    return f->unlikely ? "low" : "high";
}

json_t *scan_json(scan_place at, const guard_finding *f)
{
    static const char *const severities[] = {"note", "warn", "block"};
    static const char *const values[] = {"constant", "unknown", "parameter", "source"};
    char cwe[16];
    snprintf(cwe, sizeof cwe, "CWE-%u", f->cwe);
    json_t *one =
           json_pack("{s:o, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}",
                     "file", json_name(at.path), "line", (json_int_t)at.line, "rule", f->rule,
                     "cwe", cwe,
                     "weakness", f->weakness, "severity",
                     severities[f->severity], "confidence", confidence_of(f), "value",
                     values[f->value], "language",
                     guard_language_name(f->language), "message", f->message, "idiom", f->idiom,
                     "begin", (json_int_t)f->begin, "end", (json_int_t)f->end, "line_begin",
                     (json_int_t)f->line_begin, "byte", (json_int_t)f->raised);
    if (one && *f->fix) json_object_set_new(one, "fix", json_string(f->fix));
    return one;
}

json_t *sarif_begin(void)
{
    return json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:s, s:s, s:[]}}, s:s, s:[]}]}", "$schema",
                     "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs",
                     "tool", "driver", "name", "cerium", "version", cerium_version(),
                     "informationUri", "https://cwe.mitre.org/", "rules", "columnKind",
                     "utf16CodeUnits", "results");
}

/* The index of the rule in the list of rules, where it is added once. */
static int rule_place(json_t *rules, const guard_finding *f)
{
    size_t i;
    json_t *one;
    char cwe[16], uri[64];
    json_array_foreach (rules, i, one)
        if (!strcmp(json_string_value(json_object_get(one, "id")), f->rule)) return (int)i;
    snprintf(cwe, sizeof cwe, "CWE-%u", f->cwe);
    snprintf(uri, sizeof uri, "https://cwe.mitre.org/data/definitions/%u.html", f->cwe);
    one = json_pack("{s:s, s:{s:s}, s:{s:s}, s:s, s:{s:[s, s]}}", "id", f->rule,
                    "shortDescription", "text", f->message, "help", "text", f->idiom, "helpUri",
                    uri, "properties", "tags", "security", cwe);
    if (!one || json_array_append_new(rules, one)) return -1;
    return (int)json_array_size(rules) - 1;
}

/* A path as a URI reference: bytes not allowed there are written as %E9.  Code hosts name their
 * files without "./". */
static json_t *path_uri(const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~/";
    bytes uri = {.max = 64 << 10};
    char code[4];
    int status = CERIUM_OK;
    while (!strncmp(path, "./", 2)) path += 2;
    for (const char *c = path; *c && !status; c++) {
        bool is_plain = strchr(plain, *c) != NULL;
        snprintf(code, sizeof code, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
        status = bytes_append(&uri, code, strlen(code));
    }
    json_t *out = status ? NULL : json_stringn(uri.ptr ? uri.ptr : "", uri.len);
    bytes_free(&uri);
    return out;
}

int sarif_add(json_t *log, scan_place at, const guard_finding *f)
{
    static const char *const levels[] = {"note", "warning", "error"};
    json_t *run = json_array_get(json_object_get(log, "runs"), 0);
    json_t *driver = json_object_get(json_object_get(run, "tool"), "driver");
    int place = rule_place(json_object_get(driver, "rules"), f);
    if (place < 0) return CERIUM_ERR_MEMORY;
    json_t *region = json_pack("{s:I}", "startLine", (json_int_t)at.line);
    if (!at.in_diff) {
        json_object_set_new(region, "byteOffset", json_integer((json_int_t)f->begin));
        json_object_set_new(region, "byteLength", json_integer((json_int_t)(f->end - f->begin)));
    }
    json_t *result = json_pack(
        "{s:s, s:i, s:s, s:{s:s}, s:{s:s}, s:[{s:{s:{s:o}, s:o}}]}", "ruleId", f->rule,
        "ruleIndex", place, "level", levels[f->severity], "message",
        "text", f->message, "properties", "confidence", confidence_of(f), "locations",
        "physicalLocation", "artifactLocation", "uri", path_uri(at.path), "region", region);
    if (!result || json_array_append_new(json_object_get(run, "results"), result))
        return CERIUM_ERR_MEMORY;
    return CERIUM_OK;
}

int sarif_end(json_t *log, bool whole)
{
    json_t *run = json_array_get(json_object_get(log, "runs"), 0);
    json_t *how = json_pack("[{s:b}]", "executionSuccessful", (int)whole);
    return json_object_set_new(run, "invocations", how) ? CERIUM_ERR_MEMORY : CERIUM_OK;
}
