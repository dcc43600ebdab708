// Exchanges the token of the address for the cookie, and opens the page.
"use strict";
(async () => {
  const token = location.hash.slice(1), state = document.getElementById("state");
  const base = location.pathname.replace(/\/open$/, "");
  const to = new URLSearchParams(location.search).get("to") || "/";
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const answer = await fetch(base + "/open", { method: "POST", body: new URLSearchParams({ token }) });
    if (!answer.ok) throw new Error(await answer.text());
    location.replace(base + "/" + to.replace(/^\/+/, ""));
  } catch (error) {
    state.textContent = error.message;
  }
})();
