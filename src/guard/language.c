/* language.c - languages by name, by a file's path, and by how a text begins. */
#include "guard/language.h"

#include <strings.h>

#include "base/text.h"

static const struct {
    const char *name;
    guard_language language;
} names[] = {
    {"python", GUARD_PYTHON},   {"py", GUARD_PYTHON},           {"python3", GUARD_PYTHON},
    {"pyi", GUARD_PYTHON},      {"javascript", GUARD_JAVASCRIPT}, {"js", GUARD_JAVASCRIPT},
    {"jsx", GUARD_JAVASCRIPT},  {"mjs", GUARD_JAVASCRIPT},      {"cjs", GUARD_JAVASCRIPT},
    {"node", GUARD_JAVASCRIPT}, {"typescript", GUARD_TYPESCRIPT}, {"ts", GUARD_TYPESCRIPT},
    {"mts", GUARD_TYPESCRIPT},  {"cts", GUARD_TYPESCRIPT},      {"tsx", GUARD_TSX},
    {"java", GUARD_JAVA},       {"go", GUARD_GO},               {"golang", GUARD_GO},
    {"c", GUARD_C},             {"h", GUARD_C},                 {"cpp", GUARD_CPP},
    {"c++", GUARD_CPP},         {"cc", GUARD_CPP},              {"cxx", GUARD_CPP},
    {"hpp", GUARD_CPP},         {"hh", GUARD_CPP},              {"hxx", GUARD_CPP},
    {"php", GUARD_PHP},         {"phtml", GUARD_PHP},           {"inc", GUARD_PHP},
    {"ruby", GUARD_RUBY},       {"rb", GUARD_RUBY},             {"rake", GUARD_RUBY},
    {"gemspec", GUARD_RUBY},    {"sh", GUARD_SHELL},             {"bash", GUARD_SHELL},
    {"zsh", GUARD_SHELL},       {"shell", GUARD_SHELL},         {"console", GUARD_SHELL},
    {"shellscript", GUARD_SHELL}, {"dockerfile", GUARD_SHELL},  {"docker", GUARD_SHELL},
    {"html", GUARD_HTML},       {"htm", GUARD_HTML},            {"xhtml", GUARD_HTML},
    {"vue", GUARD_HTML},        {"svelte", GUARD_HTML},         {"astro", GUARD_HTML},
    {"ejs", GUARD_HTML},        {"hbs", GUARD_HTML},            {"ipynb", GUARD_NOTEBOOK},
    {"javascriptreact", GUARD_JAVASCRIPT}, {"typescriptreact", GUARD_TSX},
};

guard_language guard_language_named(view name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i].name) == name.len && !strncasecmp(names[i].name, name.ptr, name.len))
            return names[i].language;
    return GUARD_TEXT;
}

guard_language guard_language_of_path(view path)
{
    size_t at = path.len;
    while (at && path.ptr[at - 1] != '.' && path.ptr[at - 1] != '/') at--;
    if (!at || path.ptr[at - 1] == '/') {
        view base = {path.ptr + at, path.len - at};
        if (view_equal(base, VIEW("Dockerfile")) || view_equal(base, VIEW("Containerfile")))
            return GUARD_SHELL;
        return view_equal(base, VIEW("Rakefile")) || view_equal(base, VIEW("Gemfile"))
                   ? GUARD_RUBY
                   : GUARD_TEXT;
    }
    return guard_language_named((view){path.ptr + at, path.len - at});
}

bool guard_is_read_by_lines(guard_language language)
{
    return language == GUARD_TEXT || language == GUARD_SHELL || language == GUARD_HTML ||
           language == GUARD_NOTEBOOK;
}

static bool is_one_of(view word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == word.len && !strncasecmp(list[i], word.ptr, word.len)) return true;
    return false;
}

static bool ends_with(view text, const char *end)
{
    size_t n = strlen(end);
    return text.len >= n && !strncasecmp(text.ptr + text.len - n, end, n);
}

bool guard_path_is_markdown(view path)
{
    return ends_with(path, ".md") || ends_with(path, ".markdown") || ends_with(path, ".mdx");
}

