// Searches the index that tools/site writes: [address, page, heading, text] of each section. No server, no request but for the index.
(() => {
  const root = document.currentScript.dataset.root;
  let loading;
  const load = () => (loading ??= new Promise((loaded, failed) => {
    const script = document.createElement('script');
    script.src = root + 'search-index.js';
    script.onload = () => loaded(window.searchIndex);
    script.onerror = failed;
    document.head.append(script);
  }));

  // A word in a title counts more than one in the text, the beginning of a word more than its middle.
  const score = (text, word, weight) => {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    return weight * (at === 0 || /[^a-z0-9]/.test(text[at - 1]) ? 2 : 1);
  };
  const find = (index, query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const found = [];
    for (const [address, page, heading, text] of index) {
      const [p, h, t] = [page, heading, text].map((s) => s.toLowerCase());
      let sum = 0;
      for (const word of words) {
        const n = score(p, word, heading ? 4 : 8) + score(h, word, 6) + score(t, word, 1);
        if (!n) { sum = 0; break; }
        sum += n;
      }
      if (sum) found.push({ sum, address, page, heading, text });
    }
    return found.sort((a, b) => b.sum - a.sum).slice(0, 20);
  };

  const mark = (element, text, words) => {
    const low = text.toLowerCase();
    let at = 0;
    while (at < text.length) {
      const next = words.map((w) => [low.indexOf(w, at), w]).filter(([i]) => i >= 0).sort(([a], [b]) => a - b)[0];
      if (!next) break;
      element.append(text.slice(at, next[0]), Object.assign(document.createElement('mark'), { textContent: text.slice(next[0], next[0] + next[1].length) }));
      at = next[0] + next[1].length;
    }
    element.append(text.slice(at));
  };
  const excerpt = (text, words) => {
    const low = text.toLowerCase();
    const first = Math.min(...words.map((w) => low.indexOf(w)).filter((i) => i >= 0), text.length);
    const from = first === text.length ? 0 : Math.max(0, first - 40);
    return (from ? '…' : '') + text.slice(from, from + 160);
  };
  const show = (list, found, query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren(...found.map(({ address, page, heading, text }, i) => {
      const item = document.createElement('li'), link = document.createElement('a');
      link.href = root + address;
      if (i === 0) link.className = 'active';
      const title = document.createElement('b'), part = document.createElement('span');
      mark(title, heading ? `${page} › ${heading}` : page, words);
      mark(part, excerpt(text, words), words);
      link.append(title, part);
      item.append(link);
      return item;
    }));
    if (!found.length) list.append(Object.assign(document.createElement('li'), { className: 'nothing', textContent: 'Nothing found' }));
    list.hidden = !words.length;
  };

  for (const input of document.querySelectorAll('.search-input')) {
    const list = input.parentElement.querySelector('.search-results');
    const search = async () => {
      const query = input.value, index = await load();
      if (query === input.value) show(list, find(index, query), query);
    };
    const move = (by) => {
      const links = [...list.querySelectorAll('a')], at = links.findIndex((l) => l.className === 'active');
      const next = links[Math.min(Math.max(at + by, 0), links.length - 1)];
      links.forEach((l) => { l.className = l === next ? 'active' : ''; });
      next?.scrollIntoView({ block: 'nearest' });
    };
    input.addEventListener('focus', load, { once: true });
    input.addEventListener('input', search);
    input.addEventListener('keydown', (e) => {
      if (e.key === 'ArrowDown' || e.key === 'ArrowUp') { e.preventDefault(); move(e.key === 'ArrowDown' ? 1 : -1); }
      if (e.key === 'Enter') list.querySelector('a.active')?.click();
      if (e.key === 'Escape') { input.value = ''; list.hidden = true; input.blur(); }
    });
    document.addEventListener('click', (e) => { if (!input.parentElement.contains(e.target)) list.hidden = true; });
    list.addEventListener('click', () => { list.hidden = true; });
  }
  document.addEventListener('keydown', (e) => {
    if (e.target.matches('input, textarea, select') || !(e.key === '/' || (e.key === 'k' && (e.ctrlKey || e.metaKey)))) return;
    e.preventDefault();
    [...document.querySelectorAll('.search-input')].find((i) => i.offsetParent)?.focus();
  });
})();
