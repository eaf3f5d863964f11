// Panels of other parts of the system: there is one for each that is registered.

import { fill } from "./tables.js";
import { make, say } from "./words.js";

export function showPanels(place, panels) {
  for (const panel of panels) {
    const id = `panel-${panel.name}`;
    let section = document.getElementById(id);
    if (!section) {
      section = make("section", { id, class: "panel", "aria-labelledby": `${id}-title` },
        make("div", { class: "head" }, make("h2", { id: `${id}-title` }, panel.title)),
        make("div", { class: "tables" }));
      place.append(section);
    }
    showTables(section.lastElementChild, panel);
  }
}

function showTables(place, { title, tables }) {
  while (place.children.length > tables.length) place.lastElementChild.remove();
  tables.forEach((table, at) => {
    const own = place.children[at] ?? place.appendChild(make("div", {},
      make("h3"),
      make("div", { class: "scroll tall", tabindex: "0", role: "group" }, make("table", {}, make("thead"), make("tbody"))),
      make("p", { class: "says" })));
    const [name, scroll, note] = own.children;
    say(name, table.title);
    name.hidden = !table.title;
    scroll.hidden = !table.columns.length;
    scroll.setAttribute("aria-label", table.title || title);
    const head = scroll.querySelector("thead"), numbers = numeric(table);
    const said = JSON.stringify([table.columns, numbers]);
    if (head.said !== said) {
      head.said = said;
      head.replaceChildren(make("tr", {}, ...table.columns.map((each, column) => make("th", { scope: "col", class: numbers[column] ? "number" : "" }, each))));
    }
    fill(scroll.querySelector("tbody"), table.rows);
    say(note, table.note);
    note.hidden = !table.note;
  });
}

function numeric({ columns, rows }) {
  return columns.map((_, column) => rows.some((row) => typeof (row[column]?.text ?? row[column]) === "number"));
}
