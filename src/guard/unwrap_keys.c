/* unwrap_keys.c - the names of a call's arguments, as clients have them. */
#include "guard/unwrap.h"

static bool is_one_of(view key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (view_equal(key, view_of(list[i]))) return true;
    return false;
}

bool unwrap_key_is_path(view key)
{
    static const char *const keys[] = {"path", "file", "filepath", "filename", "targetfile",
                                       "targetfilepath", "notebookpath", "absolutepath",
                                       "relativepath", "relativeworkspacepath"};
    return is_one_of(key, keys, ARRAY_LEN(keys));
}

bool unwrap_key_is_old(view key)
{
    static const char *const keys[] = {"oldstr", "oldstring", "oldtext", "oldcode", "oldcontent",
                                       "oldsource", "search", "find", "original", "before",
                                       "targetcontent"};
    return is_one_of(key, keys, ARRAY_LEN(keys));
}

bool unwrap_key_is_new(view key)
{
    static const char *const keys[] = {"newstr", "newstring", "newtext", "newcode", "newcontent",
                                       "newsource", "replace", "replacement", "updated", "after",
                                       "replacementcontent"};
    return is_one_of(key, keys, ARRAY_LEN(keys));
}
