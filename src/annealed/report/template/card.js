// The card of the selected codevector. All of it is made of text nodes: names are never markup.

function nameButton(node) {
  const there = levelOf(node, state.level);
  const name = element("span", { class: "name" }, nodes[node].name);
  if (there < 0) return name; // it became others before any level ended
  const go = element("button", { type: "button", class: "relative", onclick: () => show(there, node) }, name);
  go.setAttribute("aria-label", `Go to codevector ${nodes[node].name}`);
  return go;
}

// A name as text that may break after the marks that join its words; all of it on hovering.
function breakable(text) {
  const parts = text.split(/(?<=[_=/.,;:-])/);
  return element("bdi", { class: "name", title: text }, ...parts.flatMap((part) => [part, element("wbr")]));
}

function between(parts, mark) {
  return parts.flatMap((part, i) => (i ? [mark, part] : [part]));
}

function fact(name, ...what) {
  return [element("dt", {}, name), element("dd", {}, ...what)];
}

function number_(id, value, shown) {
  return element("span", { "data-fact": id }, shown === undefined ? number(value) : shown);
}

function birth(node) {
  const mother = nodes[node].parent;
  if (mother === null) return ["from the start"];
  const split = nodes[mother].splits.find((one) => one.children.includes(node));
  const words = ["T = ", number_("birth", levels[split.level].temperature), `, level ${split.level + 1}`];
  if (split.critical_temperature !== null) words.push(" (critical temperature ", number_("critical", split.critical_temperature), ")");
  return words;
}

function offspring(node) {
  const split = nodes[node].splits.find((one) => one.level > state.level);
  if (!split) return ["none: it does not split again on this path"];
  const names = between(split.children.map(nameButton), " ");
  return [...names, " from T = ", number_("split", levels[split.level].temperature)];
}

function factsOf(level, i, card) {
  const node = level.nodes[i];
  const className = data.classes.length ? data.classes[nodes[node].class_index] : null;
  const list = element("dl", { class: "facts" });
  if (className !== null) list.append(...fact("class", swatch(nodes[node].branch), " ", element("bdi", {}, className)));
  list.append(
    ...fact("weight", number_("weight", null, percent(level.weights[i])), className === null ? " of the samples" : " of the samples of its class")
  );
  if (card.rows !== null) {
    const shown = data.rows.x.length < data.rows.total ? "rows shown" : "rows";
    list.append(...fact("rows", number_("rows", null, count(card.rows)), ` of the ${count(data.rows.x.length)} ${shown} belong to it`));
  }
  const mother = nodes[node].parent;
  if (nodes[node].in_use) {
    if (mother !== null) list.append(...fact("comes from", nameButton(mother), " of the path"));
    return list;
  }
  list.append(...fact("born at", ...birth(node)));
  list.append(...fact("parent", mother === null ? "none" : nameButton(mother)));
  list.append(...fact("children", ...offspring(node)));
  return list;
}

function differenceTable(card) {
  const compared = card.others !== "none";
  const against = { siblings: "siblings", classes: "others", others: "others", none: "" }[card.others];
  const most = Math.max(...card.features.map((one) => Math.abs(one.difference || 0)), 1e-9);
  const head = ["feature", "here", ...(compared ? [against, "difference, in SD"] : [])];
  const columns = ["feature", "value", "value", "bar"].slice(0, head.length);
  const rows = card.features.map((one) => {
    const cells = [
      element("td", {}, breakable(data.features[one.feature])),
      element("td", { class: "number", "data-cell": "own" }, valueOf(one.feature, one.own)),
    ];
    if (compared) {
      const part = (50 * Math.abs(one.difference)) / most;
      const bar = element("b", {});
      bar.style.cssText = `width: ${part}%; left: ${one.difference < 0 ? 50 - part : 50}%`;
      const text = (one.difference > 0 ? "+" : "") + one.difference.toFixed(2);
      cells.push(
        element("td", { class: "number", "data-cell": "others" }, valueOf(one.feature, one.others)),
        element("td", { class: "number" }, element("div", { class: "bar" }, element("i", { "aria-hidden": "true" }, bar), element("span", { "data-cell": "difference" }, text)))
      );
    }
    return element("tr", { "data-feature": one.feature }, ...cells);
  });
  return element(
    "table", {},
    element("colgroup", {}, ...columns.map((kind) => element("col", { class: kind }))),
    element("thead", {}, element("tr", {}, ...head.map((text, j) => element("th", { scope: "col", class: j ? "number" : "" }, text)))),
    element("tbody", {}, ...rows)
  );
}