/* By the name of the file: tests.py, test_x.py, x_test.go, x.spec.ts, XTest.java. */
static bool is_soft_name(view name)
{
    static const char *const documents[] = {".md", ".markdown", ".mdx", ".rst", ".adoc", ".txt"};
    static const char *const marks[] = {"_test", "_tests", "_spec", ".test", ".spec", "-test",
                                        "-spec", "Test", "Tests", "TestCase"};
    for (size_t i = 0; i < ARRAY_LEN(documents); i++)
        if (ends_with(name, documents[i])) return true;
    if (view_starts(name, VIEW("test_")) || view_starts(name, VIEW("conftest."))) return true;
    const char *dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;
    view stem = {name.ptr, dot ? (size_t)(dot - name.ptr) : name.len};
    if (view_equal(stem, VIEW("test")) || view_equal(stem, VIEW("tests"))) return true;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t n = strlen(marks[i]);
        if (stem.len > n && !memcmp(stem.ptr + stem.len - n, marks[i], n)) return true;
    }
    return false;
}

bool guard_path_is_soft(view path)
{
    static const char *const folders[] = {
        "test", "tests", "spec", "specs", "__tests__", "testdata", "testing", "fixture",
        "fixtures", "mocks", "__mocks__", "example", "examples", "_examples", "docs", "doc", "e2e",
        "tutorial", "tutorials", "sample", "samples", "demo", "demos"};
    for (size_t at = 0; at < path.len;) {
        const char *slash = memchr(path.ptr + at, '/', path.len - at);
        if (!slash) return is_soft_name((view){path.ptr + at, path.len - at});
        view part = {path.ptr + at, (size_t)(slash - path.ptr) - at};
        if (is_one_of(part, folders, ARRAY_LEN(folders))) return true;
        if (view_starts(part, VIEW("test_")) || view_starts(part, VIEW("testutil"))) return true;
        at += part.len + 1;
    }
    return false;
}

bool guard_path_is_text(view path)
{
    static const char *const ends[] = {
        "yaml", "yml", "json", "jsonl", "ndjson", "json5", "toml", "ini", "cfg", "conf",
        "properties", "env", "csv", "tsv", "txt", "text", "md", "markdown", "rst", "adoc", "tex",
        "log", "xml",
        "svg", "css", "scss", "less", "sql", "lock", "sum", "mod", "proto", "diff", "patch", "po",
        "1", "3", "5", "7", "8", "gitignore", "editorconfig",
    };
    size_t at = path.len;
    while (at && path.ptr[at - 1] != '.' && path.ptr[at - 1] != '/') at--;
    view end = {path.ptr + at, path.len - at};
    if (!at || path.ptr[at - 1] == '/') return false;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (strlen(ends[i]) == end.len && !strncasecmp(ends[i], end.ptr, end.len)) return true;
    return false;
}

bool guard_path_is_other_code(view path)
{
    static const char *const others[] = {
        "asm", "clj",   "cs",  "d",  "dart", "diff", "erl", "ex",  "exs",   "f90", "fish", "fs",
        "groovy", "hs", "jl",   "kt",  "kts", "lua", "m",   "ml",  "mm",    "nim", "pas",
        "patch", "pl",  "pm",  "ps1",  "r",     "rs",  "s",  "scala", "sol", "swift", "vb",  "zig",
    };
    size_t at = path.len;
    while (at && path.ptr[at - 1] != '.' && path.ptr[at - 1] != '/') at--;
    if (!at || path.ptr[at - 1] == '/') return false;
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strlen(others[i]) == path.len - at &&
            !strncasecmp(others[i], path.ptr + at, path.len - at))
            return true;
    return false;
}

const char *guard_language_name(guard_language language)
{
    static const char *const list[GUARD_LANGUAGES] = {"text", "python", "javascript", "typescript",
                                                      "tsx",  "java",   "go",         "c",
                                                      "cpp",  "php",    "ruby",
                                                      "shell", "html",  "notebook"};
    return language < GUARD_LANGUAGES ? list[language] : "text";
}

/* Marks that give away a language, with their weights.  "\n" at the beginning also matches the
 * start of the text. */
