/* actions.c - the names of actions on weak lines. */
#include "watch/watch_parts.h"

const char *watch_action_name(cerium_finding_action action)
{
    static const char *const names[CERIUM_FINDING_ACTIONS] = {
        [CERIUM_FINDING_RETRACTED] = "taken_back", [CERIUM_FINDING_REWRITTEN] = "rewritten",
        [CERIUM_FINDING_WARNED] = "warned",        [CERIUM_FINDING_BLOCKED] = "blocked",
        [CERIUM_FINDING_REPLACED] = "replaced",    [CERIUM_FINDING_WITHHELD] = "withheld",
        [CERIUM_FINDING_KNOWN] = "known"};
    CHECK(action < CERIUM_FINDING_ACTIONS);
    return names[action];
}
