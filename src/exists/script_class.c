/* script_class.c - classes that a CommonJS module exports, and modules named by strings. */
#include "exists/script.h"

/* The string at i as a path in the root. */
bool script_path(scripts *r, uint32_t i)
{
    return code_kind(&r->s, i, TOKEN_STRING) && r->s.t[i].plain &&
           r->find(r->user, code_word(&r->s, i), r->path);
}

/* Static members of the class whose body begins at i. */
void script_statics(scripts *r, uint32_t i)
{
    const code_file *s = &r->s;
    uint32_t stop = code_after(s, i, s->n);
    for (uint32_t k = i + 1; k + 1 < stop;) {
        if (code_is(s, k, "static")) {
            while (code_kind(s, k + 1, TOKEN_NAME) && code_kind(s, k + 2, TOKEN_NAME)) k++;
            if (code_sign(s, k + 1, '*')) k++;
            if (code_kind(s, k + 1, TOKEN_NAME))
                names_add(r->s.b, r->module, code_word(s, k + 1), NAME_VALUE, 0);
            if (code_sign(s, k + 1, '[') || code_sign(s, k + 1, '{'))
                names_open_scope(r->s.b, r->module);
        }
        bool opens = s->t[k].kind == TOKEN_SIGN && token_opens(s->t[k].sign);
        k = opens ? code_after(s, k, stop) : k + 1;
    }
}

/* Names inherited from node's classes. */
static void take_over(scripts *r)
{
    static const char *const names_[] = {
        "once", "on", "listenerCount", "defaultMaxListeners", "captureRejections", "errorMonitor",
        "getEventListeners", "getMaxListeners", "setMaxListeners", "addAbortListener",
        "captureRejectionSymbol", "usingDomains", "init", "EventEmitter", "from", "fromWeb",
        "toWeb", "of", "isDisturbed", "isErrored", "isReadable", "ReadableState", "WritableState",
        "captureStackTrace", "stackTraceLimit", "prepareStackTrace", "keys", "assign", "create"};
    for (size_t i = 0; i < ARRAY_LEN(names_); i++)
        names_add(r->s.b, r->module, view_of(names_[i]), NAME_VALUE, 0);
}

bool script_class_is_foreign(scripts *r, uint32_t i)
{
    static const char *const known[] = {"EventEmitter", "Writable", "Readable", "Duplex",
                                        "Transform", "Error", "TypeError", "Object"};
    for (size_t k = 0; k < ARRAY_LEN(known); k++) {
        if (!code_is(&r->s, i, known[k])) continue;
        take_over(r);
        return false;
    }
    return true;
}