static const struct {
    const char *mark;
    guard_language language;
    int worth;
} marks[] = {
    {"<?php", GUARD_PHP, 4},          {"$_GET", GUARD_PHP, 2},
    {"$_POST", GUARD_PHP, 2},         {"$this->", GUARD_PHP, 3},
    {"\npackage main", GUARD_GO, 3},  {":= ", GUARD_GO, 1},
    {"func ", GUARD_GO, 2},           {"\nimport (", GUARD_GO, 2},
    {"import java", GUARD_JAVA, 3},   {"public class", GUARD_JAVA, 3},
    {"private ", GUARD_JAVA, 1},      {"String ", GUARD_JAVA, 1},
    {") throws ", GUARD_JAVA, 3},     {"public static void", GUARD_JAVA, 3},
    {"System.out.", GUARD_JAVA, 2},   {" = new ", GUARD_JAVA, 1},
    {"@Override", GUARD_JAVA, 2},     {"#include <", GUARD_C, 2},
    {"#include \"", GUARD_C, 2},      {"std::", GUARD_CPP, 3},
    {"int main(", GUARD_C, 2},        {"char *", GUARD_C, 3},
    {"char ", GUARD_C, 1},            {"#include <iostream", GUARD_CPP, 2},
    {"import os", GUARD_PYTHON, 1},   {"\nasync def ", GUARD_PYTHON, 2},
    {"from flask", GUARD_PYTHON, 2},  {"):\n", GUARD_PYTHON, 2},
    {"import sys", GUARD_PYTHON, 1},  {"    return ", GUARD_PYTHON, 1},
    {"\nelif ", GUARD_PYTHON, 2},     {"self.", GUARD_PYTHON, 1},
    {"const ", GUARD_JAVASCRIPT, 1},  {"require('", GUARD_JAVASCRIPT, 2},
    {"=> {", GUARD_JAVASCRIPT, 2},    {"function(", GUARD_JAVASCRIPT, 1},
    {"let ", GUARD_JAVASCRIPT, 1},    {"require(\"", GUARD_JAVASCRIPT, 2},
    {" from '", GUARD_JAVASCRIPT, 2}, {" from \"", GUARD_JAVASCRIPT, 2},
    {"\nexport ", GUARD_JAVASCRIPT, 1}, {"function ", GUARD_JAVASCRIPT, 1},
    {" === ", GUARD_JAVASCRIPT, 2},   {"console.log(", GUARD_JAVASCRIPT, 2},
    {"\nend\n", GUARD_RUBY, 3},       {"\nrequire '", GUARD_RUBY, 2},
    {" do |", GUARD_RUBY, 2},         {"params[:", GUARD_RUBY, 2},
    {".each ", GUARD_RUBY, 1},        {"\nend", GUARD_RUBY, 1},
    {"; then", GUARD_SHELL, 3},       {"\nfi\n", GUARD_SHELL, 3},
    {"\ndone", GUARD_SHELL, 2},       {"\nset -e", GUARD_SHELL, 3},
    {"\nsudo ", GUARD_SHELL, 3},      {"\necho ", GUARD_SHELL, 1},
    {"\neval \"", GUARD_SHELL, 2},    {"\ncurl ", GUARD_SHELL, 2},
};

/* A script names its interpreter. */
static guard_language by_first_line(view text)
{
    static const struct {
        const char *word;
        guard_language language;
    } readers[] = {{"python", GUARD_PYTHON}, {"node", GUARD_JAVASCRIPT}, {"ruby", GUARD_RUBY},
                   {"php", GUARD_PHP}, {"bash", GUARD_SHELL}, {"zsh", GUARD_SHELL},
                   {"ksh", GUARD_SHELL}, {"dash", GUARD_SHELL}, {"/sh", GUARD_SHELL}};
    const char *end = memchr(text.ptr ? text.ptr : "", '\n', text.len);
    if (!view_starts(text, VIEW("#!")) || !end) return GUARD_TEXT;
    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        if (memmem(text.ptr, (size_t)(end - text.ptr), readers[i].word, strlen(readers[i].word)))
            return readers[i].language;
    return GUARD_TEXT;
}

