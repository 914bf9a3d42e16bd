// The search, the switch between versions, and the menu of narrow screens. Without this script the
// pages can be read all the same.
(() => {
  const { root, version } = document.body.dataset;
  const box = document.getElementById("search"), found = document.getElementById("found");

  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const find = (query) => {
    const all = words(query);
    if (all.length === 0) return [];
    const scored = [];
    for (const e of window.entries) {
      const heading = (e.page + " " + e.heading).toLowerCase(), text = e.text.toLowerCase();
      let score = 0;
      for (const w of all) {
        const points = (heading.includes(w) ? 10 : 0) + (text.includes(w) ? 1 : 0);
        if (points === 0) { score = 0; break; }
        score += points;
      }
      if (score > 0) scored.push([score, e]);
    }
    return scored.sort((a, b) => b[0] - a[0]).slice(0, 20).map(([, e]) => e);
  };
  const show = () => {
    const hits = find(box.value);
    found.replaceChildren(...hits.map((e) => {
      const item = document.createElement("li"), a = document.createElement("a");
      const where = document.createElement("small");
      a.href = root + e.address;
      a.textContent = e.heading;
      const first = words(box.value)[0], at = Math.max(0, e.text.toLowerCase().indexOf(first) - 30);
      where.textContent = e.page + ": " + e.text.slice(at, at + 120);
      a.append(where);
      item.append(a);
      return item;
    }));
    if (hits.length === 0 && box.value.trim()) {
      const item = document.createElement("li");
      item.textContent = "Nothing found.";
      found.append(item);
    }
    found.hidden = box.value.trim() === "";
  };
  box.addEventListener("input", show);
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== box) { e.preventDefault(); box.focus(); }
    if (e.key === "Escape") { box.value = ""; show(); }
  });

  const versions = document.getElementById("versions");
  versions.replaceChildren(...(window.versions || [version]).map((v) => new Option(v, v, v === version, v === version)));
  versions.addEventListener("change", () => {
    location.href = root + "../" + versions.value + "/index.html";
  });

  if (matchMedia("(max-width: 50rem)").matches) document.querySelector("nav details").open = false;
})();
