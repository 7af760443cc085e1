"use strict";
(() => {
  const root = document.documentElement;

  // Theme: follows the system until the reader chooses.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "theme";
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const label = () => { button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  dark.addEventListener("change", label);
  label();
  document.querySelector(".masthead").append(button);

  // Tables: sort by a heading, filter by the first column.
  const value = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind !== "num") return cell.textContent.trim();
    const raw = cell.dataset.v;
    return raw === undefined ? -Infinity : Number(raw);
  };
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const sort = (table, column, kind) => {
    const heads = [...table.tHead.rows[0].cells];
    const now = heads[column].getAttribute("aria-sort");
    const first = kind === "num" ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const next = now === first ? other : first;
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", next);
    const sign = next === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a, column, kind), value(b, column, kind)];
      return sign * (kind === "num" ? x - y : collator.compare(x, y));
    });
    table.tBodies[0].append(...rows);
  };
  document.querySelectorAll("table[data-sortable]").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const kind = head.dataset.sort;
      if (!kind) return;
      const trigger = document.createElement("button");
      trigger.type = "button";
      trigger.textContent = head.textContent;
      trigger.addEventListener("click", () => sort(table, column, kind));
      head.replaceChildren(trigger);
    });
  });
  document.querySelectorAll("table[data-filter]").forEach((table, index) => {
    const box = document.createElement("div");
    box.className = "filter";
    const name = document.createElement("label");
    const input = document.createElement("input");
    const count = document.createElement("span");
    input.type = "search";
    input.id = `filter${index}`;
    name.htmlFor = input.id;
    name.textContent = table.dataset.filter;
    count.className = "note";
    count.setAttribute("role", "status");
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = wanted ? `${shown} of ${table.tBodies[0].rows.length}` : "";
    });
    box.append(name, input, count);
    table.closest(".scroll").before(box);
  });

  // Hover: the text of a mark, or the numbers of a lane's row.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  const textOf = (target) => {
    const title = target.closest("circle, rect")?.querySelector("title");
    if (title) return title.textContent;
    const lane = target.closest("td.lane");
    if (!lane) return "";
    const heads = lane.closest("table").tHead.rows[0].cells;
    const cells = [...lane.parentElement.cells];
    const lines = cells.filter((cell) => cell.classList.contains("num")).map(
      (cell) => `${heads[cell.cellIndex].textContent}: ${cell.textContent}`);
    return [cells[0].textContent, ...lines].join("\n");
  };
  document.addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("svg, td.lane") ? textOf(event.target) : "";
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - width - 8);
    const y = event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18;
    tip.style.left = `${Math.max(x, 8)}px`;
    tip.style.top = `${Math.max(y, 8)}px`;
  });
})();
