"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  // All text enters the page as text nodes; nothing here ever parses HTML.
  const el = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes || {})) node.setAttribute(k, v);
    node.append(...children);
    return node;
  };
  const svg = (tag, attributes) => {
    const node = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
    return node;
  };
  const number = (x) => (x === null ? "?" : Math.abs(x) >= 100 ? x.toFixed(1) : String(+x.toPrecision(4)));

  // -- light and dark ------------------------------------------------------------------------
  const root = document.documentElement;
  const theme = $("theme");
  const dark = () =>
    root.style.colorScheme ? root.style.colorScheme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  label();
  theme.addEventListener("click", () => {
    root.style.colorScheme = dark() ? "light" : "dark";
    label();
    drawMatrix();
  });

  // -- tables that sort ----------------------------------------------------------------------
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.classList.contains("nosort")) return;
      const button = el("button", { type: "button", class: "sort" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("num") || head.classList.contains("barcell");
        const now = head.getAttribute("aria-sort");
        // Numbers are wanted large first, names and places from the beginning.
        const first = numeric && head.dataset.key !== "rank" ? "descending" : "ascending";
        const next = now === null ? first : now === "ascending" ? "descending" : "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        const body = table.tBodies[0];
        const key = (row) => {
          const cell = row.cells[column];
          return numeric ? Number(cell.dataset.v ?? cell.textContent) : cell.textContent.trim();
        };
        const rows = [...body.rows].map((row) => [key(row), row]);
        rows.sort(([a], [b]) => sign * (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true })));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // -- copy buttons --------------------------------------------------------------------------
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = $(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source); // no clipboard for pages from disk
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // -- the page of a run that goes on ------------------------------------------------------------
  const live = $("live");
  if (live) {
    const pause = $("pause");
    let paused = false;
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.textContent = paused ? "Resume" : "Pause";
    });
    setInterval(() => {
      const reading = document.querySelector(".docs details[open]") || $("q").value;
      if (!paused && !reading) location.reload();
    }, 1000 * Number(live.dataset.refresh));
  }

  // -- the figure as a file ----------------------------------------------------------------------
  const save = $("save");
  if (save) {
    save.hidden = false;
    const offer = (blob, ending) => {
      const url = URL.createObjectURL(blob);
      el("a", { href: url, download: `${save.dataset.name.replace(/[^\w.-]+/g, "_")}.${ending}` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    };
    save.addEventListener("click", (event) => {
      const kind = event.target.dataset.save;
      if (!kind) return;
      const drawing = document.querySelector(".paper");
      const text = new XMLSerializer().serializeToString(drawing);
      if (kind === "svg") { offer(new Blob([text], { type: "image/svg+xml" }), kind); return; }
      const image = new Image();
      image.onload = () => {
        const sheet = el("canvas", {});
        sheet.width = 3 * drawing.width.baseVal.value;
        sheet.height = 3 * drawing.height.baseVal.value;
        sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
        sheet.toBlob((blob) => offer(blob, kind), "image/png");
      };
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    });
  }

  // -- which lines are in colour ---------------------------------------------------------------
  const chips = $("chips");
  if (chips) {
    const used = new Map(); // line -> colour
    for (const chip of chips.children)
      if (chip.getAttribute("aria-pressed") === "true") used.set(chip.dataset.line, Number(chip.dataset.line));
    const heat = (on) => (event) => {
      const chip = event.target.closest("button");
      if (!chip) return;
      for (const node of document.querySelectorAll(`path.l${chip.dataset.line}`))
        node.classList.toggle("hot", on);
    };
    for (const kind of ["mouseover", "focusin"]) chips.addEventListener(kind, heat(true));
    for (const kind of ["mouseout", "focusout"]) chips.addEventListener(kind, heat(false));
    chips.addEventListener("click", (event) => {
      const chip = event.target.closest("button");
      if (!chip) return;
      const line = chip.dataset.line;
      const on = !used.has(line);
      let colour = used.get(line);
      if (on) {
        colour = 0;
        const taken = new Set(used.values());
        while (taken.has(colour)) colour += 1;
        colour %= 8;
        used.set(line, colour);
      } else used.delete(line);
      chip.setAttribute("aria-pressed", String(on));
      for (const node of [chip, ...document.querySelectorAll(`path.l${line}`)]) {
        node.classList.toggle("on", on && node !== chip);
        node.classList.toggle(`c${colour}`, on);
      }
    });
  }

  // -- pairs ---------------------------------------------------------------------------------
  const order = data.order;
  // The page has each pair once, the better model first.
  const pairOf = (i, j) => {
    const [first, offset] = [Math.min(i, j), Math.abs(i - j) - 1];
    const p = data.p[first][offset];
    return { p: p < 0 || i < j ? p : 100 - p, decided: data.decided[first][offset] === "1", first, offset };
  };
  const sayPair = (i, j) => {
    const { p, decided, first, offset } = pairOf(i, j);
    if (p < 0) return "not compared: both have full results";
    const shown = p > 99.9 ? ">99.9" : p < 0.1 ? "<0.1" : String(+p.toFixed(1));
    const state = decided ? "decided" : "not decided";
    return `${shown}%, ${state}: ${data.models[order[first]]} leads by ${data.leads[first][offset]}`;
  };
  const compare = $("compare");
  if (compare && order.length > 1) {
    compare.hidden = false;
    const [a, b] = [$("pair-a"), $("pair-b")];
    order.forEach((m, i) => {
      for (const select of [a, b]) select.append(el("option", { value: i }, `${i + 1} ${data.models[m]}`));
    });
    b.value = 1;
    const show = () => {
      if (a.value === b.value) { $("pair-out").textContent = "Choose two models."; return; }
      $("pair-out").textContent = sayPair(+a.value, +b.value);
    };
    compare.addEventListener("change", show);
    compare.addEventListener("submit", (event) => event.preventDefault());
    show();
  }
  const canvas = $("matrix");
  const cell = canvas ? Math.max(4, Math.min(22, Math.floor(1000 / order.length))) : 0;
  function drawMatrix() {
    if (!canvas) return;
    const n = order.length;
    const density = window.devicePixelRatio || 1;
    canvas.width = canvas.height = n * cell * density;
    canvas.style.width = canvas.style.height = `${n * cell}px`;
    const ctx = canvas.getContext("2d");
    ctx.scale(density, density);
    // The colours of the page's own classes, so that light and dark are right.
    const probe = el("span");
    document.body.append(probe);
    const colours = [...Array(11).keys()].map((step) => {
      probe.className = `p${step}`;
      return getComputedStyle(probe).backgroundColor;
    });
    const ink = getComputedStyle(document.body).color;
    probe.remove();
    const gap = cell > 8 ? 1 : 0;
    for (let i = 0; i < n; i += 1)
      for (let j = 0; j < n; j += 1) {
        const { p, decided } = i === j ? { p: -1 } : pairOf(i, j);
        if (p < 0) continue;
        ctx.fillStyle = colours[Math.round(p / 10)];
        ctx.fillRect(j * cell, i * cell, cell - gap, cell - gap);
        if (cell > 8 && decided) {
          ctx.strokeStyle = ink;
          ctx.lineWidth = 0.6;
          ctx.strokeRect(j * cell + 1, i * cell + 1, cell - 3, cell - 3);
        }
      }
  }
  drawMatrix();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMatrix);
  if (canvas) {
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      const [j, i] = [(event.clientX - box.left) / cell, (event.clientY - box.top) / cell].map(Math.floor);
      if (i === j || !(i in order) || !(j in order)) return;
      $("matrix-out").textContent =
        `P(${data.models[order[i]]} better than ${data.models[order[j]]}) = ${sayPair(i, j)}`;
    };
    canvas.addEventListener("mousemove", point);
    canvas.addEventListener("click", point);
  }

  // -- documents -----------------------------------------------------------------------------
  const [FIRST, PAGE] = [10, 40];
  const docs = data.docs;
  const [list, more, form] = [$("docs"), $("more"), $("doc-form")];
  const [query, first, second, sorting] = [$("q"), $("doc-a"), $("doc-b"), $("doc-sort")];
  form.hidden = false;
  const answered = new Set(docs.flatMap((doc) => doc.a.map((a) => a[0])));
  data.models.forEach((name, m) => {
    if (!answered.has(m)) return;
    for (const select of [first, second]) select.append(el("option", { value: m }, name));
  });
  let shown = [];
  let drawn = 0;
  const haystacks = new Array(docs.length);
  const haystack = (doc, i) =>
    (haystacks[i] ??= [doc.id, doc.p?.[0] ?? "", doc.t?.[0] ?? "", ...doc.a.map((a) => a[4])]
      .join("\u0001").toLowerCase());
  const unitOf = (doc, m) => doc.a.find((a) => a[0] === m)?.[2];
  const mean = (doc) => doc.a.reduce((sum, a) => sum + a[2], 0) / doc.a.length;
  const surprise = (a) => (a[3] === null ? 0 : Math.abs(a[2] - a[3]));
  const chosen = (select) => (select.value === "" ? null : Number(select.value));

  function refresh() {
    const words = query.value.trim().toLowerCase();
    const [a, b] = [chosen(first), chosen(second)];
    const wanted = [a, b].filter((m) => m !== null);
    shown = docs.filter((doc, i) =>
      (!words || haystack(doc, i).includes(words)) &&
      wanted.every((m) => doc.a.some((answer) => answer[0] === m)));
    const collator = new Intl.Collator(undefined, { numeric: true });
    const mine = (doc) => (a === null ? doc.a : doc.a.filter((answer) => answer[0] === a));
    const keys = {
      weight: (doc) => doc.w,
      spread: (doc) => (a !== null && b !== null ? unitOf(doc, a) - unitOf(doc, b) : doc.s),
      surprise: (doc) => Math.max(...mine(doc).map(surprise)),
      low: (doc) => -(a === null ? mean(doc) : unitOf(doc, a)),
      high: (doc) => (a === null ? mean(doc) : unitOf(doc, a)),
    };
    const by = sorting.value;
    if (by === "id") shown.sort((x, y) => collator.compare(x.id, y.id));
    else shown = shown.map((doc) => [keys[by](doc), doc]).sort((x, y) => y[0] - x[0]).map((x) => x[1]);
    const pair = a !== null && b !== null && by === "spread"
      ? `, sorted by the lead of ${data.models[a]} over ${data.models[b]}` : "";
    $("doc-count").textContent =
      `${shown.length.toLocaleString("en")} of ${docs.length.toLocaleString("en")} documents${pair}`;
    list.replaceChildren();
    drawn = 0;
    draw();
  }

  function draw() {
    const next = shown.slice(drawn, drawn + (drawn ? PAGE : FIRST));
    list.append(...next.map(entry));
    drawn += next.length;
    more.hidden = drawn >= shown.length;
    more.textContent = `Show ${Math.min(PAGE, shown.length - drawn)} more`;
  }

  function entry(doc) {
    const snippet = (doc.p?.[0] || doc.a[0][4]).slice(0, 240).replace(/\s+/g, " ");
    const summary = el("summary", {},
      el("span", { class: "id" }, doc.id), el("span", { class: "snippet", dir: "auto" }, snippet),
      strip(doc), el("span", { class: "spread", title: "share of the evidence behind the decisions" }, `${doc.w.toFixed(doc.w < 10 ? 1 : 0)}%`));
    const details = el("details", {}, summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(body(doc));
    });
    return el("li", {}, details);
  }

  function strip(doc) {
    const [a, b] = [chosen(first), chosen(second)];
    const node = svg("svg", { class: "dots", width: "100%", height: 18, role: "img",
      "aria-label": `${doc.a.length} scores from ${Math.min(...doc.a.map((x) => x[2])).toFixed(2)} to ${Math.max(...doc.a.map((x) => x[2])).toFixed(2)}` });
    node.append(svg("line", { x1: "0", x2: "100%", y1: 9, y2: 9 }));
    for (const answer of doc.a) {
      const kind = answer[0] === a ? "a" : answer[0] === b ? "b" : "";
      node.append(svg("circle", { cx: `${2 + 96 * answer[2]}%`, cy: 9, r: 4.5, class: kind }));
    }
    return node;
  }

  function body(doc) {
    const node = el("div", { class: "body" });
    if (doc.p) node.append(el("h4", {}, "Prompt"), text(doc.p));
    if (doc.t) node.append(el("h4", {}, "Reference"), text(doc.t));
    let at = 0;
    const button = el("button", { type: "button" });
    const side = el("div", { class: "side" });
    node.append(side);
    const wanted = [chosen(first), chosen(second)].filter((m) => m !== null);
    const order = [...doc.a].sort((x, y) => wanted.includes(y[0]) - wanted.includes(x[0]));
    const add = () => {
      for (const a of order.slice(at, at + 20)) side.append(answer(a));
      at += 20;
      button.hidden = at >= doc.a.length;
      button.textContent = `Show ${doc.a.length - at} more answers`;
    };
    node.append(button);
    button.addEventListener("click", add);
    add();
    return node;
  }

  function answer([m, raw, unit, expected, output, left]) {
    const head = el("h4", {}, el("b", {}, el("bdi", {}, data.models[m])),
      el("span", {}, `score ${number(raw ?? unit)}`));
    if (expected !== null) {
      const odd = Math.abs(unit - expected) > 0.35 ? "odd" : "";
      const own = raw === null || raw === unit ? "" : `on 0 to 1: ${unit.toFixed(2)}, `;
      head.append(el("span", { class: odd }, `${own}expected ${expected.toFixed(2)}`));
    }
    return el("div", { class: "answer" }, head, text([output, left]));
  }

  function text([content, left]) {
    const START = 1500;
    const pre = el("pre", { class: "out", dir: "auto", tabindex: "0" });
    const fill = (value) => pre.replaceChildren(...marked(value));
    if (content === "") pre.append(el("i", {}, "(empty)"));
    else fill(content.slice(0, START));
    const box = el("div", {}, pre);
    if (content.length > START) {
      const button = el("button", { type: "button" }, `Show all ${content.length.toLocaleString("en")} characters`);
      button.addEventListener("click", () => { fill(content); button.remove(); });
      box.append(button);
    }
    if (left) box.append(el("p", { class: "note" }, `${left.toLocaleString("en")} more characters are in the journal.`));
    return box;
  }

  function marked(content) {
    const words = query.value.trim().toLowerCase();
    if (!words) return [content];
    const lower = content.toLowerCase();
    if (lower.length !== content.length) return [content]; // lower-casing moved the letters
    const parts = [];
    let from = 0;
    for (let at = lower.indexOf(words); at >= 0 && parts.length < 400; at = lower.indexOf(words, from)) {
      parts.push(content.slice(from, at), el("mark", {}, content.slice(at, at + words.length)));
      from = at + words.length;
    }
    parts.push(content.slice(from));
    return parts;
  }

  let waiting;
  query.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(refresh, 150); });
  for (const select of [first, second, sorting]) select.addEventListener("change", refresh);
  form.addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
  more.addEventListener("click", draw);
  refresh();
})();