static bool is_there(view text, const char *mark)
{
    size_t n = strlen(mark);
    if (memmem(text.ptr, text.len, mark, n)) return true;
    return mark[0] == '\n' && text.len >= n - 1 && !memcmp(text.ptr, mark + 1, n - 1);
}

/* Text that looks like JavaScript may have types of names (TypeScript). */
static bool is_typed(view text)
{
    static const char *const types[] = {": string", ": number", ": boolean", ": void", ": any",
                                        "interface ", ": Promise<", "import type ", " as const"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (is_there(text, types[i])) return true;
    return false;
}

#define DOTTED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."

/* from a.b import c */
static bool is_from_import(view line)
{
    size_t n = 5;
    if (!view_starts(line, VIEW("from "))) return false;
    while (n < line.len && strchr(DOTTED, line.ptr[n]) && line.ptr[n]) n++;
    view rest = {line.ptr + n, line.len - n};
    return n > 5 && (view_starts(rest, VIEW(" import ")) || view_equal(rest, VIEW(" import")));
}

/* import a, and import a.b as c: other languages end it with a sign, or write more of the name. */
static bool is_plain_import(view line)
{
    size_t n = 7;
    bool dotted = false;
    if (!view_starts(line, VIEW("import "))) return false;
    for (; n < line.len && strchr(DOTTED, line.ptr[n]) && line.ptr[n]; n++) {
        if (line.ptr[n] >= 'A' && line.ptr[n] <= 'Z') return false;
        dotted |= line.ptr[n] == '.';
    }
    view rest = {line.ptr + n, line.len - n};
    return n > 7 && (rest.len ? view_starts(rest, VIEW(" as ")) : !dotted);
}

/* Python and Ruby both have functions that begin with def: Python's heads end with a colon. */
static void score_defs(view text, int *score)
{
    for (size_t at = 0, end; at < text.len; at = end + 1) {
        const char *stop = memchr(text.ptr + at, '\n', text.len - at);
        end = stop ? (size_t)(stop - text.ptr) : text.len;
        view line = {text.ptr + at, end - at};
        while (line.len && strchr(" \t", line.ptr[0])) line.ptr++, line.len--;
        while (line.len && strchr(" \t\r", line.ptr[line.len - 1])) line.len--;
        if (is_from_import(line)) score[GUARD_PYTHON] += 2;
        if (stop && is_plain_import(line)) score[GUARD_PYTHON]++;
        if (!stop || !view_starts(line, VIEW("def "))) continue;
        char last = line.ptr[line.len - 1];
        if (last == ':') score[GUARD_PYTHON] += 2;
        else if (!strchr("(,", last)) score[GUARD_RUBY] += 2;
    }
}

guard_language language_detect(view text)
{
    int score[GUARD_LANGUAGES] = {0};
    guard_language best = by_first_line(text);
    if (best != GUARD_TEXT || !text.len) return best;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (is_there(text, marks[i].mark)) score[marks[i].language] += marks[i].worth;
    score_defs(text, score);
    for (int l = 1; l < GUARD_LANGUAGES; l++)
        if (score[l] > score[best]) best = (guard_language)l;
    return best == GUARD_JAVASCRIPT && is_typed(text) ? GUARD_TYPESCRIPT : best;
}

guard_language language_guess(view text)
{
    guard_language known = language_detect(text);
    if (known != GUARD_TEXT) return known;
    while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1])) text.len--;
    if (!text.len || !(view_has(text, "(") || view_has(text, "="))) return GUARD_TEXT;
    bool semicolon = text.ptr[text.len - 1] == ';' || view_has(text, ";\n");
    if (view_has(text, "$") && (view_has(text, "->") || semicolon)) return GUARD_PHP;
    if (view_has(text, "fmt.") || view_has(text, "err != nil")) return GUARD_GO;
    if (semicolon && (view_has(text, "new ") || view_has(text, "String "))) return GUARD_JAVA;
    if (semicolon && (view_has(text, "char ") || view_has(text, "->") || view_has(text, "NULL")))
        return GUARD_C;
    if (semicolon || view_has(text, "`") || view_has(text, "await ")) return GUARD_JAVASCRIPT;
    return view_has(text, "puts ") || view_has(text, "@") ? GUARD_RUBY : GUARD_PYTHON;
}
