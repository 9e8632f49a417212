// metrics.js - the server's metrics: Prometheus text, read while the page is visible.

const EVERY_MS = 2000;

/** Sums of the series that the page shows, by name without its prefix. */
export function parse(text) {
  const sums = {};
  for (const line of text.split("\n")) {
    const match = /^(?:vllm|cerium)[:_](\w+)(?:\{.*\})?\s+(\S+)/.exec(line);
    if (match) sums[match[1]] = (sums[match[1]] ?? 0) + Number(match[2]);
  }
  return sums;
}

/** Calls show({running, waiting, kv, rate}) with known values; get(path) is fetch with the key. */
export function watch(get, show) {
  let before = null;
  const look = async () => {
    if (document.hidden) return;
    try {
      const answer = await get("metrics");
      if (!answer.ok) throw new Error(answer.status);
      const sums = parse(await answer.text());
      const now = { at: performance.now(), tokens: sums.engine_new_tokens_total };
      const rate =
        before && now.tokens >= before.tokens
          ? ((now.tokens - before.tokens) * 1000) / (now.at - before.at)
          : undefined;
      before = now;
      show({
        running: sums.num_requests_running,
        waiting: sums.num_requests_waiting,
        kv: sums.kv_cache_usage_perc,
        rate,
      });
    } catch {
      before = null;
      show({});
    }
  };
  setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", look);
  look();
}

/** Percent left of the tightest limit in codex.rate_limits; undefined if there is none. */
export function left({ rate_limits: limits }) {
  const used = [limits?.primary, limits?.secondary]
    .map((window) => window?.used_percent)
    .filter((percent) => percent !== undefined);
  return used.length ? Math.max(0, 100 - Math.max(...used)) : undefined;
}
