/* replay.h - recorded answers in place of sampled ones, for tests and shows with a tiny model.
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
 *   model     what the request calls the model
 *   api       "responses", "chat", "completions", "infill", "edits" or "compact"
 *   nth       1 is the first request that fulfils the rest of this "when", 2 the next, ...
 * The first line that matches answers; it is used once, or for ever with "repeat": true.  What no
 * line matches, the model answers.  Warm-ups use no line.  "corrected" is what is said where the
 * watchdog takes a line back, one text a time, from that line to the end of the answer; where it
 * has no more, the line's safe form is said, or a refusal, and then what stood after it. */
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

/* The recorded answer to a request, whose line counts as used from now on: *output is borrowed
 * from the replay, as are *corrected, texts in an array, or NULL.  False when no line matches.
 * Callable from any thread. */
bool replay_take(replay *r, const protocol_request *request, view *output, json_t **corrected);

uint32_t replay_lines(const replay *r);

#endif
