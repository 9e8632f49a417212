/* watch_policy.c - the action on each weakness, in the words of options and requests. */
#include "watch/watch.h"

static const char *const actions[] = {"off", "warn", "block"};

/* The number of the weakness "exists" (missing names); it blocks only if an option names it. */
static uint32_t kind_of_names(void)
{
    uint32_t i = 0;
    while (strcmp(guard_weakness_name(i), "exists") != 0) i++;
    return i;
}

static void set_all(watch_policy *p, watch_action action)
{
    memset(p->action, action, sizeof p->action);
    if (action == WATCH_BLOCK) p->action[kind_of_names()] = WATCH_WARN;
}

watch_policy watch_policy_strict(void)
{
    watch_policy p = {.opens_late = false};
    set_all(&p, WATCH_BLOCK);
    return p;
}

bool watch_policy_uses_names(const watch_policy *p)
{
    return p->action[kind_of_names()] != WATCH_OFF;
}

static bool read_action(view text, watch_action *out)
{
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        if (!view_equal(text, view_of(actions[i]))) continue;
        *out = (watch_action)i;
        return true;
    }
    return false;
}

bool watch_policy_set(watch_policy *p, view text)
{
    watch_action action;
    const char *sign = text.len ? memchr(text.ptr, '=', text.len) : NULL;
    view class_ = {text.ptr, sign ? (size_t)(sign - text.ptr) : 0};
    if (sign) text = (view){sign + 1, text.len - class_.len - 1};
    if (!read_action(text, &action)) return false;
    if (!sign) set_all(p, action);
    for (uint32_t i = 0; i < WATCH_KINDS_MAX && guard_weakness_name(i); i++) {
        if (!sign || !view_equal(class_, view_of(guard_weakness_name(i)))) continue;
        p->action[i] = (uint8_t)action;
        return true;
    }
    return !sign;
}

bool watch_policy_set_all(watch_policy *p, view text)
{
    watch_policy made = *p;
    for (;;) {
        const char *comma = text.len ? memchr(text.ptr, ',', text.len) : NULL;
        view word = {text.ptr, comma ? (size_t)(comma - text.ptr) : text.len};
        if (!watch_policy_set(&made, view_trim(word, " "))) return false;
        if (!comma) break;
        text.len -= (size_t)(comma + 1 - text.ptr);
        text.ptr = comma + 1;
    }
    *p = made;
    return true;
}

bool watch_policy_set_late(watch_policy *p, view text)
{
    bool opens = view_equal(text, VIEW("open"));
    if (!opens && !view_equal(text, VIEW("hold"))) return false;
    p->opens_late = opens;
    return true;
}

void watch_policy_tighten(watch_policy *p, const watch_policy *by)
{
    for (uint32_t i = 0; i < WATCH_KINDS_MAX; i++)
        if (by->action[i] > p->action[i]) p->action[i] = by->action[i];
    p->opens_late &= by->opens_late;
}

watch_action watch_policy_action(const watch_policy *p, const guard_finding *f)
{
    uint32_t kind = f->kind < WATCH_KINDS_MAX ? f->kind : WATCH_KINDS_MAX - 1;
    watch_action action = (watch_action)p->action[kind];
    if (f->severity == GUARD_NOTE) return WATCH_OFF;
    return f->severity == GUARD_WARN && action == WATCH_BLOCK ? WATCH_WARN : action;
}

bool watch_policy_is_off(const watch_policy *p)
{
    for (uint32_t i = 0; i < WATCH_KINDS_MAX; i++)
        if (p->action[i] != WATCH_OFF) return false;
    return true;
}
