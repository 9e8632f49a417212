// words.js - what the page says where it has nothing to show.

const REASONS = {
  stop: "The model has nothing to add here.",
  length: "The model has nothing to add here.",
  unsure: "Nothing shown: the model is not sure enough here.",
  content_filter: "Kept back by the watchdog.",
  context: "The text is longer than the model can read.",
  failed: "The server failed at this place.",
};

/** Why a completion that ended so shows nothing, when it shows nothing; "" when nobody waits for
 * it any more. */
export function reason(how, message = "") {
  if (how === "error") return message || REASONS.failed;
  return REASONS[how] ?? "";
}

/** Was the first model of /v1/models made to complete code and not to chat?  It is when the file
 * says so, or when Codex's catalog, which is in the same answer, has nobody who chats. */
export function completesOnly(models) {
  return models.data?.[0]?.completes_only === true || models.models?.length === 0;
}
