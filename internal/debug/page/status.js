// Refreshes the content while the page is visible.
"use strict";
(() => {
  const period = 2000, timeout = 10000;
  const live = document.getElementById("live");
  let timer = 0, asking = null;

  const say = (word, text) => { live.className = word; live.textContent = text; };

  const refresh = async () => {
    clearTimeout(timer);
    if (document.hidden || asking) return;
    asking = new AbortController();
    const late = setTimeout(() => asking.abort(), timeout);
    try {
      const answer = await fetch("/", { signal: asking.signal, cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error("status " + answer.status);
      // The parser runs no scripts, and the server has escaped everything.
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("status");
      // A selection stays in place.
      if (document.getSelection().isCollapsed) document.getElementById("status").replaceWith(document.adoptNode(fresh));
      say("on", "live, as of " + new Date().toLocaleTimeString());
    } catch {
      say("off", "no answer from the operator since " + (live.dataset.since ||= new Date().toLocaleTimeString()));
    } finally {
      clearTimeout(late);
      asking = null;
      if (live.className === "on") delete live.dataset.since;
    }
    if (!document.hidden) timer = setTimeout(refresh, period);
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) say("", "paused"); else refresh();
  });
  refresh();
})();
