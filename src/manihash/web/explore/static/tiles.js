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

const MOST_SHARES = 12;

/** The labels of some rows as one bar of shares; pairs of label and number of rows, most frequent first. */
export function labelBar(session, shares, color) {
  const total = shares.reduce((sum, [, count]) => sum + count, 0);
  if (!total) return null;
  const names = session.summary.labels.names;
  const spoken = shares.slice(0, 6).map(([label, count]) => `${names[label]}: ${Math.round((100 * count) / total)} %`).join(", ");
  const parts = shares.slice(0, MOST_SHARES).map(([label, count]) => {
    const part = element("span", { class: "share" }, count / total > 0.09 ? names[label] : "");
    part.style.flexGrow = count;
    part.style.background = color(label);
    return part;
  });
  const others = shares.slice(MOST_SHARES);
  if (others.length) {
    const part = element("span", { class: "share others", title: `${others.length} more labels` }, `+${others.length}`);
    part.style.flexGrow = others.reduce((sum, [, count]) => sum + count, 0);
    parts.push(part);
  }
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

/** A code as squares, filled where a bit is 1: each part has lines of its own, and the bits of a number are together. */
export function codeGrid(code, parts) {
  const nBits = parts[parts.length - 1].end;
  const spoken = `code of ${nBits} bits` + (parts.length > 1 ? `: ${parts.map(({ name }) => name).join(", ")}` : "");
  const grid = element("span", { class: "code", role: "img", "aria-label": spoken });
  let start = 0;
  parts.forEach(({ end, step, name }, number) => {
    const squares = element("span", { class: `code-grid part-${number}` });
    for (let j = start; j < end; j++) {
      const bit = (code[j >> 3] >> (7 - (j & 7))) & 1;
      const first = step > 1 && j > start && (j - start) % step === 0;
      squares.append(element("i", { class: `${bit ? "one" : ""} ${first ? "first" : ""}` }));
    }
    grid.append(element("span", { class: "part" }, squares, parts.length > 1 ? element("small", {}, name) : null));
    start = end;
  });
  return grid;
}
