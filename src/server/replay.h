/* replay.h - recorded answers in place of sampled ones, for tests and demonstrations with a tiny
 * model.
 *
 * A script has one JSON object a line:
 *   {"when": {"last": "list the files", "has_tool": "exec_command"}, "output": "<tool_call>..."}
 *   {"when": {"last": "find a user"}, "output": "...", "corrected": ["..."]}
 * "output" is text in the model family's own form, as the model would have sampled it, without
 * the token that ends its turn.  "when" may be left out, and so may each of its parts:
 *   last      text that the newest message of the user or a tool contains; of completions and
 *             infill, text that the prompt contains
 *   role      "user" or "tool": whose message that is
 *   has_tool  name of a tool that the request offers
 *   model  the model's name in the request
 *   api       "responses", "chat", "completions", "infill", "edits" or "compact"
 *   nth       1 is the first request that fulfils the rest of this "when", 2 the next, ...
 * The first line that matches answers; it is used once, or for ever with "repeat": true.  The model
 * answers requests that no line matches.  Warm-ups use no line.  "corrected" replaces text that the
 * watchdog retracts, one text each time, from the weak line to the end of the answer; when it has
 * no more, the line's safe form is used, or a refusal, and then the text after it. */
#ifndef SERVER_REPLAY_H
#define SERVER_REPLAY_H

#include "protocol/protocol.h"

typedef struct replay replay;

/* Pure; name: of the script, for messages ("script.jsonl:3: ...").  *out owned.
 * CERIUM_ERR_FORMAT, CERIUM_ERR_CAPACITY, CERIUM_ERR_MEMORY.  Fuzzed. */
CERIUM_CHECKED int replay_parse(replay **out, view script, const char *name, cerium_error *err);
/* The same for a file. CERIUM_ERR_IO. */
CERIUM_CHECKED int replay_open(replay **out, const char *path, cerium_error *err);
void replay_free(replay **r);

/* The recorded answer to a request; its line then counts as used: *output is borrowed from the
 * replay, and so is *corrected, texts in an array, or NULL.  False when no line matches.  Callable
 * from any thread. */
bool replay_take(replay *r, const protocol_request *request, view *output, json_t **corrected);

uint32_t replay_lines(const replay *r);

#endif
