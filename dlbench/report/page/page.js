"use strict";

// Sorts and filters the table of runs, and unfolds what is linked to or printed. Without it the page can be read as well.
(() => {
  const section = document.getElementById("runs");
  const form = section.querySelector("form");
  const table = section.querySelector("table");
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const search = form.querySelector("input");
  const told = form.querySelector("output");
  const letters = new Intl.Collator("en", { numeric: true });

  const textOf = (cell) => cell.textContent.trim();
  const keyOf = (cell) => (cell.dataset.v === undefined ? textOf(cell) : Number(cell.dataset.v));
  const plain = (text) => text.normalize("NFKC").toLowerCase();

  // Numbers before words; what is unknown is last in either direction.
  function compare(one, other) {
    if (typeof one === "string" && typeof other === "string") return letters.compare(one, other);
    if (typeof one === typeof other) return one < other ? -1 : Number(one > other);
    return typeof one === "number" ? -1 : 1;
  }

  function sort(column, direction) {
    const keyed = rows.map((row) => ({ row, key: keyOf(row.cells[column]) }));
    const sign = direction === "descending" ? -1 : 1;
    if (direction !== "none") {
      keyed.sort((one, other) => (one.key === "") - (other.key === "") || sign * compare(one.key, other.key));
    }
    const sorted = document.createDocumentFragment();
    for (const { row } of keyed) sorted.append(row);
    body.append(sorted);
  }

  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

  function makeSortable(heading, column) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const direction = NEXT[heading.getAttribute("aria-sort")];
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", direction);
      sort(column, direction);
    });
  }

  // A choice among the values of one column; nothing where all rows have the same.
  function makeChoice(heading, column) {
    const texts = rows.map((row) => textOf(row.cells[column]));
    const keys = new Map(rows.map((row, place) => [texts[place], keyOf(row.cells[column])]));
    if (keys.size < 2) return [];
    const select = document.createElement("select");
    select.add(new Option("all", ""));
    for (const [text] of [...keys].sort((one, other) => compare(one[1], other[1]))) {
      select.add(new Option(text === "" ? "(empty)" : text, `=${text}`));
    }
    const label = document.createElement("label");
    label.append(`${heading.dataset.choice} `, select);
    form.querySelector(".choices").append(label);
    return [(place) => select.value === "" || select.value === `=${texts[place]}`];
  }

  const words = rows.map((row) => plain([...row.cells].map(textOf).join(" ")));
  const choices = headings.flatMap((heading, column) => ("choice" in heading.dataset ? makeChoice(heading, column) : []));

  function filter() {
    const wanted = plain(search.value).split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, place) => {
      const fits = wanted.every((word) => words[place].includes(word)) && choices.every((fitting) => fitting(place));
      row.hidden = !fits;
      count += Number(fits);
    });
    told.textContent = `${count} of ${rows.length} ${rows.length === 1 ? "run" : "runs"}`;
  }

  headings.forEach(makeSortable);
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector(".clear").addEventListener("click", () => {
    form.reset();
    filter();
  });
  form.hidden = false;
  filter();

  function unfoldLinked() {
    const target = document.getElementById(location.hash.slice(1));
    const fold = target && (target.closest("details") || target.querySelector(":scope > details"));
    if (fold) fold.open = true;
  }

  window.addEventListener("hashchange", unfoldLinked);
  unfoldLinked();

  // What is folded on paper cannot be read; afterwards it is as it was.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const fold of unfolded) fold.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const fold of unfolded) fold.open = false;
  });
})();
