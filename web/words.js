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

/** The model of /v1/models that talks where none is named, as the server chooses it; undefined: all
 * were made to complete code.  The file of a model says so, or Codex's catalog, which is in the
 * same answer, has nobody who chats. */
export function talker(models) {
  if (models.models?.length === 0) return undefined;
  return models.data?.find((one) => !one.completes_only);
}

/** Is there nobody who talks, as far as is known? */
export function completesOnly(models) {
  return models.data !== undefined && !talker(models);
}

/** Who answers, in words: who completes, and who talks where that is another. */
export function whoAnswers(models) {
  const first = models.data?.find((one) => one.fill_in_middle) ?? models.data?.[0];
  const talks = talker(models);
  return [...new Set([first?.id, talks?.id])].filter(Boolean).join(" · ");
}
