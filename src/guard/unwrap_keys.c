/* unwrap_keys.c - the names of a call's arguments, as clients have them. */
#include "base/text.h"
#include "guard/unwrap.h"

/* old_str, oldText, old_lines, ...: clients have many names for the same. */
static bool begins_so(view key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (view_starts(key, view_of(list[i]))) return true;
    return false;
}

bool unwrap_key_is_path(view key)
{
    static const char *const keys[] = {"path", "file", "filepath", "filename", "targetfile",
                                       "targetfilepath", "notebookpath", "absolutepath",
                                       "relativepath", "relativeworkspacepath", "uri", "target",
                                       "targetpath", "fileuri", "targetfilename"};
    return view_is_one_of(key, keys, ARRAY_LEN(keys));
}

bool unwrap_key_is_old(view key)
{
    static const char *const keys[] = {"from", "find", "findtext", "findstring", "targetcontent",
                                       "pattern", "match", "matchtext"};
    static const char *const begins[] = {"old", "search", "original", "before", "previous",
                                         "existing"};
    return view_is_one_of(key, keys, ARRAY_LEN(keys)) || begins_so(key, begins, ARRAY_LEN(begins));
}

bool unwrap_key_is_new(view key)
{
    static const char *const begins[] = {"new", "replace", "updated", "after", "modified"};
    return view_equal(key, VIEW("to")) || begins_so(key, begins, ARRAY_LEN(begins));
}

bool unwrap_key_is_diff(view key)
{
    static const char *const keys[] = {"diff", "patch", "unifieddiff", "patchtext", "diffcontent",
                                       "patchcontent", "difftext"};
    return view_is_one_of(key, keys, ARRAY_LEN(keys));
}
