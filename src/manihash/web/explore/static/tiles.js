// Rows as a person sees them: pictures, texts, or strips of their values.
import { element } from "./dom.js";

/**
 * Rows side by side, each a button that asks for its row.
 *
 * Options: captions (a text per row), query (wrong answers are marked), found (rows that are marked as shared),
 * small (pictures only).
 */
export async function tiles(session, ids, { captions = null, query = null, shared = null, small = false } = {}) {
  const isText = session.summary.kind === "text";
  const texts = isText ? await session.source.texts([...ids]) : null;
  const list = element("div", { class: `tiles ${isText ? "texts" : session.summary.kind} ${small ? "small" : ""}` });
  ids.forEach((row, i) => {
    const wrong = query === null ? null : session.isWrong(row, query);
    const label = session.labelName(row);
    const spoken = [`row ${row}`, label === null ? null : `label ${label}`, captions?.[i] ? `distance ${captions[i]}` : null,
      wrong ? "wrong" : null, shared?.has(row) ? "also found by the other model" : null].filter(Boolean).join(", ");
    const caption = element("span", { class: "caption" },
      label === null ? null : element("b", {}, label), captions ? element("span", {}, captions[i]) : null);
    list.append(
      element("button", {
        type: "button", class: `tile ${wrong ? "wrong" : ""} ${shared?.has(row) ? "shared" : ""}`,
        "data-row": row, title: spoken, "aria-label": spoken, onclick: () => session.askRow(row),
      }, isText ? element("span", { class: "text" }, texts[i]) : session.source.picture(row, ""), small ? null : caption));
  });
  return list;
}

/** The labels of some rows as one bar of shares; pairs of label and number of rows, most frequent first. */
export function labelBar(session, shares, color) {
  const total = shares.reduce((sum, [, count]) => sum + count, 0);
  if (!total) return null;
  const names = session.summary.labels.names;
  const spoken = shares.slice(0, 6).map(([label, count]) => `${names[label]}: ${Math.round((100 * count) / total)} %`).join(", ");
  const parts = shares.map(([label, count]) => {
    const part = element("span", { class: "share" }, count / total > 0.09 ? names[label] : "");
    part.style.flexGrow = count;
    part.style.background = color(label);
    return part;
  });
  return element("div", { class: "label-bar", role: "img", "aria-label": spoken, title: spoken }, parts);
}

/** Numbers of rows per label, most frequent first. */
export function countLabels(session, rows) {
  const counts = new Map();
  for (const row of rows) {
    const label = session.labels?.[row] ?? 65535;
    if (label !== 65535) counts.set(label, (counts.get(label) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

/** A code as a grid of squares, filled where a bit is 1; `against` marks the bits that differ. */
export function codeGrid(code, nBits, against = null) {
  const grid = element("span", { class: "code-grid", role: "img", "aria-label": `code of ${nBits} bits` });
  for (let j = 0; j < nBits; j++) {
    const bit = (code[j >> 3] >> (7 - (j & 7))) & 1;
    const other = against === null ? bit : (against[j >> 3] >> (7 - (j & 7))) & 1;
    grid.append(element("i", { class: `${bit ? "one" : ""} ${bit === other ? "" : "differs"}` }));
  }
  return grid;
}
