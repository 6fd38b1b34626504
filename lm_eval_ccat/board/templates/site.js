"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [RANK, BEST, WORST, MODEL, ESTIMATED, SCORE, LOW, HIGH, ITEMS, DOCUMENTS, DATE, TASKS, BY, PAST,
    CONFIDENCE, FACTS, LINK, COPIES, SAMPLE, LEAD] = Array(20).keys();
  const STEP = 100;
  const at = (id) => document.getElementById(id);
  const make = (tag, text, cls) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  };
  const svg = (tag, attributes) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };
  // Near 0 four digits would be digits of noise, so four decimals are shown.
  const figure = (v, digits = 4) => Math.abs(v) < 0.001
    ? (Math.round(v * 1e4) / 1e4 || 0).toFixed(4) : v.toPrecision(digits);
  const names = data.rows.map((r) => r[MODEL].toLowerCase());
  const hidden = new Set(), picks = [];
  let order = data.rows.map((_, i) => i), shown = [], drawn = 0;
  let by = "rank", down = false;

  // What several tasks' names begin with says nothing in their heads, unless two heads become one.
  const brief = (task) => {
    const alike = (other) => {
      let same = 0;
      while (task[same] && task[same] === other[same]) same++;
      return other === task ? 0 : task.slice(0, same).lastIndexOf("_") + 1;
    };
    return task.slice(Math.max(0, ...data.tasks.map(alike)));
  };
  const briefs = data.tasks.map(brief);
  const headings = data.tasks.map((task, t) => (briefs.filter((b) => b === briefs[t]).length > 1 ? task : briefs[t]));

  // A long name lacks its middle: what tells models of one family apart stands at the end.
  const BEGIN = 22, END = 11;
  const parts = (name) => {
    const letters = [...name], part = (from, to) => letters.slice(from, to).join("");
    return letters.length <= BEGIN + END + 2 ? [name, "", ""] : [part(0, BEGIN), part(BEGIN, -END), part(-END)];
  };
  const named = (name) => {
    const [begin, middle, end] = parts(name), e = make("b", begin);
    if (middle) e.append(make("span", middle, "middle"), end);
    return e;
  };
  // Names that are one without middle and organisation stand whole, on several lines.
  const label = (name) => {
    const [begin, , end] = parts(name.slice(name.lastIndexOf("/") + 1));
    return `${begin}…${end}`;
  };
  const labels = new Map();
  for (const r of data.rows) labels.set(label(r[MODEL]), (labels.get(label(r[MODEL])) || 0) + 1);

  const columns = () => [
    { key: "rank", head: "Rank", cls: "ranks", first: false, value: (r) => r[RANK] },
    { key: "model", head: "Model", first: false, value: (r) => r[MODEL].toLowerCase() },
    { key: "score", head: "Score", cls: "num", first: data.higher, value: (r) => r[SCORE] },
    { key: "ends", head: "Interval", title: "Ends of the interval, and its confidence; sorted by its width", cls: "ends", first: false, value: (r) => r[HIGH] - r[LOW] },
    ...(data.tasks.length < 5 ? [
      { key: "interval", head: "Range", cls: data.tasks.length ? "wide several" : "wide" },
      { key: "lead", head: "Leads next by", cls: data.tasks.length ? "wide several" : "wide" },
    ] : []),
    ...data.tasks.map((task, t) => ({
      key: "task" + t, head: headings[t], title: task, cls: "num", first: data.taskHigher[t], value: (r) => (r[ESTIMATED] ? r[TASKS][t][0] : r[TASKS][t]), task: t,
    })).filter((c) => !hidden.has(c.task)),
    { key: "items", head: "Documents", cls: "num aside", first: true, value: (r) => r[ITEMS] },
    { key: "date", head: "Date", cls: "aside", first: true, value: (r) => r[DATE] },
  ];

  const [low, high] = data.ends;
  const place = (v) => (high > low ? 2 + (96 * (v - low)) / (high - low) : 50);
  const score = (r) => (r[ESTIMATED] ? "≈ " : "") + figure(r[SCORE]);
  const ends = (r, from, to) =>
    (r[ESTIMATED] ? "" : from < to ? "full results, " : "full results") +
    (from < to || r[ESTIMATED] ? `${r[CONFIDENCE]}% interval ${figure(from)} to ${figure(to)}` : "");
  const briefly = (r) => (r[LOW] < r[HIGH] || r[ESTIMATED]
    ? `${figure(r[LOW], 3)} to ${figure(r[HIGH], 3)}, ${r[CONFIDENCE]}%` : "full results");
  const interval = (r) => {
    const e = svg("svg", { class: "iv", width: "100%", height: "18", role: "img",
      "aria-label": `${figure(r[SCORE])}, from ${figure(r[LOW])} to ${figure(r[HIGH])}` });
    if (r[LOW] < r[HIGH]) e.append(svg("line", { class: "range", x1: place(r[LOW]) + "%", x2: place(r[HIGH]) + "%", y1: 9, y2: 9 }));
    e.append(svg("circle", { cx: place(r[SCORE]) + "%", cy: 9, r: 4 }));
    return e;
  };
  const history = (r, width) => {
    const row = make("tr", undefined, "history"), cell = make("td"), table = make("table");
    cell.colSpan = width;
    const head = table.createTHead().insertRow(), body = table.createTBody();
    for (const text of ["Date", "Score", "Interval", "Documents", "Made by"]) head.append(make("th", text));
    for (const [date, estimated, value, from, to, items, of, version] of r[PAST]) {
      const line = body.insertRow();
      for (const text of [date, (estimated ? "≈ " : "") + figure(value),
        estimated || from < to ? `${figure(from)} to ${figure(to)}` : "full results",
        `${items.toLocaleString("en")} of ${of.toLocaleString("en")}`, version]) line.append(make("td", text));
    }
    cell.append(table);
    row.append(cell);
    return row;
  };
  const line = (i, shape) => {
    const r = data.rows[i], row = make("tr");
    row.dataset.at = i;
    for (const c of shape) {
      const cell = make(c.key === "model" ? "th" : "td", undefined, c.cls);
      if (c.key === "rank") {
        cell.textContent = r[RANK];
        if (r[BEST] !== r[WORST]) cell.append(" ", make("small", `${r[BEST]} to ${r[WORST]}`));
      } else if (c.key === "model") {
        cell.scope = "row";
        const whole = labels.get(label(r[MODEL])) > 1, name = make("bdi", undefined, whole ? "whole" : "");
        const cut = r[MODEL].lastIndexOf("/") + 1;
        if (cut) name.append(make("small", r[MODEL].slice(0, cut)));
        name.append(whole ? make("b", r[MODEL].slice(cut)) : named(r[MODEL].slice(cut)));
        cell.title = [r[MODEL], ...data.facts.map((fact, f) => (r[FACTS][f] ? `${fact}: ${r[FACTS][f]}` : ""))]
          .filter(Boolean).join("\n");
        if (r[LINK]) {
          const link = make("a");
          link.href = r[LINK];
          link.rel = "noopener noreferrer";
          link.append(name);
          cell.append(link);
        } else cell.append(name);
        if (r[COPIES].length) {
          const mark = make("span", r[ESTIMATED] ? "scores alike" : "copy", "badge");
          mark.title = `${r[ESTIMATED] ? "More of its scores than an unrelated model's" : "All scores"} equal those of ${r[COPIES].join(", ")}`;
          cell.append(" ", mark);
        }
        if (r[BY] !== data.version) cell.append(" ", make("span", `made by ${r[BY]}`, "badge"));
        if (r[PAST].length) {
          const button = make("button", `${r[PAST].length} rows`, "past");
          button.type = "button";
          button.setAttribute("aria-expanded", "false");
          button.setAttribute("aria-label", `History of ${r[MODEL]}, ${r[PAST].length} rows`);
          button.addEventListener("click", () => {
            const open = button.getAttribute("aria-expanded") === "true";
            button.setAttribute("aria-expanded", String(!open));
            if (open) row.nextSibling.remove();
            else row.after(history(r, shape.length));
          });
          cell.append(" ", button);
        }
      } else if (c.key === "score") {
        cell.append(score(r), make("small", briefly(r), "under"));
        cell.title = [ends(r, r[LOW], r[HIGH]), r[SAMPLE]].filter(Boolean).join("\n");
      } else if (c.task !== undefined) {
        const of = r[TASKS][c.task];
        cell.textContent = r[ESTIMATED] ? "≈ " + figure(of[0]) : figure(of);
        cell.title = ends(r, of[1], of[2]);
      }
      else if (c.key === "ends") cell.textContent = briefly(r);
      else if (c.key === "interval") cell.append(interval(r));
      else if (c.key === "lead") cell.textContent = r[LEAD];
      else if (c.key === "items") cell.textContent = r[ESTIMATED]
        ? `${r[ITEMS].toLocaleString("en")} of ${r[DOCUMENTS].toLocaleString("en")}` : r[ITEMS].toLocaleString("en");
      else cell.textContent = c.value(r);
      row.append(cell);
    }
    return row;
  };
  const more = () => {
    const shape = columns(), part = document.createDocumentFragment();
    for (const i of shown.slice(drawn, drawn + STEP)) part.append(line(i, shape));
    drawn = Math.min(drawn + STEP, shown.length);
    at("board").tBodies[0].append(part);
    at("more").hidden = drawn >= shown.length;
  };
  const heads = () => {
    const row = at("board").tHead.rows[0];
    row.replaceChildren(...columns().map((c) => {
      const cell = make("th", undefined, c.cls);
      cell.scope = "col";
      if (!c.value) { cell.textContent = c.head; return cell; }
      const button = make("button", c.head, "sort");
      button.type = "button";
      if (c.title) button.title = c.title;
      if (by === c.key) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      button.addEventListener("click", () => {
        down = by === c.key ? !down : c.first;
        by = c.key;
        sort();
        draw();
        at("board").tHead.querySelector("[aria-sort] button").focus();
      });
      cell.append(button);
      return cell;
    }));
  };
  const sort = () => {
    const column = columns().find((c) => c.key === by) || columns()[0];
    const values = data.rows.map(column.value), sign = down ? -1 : 1;
    order.sort((a, b) => (values[a] < values[b] ? -sign : values[a] > values[b] ? sign : a - b));
  };
  const draw = () => {
    const q = at("q").value.trim().toLowerCase(), kind = at("kind").value;
    shown = order.filter((i) => {
      const r = data.rows[i];
      return names[i].includes(q) && (!kind || (kind === "best" ? r[BEST] === 1 : (kind === "estimate") === !!r[ESTIMATED]))
        && picks.every((pick, f) => !pick.value || r[FACTS][f] === pick.value);
    });
    heads();
    at("board").tBodies[0].replaceChildren();
    drawn = 0;
    more();
    const n = data.rows.length.toLocaleString("en");
    at("count").textContent = shown.length === data.rows.length ? `${n} models` : `${shown.length.toLocaleString("en")} of ${n} models`;
    sideways();
  };
  // What the screen does not show is counted, as the bar below a long table is far away.
  const sideways = () => {
    const box = at("board").parentElement, edge = box.getBoundingClientRect().right + 1;
    const beyond = [...at("board").tHead.rows[0].cells].filter((cell) => cell.getBoundingClientRect().right > edge).length;
    const further = box.scrollWidth > box.clientWidth + 1 && beyond;
    at("sideways").hidden = !further;
    at("sideways").textContent = further ? `→ Scroll the table sideways for ${beyond} more column${beyond > 1 ? "s" : ""}.` : "";
  };

  if (at("columns")) data.tasks.forEach((task, t) => {
    const label = make("label"), box = make("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(t); else hidden.add(t);
      if (by === "task" + t) { by = "rank"; down = false; sort(); }
      draw();
    });
    label.append(box, " ", make("bdi", task));
    at("columns").append(label);
  });
  data.facts.forEach((fact, f) => {
    const label = make("label", fact + " "), pick = make("select");
    const few = [...new Set(data.rows.map((r) => r[FACTS][f]).filter(Boolean))];
    few.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    pick.append(make("option", "all"), ...few.map((value) => make("option", value)));
    pick.options[0].value = "";
    pick.addEventListener("change", draw);
    picks.push(pick);
    label.append(pick, " ");
    at("facts").append(label);
  });
  // As the ranks are: two models differ if their gap exceeds the root sum of squares of their arms.
  const arm = (r) => Math.max(r[HIGH] - r[SCORE], r[SCORE] - r[LOW]);
  const better = () => {
    const [a, b] = ["a", "b"].map((id) => data.rows[names.indexOf(at(id).value.trim().toLowerCase())]);
    if (!a || !b || a === b) { at("better").textContent = a || b ? "Name two models of the table." : ""; return; }
    const gap = (a[SCORE] - b[SCORE]) * (data.higher ? 1 : -1), apart = Math.hypot(arm(a), arm(b));
    const said = Math.abs(gap) > apart ? (gap > 0 ? "Yes" : "No: B is better") : apart ? "Not known" : "They are equal";
    const how = !apart ? "" : " This compares the two intervals, not the answers of both to the same documents" +
      (Math.abs(gap) > apart ? "." : ", which may show a difference where intervals overlap.");
    at("better").textContent = `${said}. A ${score(a)} (${ends(a, a[LOW], a[HIGH])}), B ${score(b)} (${ends(b, b[LOW], b[HIGH])}).${how}`;
  };
  for (const id of ["a", "b"]) at(id).addEventListener("input", better);
  at("models").append(...data.rows.map((r) => { const o = make("option"); o.value = r[MODEL]; return o; }));
  at("controls").addEventListener("submit", (e) => e.preventDefault());
  at("q").addEventListener("input", draw);
  at("kind").addEventListener("change", draw);
  at("more").addEventListener("click", more);
  at("board").parentElement.addEventListener("scroll", sideways, { passive: true });
  window.addEventListener("resize", sideways);
  draw();
})();
