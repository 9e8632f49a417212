/* language.c - languages by name, by a file's path, and by how a text begins. */
#include "guard/language.h"

#include <strings.h>

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
    {"gemspec", GUARD_RUBY},
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
        return view_equal(base, VIEW("Rakefile")) || view_equal(base, VIEW("Gemfile"))
                   ? GUARD_RUBY
                   : GUARD_TEXT;
    }
    return guard_language_named((view){path.ptr + at, path.len - at});
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
        "asm", "bash", "clj",   "cs",  "d",  "dart", "erl", "ex",  "exs",   "f90", "fish", "fs",
        "groovy", "hs", "jl",   "kt",  "kts", "lua", "m",   "ml",  "mm",    "nim", "pas",  "pl",
        "pm",  "ps1",  "r",     "rs",  "s",  "scala", "sh", "sol", "swift", "vb",  "zig",  "zsh",
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
                                                      "cpp",  "php",    "ruby"};
    return language < GUARD_LANGUAGES ? list[language] : "text";
}

/* Marks by which a language gives itself away; the more of them, the surer. */
static const struct {
    const char *mark;
    guard_language language;
} marks[] = {
    {"<?php", GUARD_PHP},           {"$_GET", GUARD_PHP},       {"$_POST", GUARD_PHP},
    {"package main", GUARD_GO},     {":= ", GUARD_GO},          {"func ", GUARD_GO},
    {"import java", GUARD_JAVA},    {"public class", GUARD_JAVA}, {"private ", GUARD_JAVA},
    {"#include <", GUARD_C},        {"std::", GUARD_CPP},       {"int main(", GUARD_C},
    {"char *", GUARD_C},            {"#include <iostream", GUARD_CPP},
    {"\ndef ", GUARD_PYTHON},       {"import os", GUARD_PYTHON}, {"from flask", GUARD_PYTHON},
    {"):\n", GUARD_PYTHON},         {"import sys", GUARD_PYTHON}, {"    return ", GUARD_PYTHON},
    {"const ", GUARD_JAVASCRIPT},   {"require('", GUARD_JAVASCRIPT}, {"=> {", GUARD_JAVASCRIPT},
    {"function(", GUARD_JAVASCRIPT}, {"let ", GUARD_JAVASCRIPT}, {"require(\"", GUARD_JAVASCRIPT},
    {"\nend\n", GUARD_RUBY},        {"require '", GUARD_RUBY},  {" do |", GUARD_RUBY},
    {"params[:", GUARD_RUBY},       {".each ", GUARD_RUBY},
};

guard_language language_detect(view text)
{
    int score[GUARD_LANGUAGES] = {0};
    guard_language best = GUARD_TEXT;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (memmem(text.ptr, text.len, marks[i].mark, strlen(marks[i].mark)))
            score[marks[i].language]++;
    for (int l = 1; l < GUARD_LANGUAGES; l++)
        if (score[l] > score[best]) best = (guard_language)l;
    return best;
}
