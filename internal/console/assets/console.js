// What htmx does not do: keys, the age of the page, and a stream that is paused.
"use strict";
(() => {
  const period = 2000, shownEntries = 500;
  const lost = document.getElementById("lost");

  // "/" goes to the search.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    document.getElementById("q").focus();
  });

  // A hidden page sends no requests: a browser opens six connections to a host. A selection stays in place.
  const polls = (event) => event.target.id === "content" && event.target.hasAttribute("hx-get");
  document.addEventListener("htmx:before:request", (event) => {
    if (polls(event) && (document.hidden || !document.getSelection().isCollapsed)) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    const content = document.getElementById("content");
    if (!document.hidden && content.hasAttribute("hx-get")) htmx.trigger(content, "every");
  });

  // The age of what is shown, when it is older than the next answer should be.
  setInterval(() => {
    const age = Date.now() - (shownAt || Date.now());
    const text = age > 2 * period + 1000 ? "(" + Math.round(age / 1000) + " s old)" : "";
    const place = document.getElementById("age");
    if (place && place.textContent !== text) place.textContent = text;
  }, 1000);
  let shownAt = document.getElementById("content").matches("[hx-get], [hx-sse\\:connect]") ? Date.now() : 0;
  const fresh = new MutationObserver(() => { if (shownAt) shownAt = Date.now(); });
  fresh.observe(document.getElementById("asof"), { subtree: true, attributes: true, attributeFilter: ["datetime"] });

  // The console itself has ended, or rejects the page.
  const ended = (text) => {
    const line = document.createElement("p");
    line.textContent = text;
    lost.replaceChildren(line);
  };
  document.addEventListener("htmx:error", () =>
    ended("No answer from the console: it has ended, start it again. The page shows what was known then."));
  document.addEventListener("htmx:sse:error", () =>
    ended("No answer from the console: it has ended, start it again. The page shows what was known then."));
  document.addEventListener("htmx:before:swap", (event) => {
    const status = event.detail.ctx?.response?.status;
    if (status >= 400) {
      event.preventDefault();
      ended("The console rejects the page (" + status + "): press Enter in its terminal for another address.");
    }
  });

  // The stream of runs: its end is in view unless one has scrolled up, and it waits while it is paused.
  // The elements may come later, when the operator is slow.
  let resume = null, paused = null, atEnd = true;
  document.addEventListener("click", (event) => {
    const pause = event.target.closest?.("#pause");
    if (!pause) return;
    if (resume) { resume(); resume = paused = null; } else paused = new Promise((done) => { resume = done; });
    pause.textContent = resume ? "Continue" : "Pause";
    pause.setAttribute("aria-pressed", String(!!resume));
  });
  document.addEventListener("htmx:sse:before:message", (event) => {
    const entries = event.target;
    if (entries.id !== "entries") return;
    if (paused) event.detail.waitUntil(paused);
    atEnd = entries.scrollHeight - entries.scrollTop - entries.clientHeight < 40;
  });
  document.addEventListener("htmx:sse:after:message", (event) => {
    const entries = event.target;
    if (entries.id !== "entries") return;
    while (entries.children.length > shownEntries) entries.firstElementChild.remove();
    if (atEnd) entries.scrollTop = entries.scrollHeight;
  });
})();
