// words.js - the page's words when there is nothing to show.

const REASONS = {
  stop: "The model has nothing to add here.",
  length: "The model has nothing to add here.",
  unsure: "Nothing shown: the model is not sure enough here.",
  content_filter: "Kept back by the watchdog.",
  context: "The text is longer than the model can read.",
  failed: "The server failed at this place.",
};

/** Why a completion with this end shows nothing, if so; "" if no one waits for
 * it any more. */
export function reason(how, message = "") {
  if (how === "error") return message || REASONS.failed;
  return REASONS[how] ?? "";
}

/** The model of /v1/models that chats if none is named, by the server's choice; undefined: all
 * only complete code.  The file of a model says so, or Codex's catalog, which is in the
 * same answer, has no chat model. */
export function talker(models) {
  if (models.models?.length === 0) return undefined;
  return models.data?.find((one) => !one.completes_only);
}

/** Whether no model chats, as far as is known. */
export function completesOnly(models) {
  return models.data !== undefined && !talker(models);
}

/** The answering models, in words: the one that completes, and the one that chats if different. */
export function whoAnswers(models) {
  const first = models.data?.find((one) => one.fill_in_middle) ?? models.data?.[0];
  const talks = talker(models);
  return [...new Set([first?.id, talks?.id])].filter(Boolean).join(" · ");
}