const MOST_NAMED = 6;

function differenceTitle(card) {
  if (card.others === "none") return element("h3", {}, "Its features (there is no other to compare it with)");
  if (card.others === "others") return element("h3", {}, `How it differs from the mean of those of other ${data.classes.length ? "classes" : "clusters"}`);
  if (card.others === "classes") return element("h3", {}, "How it differs from the mean of the other classes");
  const named = card.siblings.slice(0, MOST_NAMED).map(nameButton);
  const more = card.siblings.length - named.length;
  const words = card.siblings.length > 1 ? "How it differs from the mean of its siblings " : "How it differs from its sibling ";
  return element("h3", {}, words, ...between(named, " "), more > 0 ? ` and ${more} more` : "");
}

function nearestList(card) {
  const items = card.nearest.map((one) => {
    const label = data.rows.labels ? [", ", element("bdi", { class: "name" }, data.rows.labels[one.row])] : [];
    const values = one.values.flatMap((value, j) => [
      j ? " · " : "", element("bdi", {}, shortened(data.features[card.features[j].feature], 30)), " ", element("span", { "data-cell": "value" }, valueOf(card.features[j].feature, value)),
    ]);
    return element(
      "li", { "data-row": data.rows.numbers[one.row] },
      `row ${data.rows.numbers[one.row]}`, ...label, ", divergence ", element("span", { "data-cell": "divergence" }, number(one.divergence)),
      element("span", { class: "values" }, ...values)
    );
  });
  const all = data.rows.x.length === data.rows.total;
  return [
    element("h3", {}, all ? "The nearest real samples (circled on the map)" : "The nearest of the samples shown (circled on the map)"),
    element("ul", { class: "nearest" }, ...items),
  ];
}

const nothingSelected = byId("card").firstElementChild;

function drawCard() {
  const i = selected();
  byId("clear").hidden = i < 0;
  if (i < 0) {
    byId("card").replaceChildren(nothingSelected);
    byId("said").textContent = "";
    return;
  }
  const level = stops[state.level];
  const node = level.nodes[i];
  const card = level.cards[i];
  const parts = [];
  const moved = nodes[node].in_use && nodes[node].parent === state.wanted;
  if (node !== state.wanted && !moved) {
    const why = isBelow(node, state.wanted) ? "has split by now; this is its heaviest descendant" : "is not born yet; this is its ancestor";
    parts.push(element("p", { class: "hint" }, element("span", { class: "name" }, nodes[state.wanted].name), ` ${why}.`));
  }
  parts.push(factsOf(level, i, card), differenceTitle(card), differenceTable(card));
  if (data.rows) parts.push(...nearestList(card));
  byId("card").replaceChildren(...parts);
  byId("card").dataset.node = node;
  byId("said").textContent = `Codevector ${nodes[node].name}, weight ${percent(level.weights[i])}`;
}

// -- choosing by name ---------------------------------------------------------------------------

function inTreeOrder(level) {
  return level.nodes.map((node, i) => i).sort((a, b) => nodes[level.nodes[a]].height - nodes[level.nodes[b]].height);
}

function fillPicker() {
  const level = stops[state.level];
  const options = inTreeOrder(level).map((i) => element("option", { value: level.nodes[i] }, shortened(nodes[level.nodes[i]].name, 40)));
  byId("picker").replaceChildren(element("option", { value: "" }, "none selected"), ...options);
}

function markPicker() {
  const i = selected();
  byId("picker").value = i < 0 ? "" : String(stops[state.level].nodes[i]);
}

function selectNext(step) {
  const level = stops[state.level];
  const order = inTreeOrder(level);
  const at = order.indexOf(selected());
  const next = at < 0 ? (step > 0 ? 0 : order.length - 1) : (at + step + order.length) % order.length;
  select(level.nodes[order[next]]);
}

function startCard() {
  fillPicker();
  byId("picker").addEventListener("change", (event) => select(event.target.value === "" ? null : Number(event.target.value)));
  byId("previous").addEventListener("click", () => selectNext(-1));
  byId("next").addEventListener("click", () => selectNext(1));
  byId("clear").addEventListener("click", () => {
    select(null);
    byId("picker").focus();
  });
  byId("card-panel").addEventListener("keydown", (event) => {
    if (event.key === "Escape") select(null);
  });
  onChange((before) => {
    if (before.level !== state.level) fillPicker();
    markPicker();
    drawCard();
  });
}
