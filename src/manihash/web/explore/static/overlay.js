// What is drawn over the points: names of labels, the query, its answers, and the lasso.
const NAMED = 40; // labels whose names are drawn, at most
const CELLS = 24;

/** A place for the name of each label: where most of its rows are. */
export function namePlaces({ labels, places, summary }) {
  if (summary.labels.names.length > NAMED) return [];
  const counts = summary.labels.names.map(() => new Uint32Array(CELLS * CELLS));
  const cell = (row) => (places[2 * row + 1] * CELLS >> 16) * CELLS + (places[2 * row] * CELLS >> 16);
  for (let row = 0; row < labels.length; row++) if (labels[row] < counts.length) counts[labels[row]][cell(row)] += 1;
  const best = counts.map((cells) => densest(cells));
  const sums = best.map(() => [0, 0, 0]);
  for (let row = 0; row < labels.length; row++) {
    const sum = sums[labels[row]];
    if (!sum) continue;
    const at = cell(row);
    const near = Math.abs((at % CELLS) - (best[labels[row]] % CELLS)) <= 1 && Math.abs(Math.floor(at / CELLS) - Math.floor(best[labels[row]] / CELLS)) <= 1;
    if (near) [0, 1].forEach((axis) => (sum[axis] += places[2 * row + axis] / 65535)), (sum[2] += 1);
  }
  return sums.map(([x, y, count]) => (count ? [x / count, y / count] : null));
}

/** The cell whose neighborhood of 3 x 3 cells has the most rows. */
function densest(cells) {
  let [best, most] = [0, -1];
  for (let at = 0; at < cells.length; at++) {
    let sum = cells[at];
    for (const step of [-1, 1, -CELLS, CELLS]) sum += cells[at + step] ?? 0;
    if (sum > most) [best, most] = [at, sum];
  }
  return best;
}

/** Draw everything over the points of a map panel. */
export function drawOver({ scatter, session, names, answers, canvas }) {
  const over = document.getElementById("over");
  const ratio = scatter.ratio ?? 1;
  if (over.width !== canvas.width || over.height !== canvas.height) [over.width, over.height] = [canvas.width, canvas.height];
  const context = over.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, over.width, over.height);
  const style = getComputedStyle(document.documentElement);
  const [ink, paper] = ["--ink", "--paper"].map((name) => style.getPropertyValue(name).trim());
  if (session.color.kind === "label") drawNames(context, scatter, session, names, { ink, paper });
  if (session.query) drawQuery(context, scatter, session, answers ?? [], { ink, paper });
  if (scatter.path) drawLasso(context, scatter.path, ink);
}

function drawNames(context, scatter, session, names, { ink, paper }) {
  context.font = "700 15px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  names.forEach((place, label) => {
    if (place === null) return;
    const [x, y] = scatter.pixelOf(...place);
    context.lineWidth = 4;
    context.strokeStyle = paper;
    context.strokeText(session.summary.labels.names[label], x, y);
    context.fillStyle = ink;
    context.fillText(session.summary.labels.names[label], x, y);
  });
}

function drawQuery(context, scatter, session, answers, { ink, paper }) {
  context.lineWidth = 1.5;
  for (const row of answers) {
    const [x, y] = scatter.pixelOf(...scatter.placeOf(row));
    ring(context, x, y, 6, paper, 3.5);
    ring(context, x, y, 6, session.isWrong(row) ? "#d1001f" : ink, 1.6);
  }
  const [x, y] = scatter.pixelOf(...session.query.place);
  for (const [color, width] of [[paper, 6], [ink, 2.5]]) {
    ring(context, x, y, 10, color, width);
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + 10 * dx, y + 10 * dy);
      context.lineTo(x + 16 * dx, y + 16 * dy);
    }
    context.stroke();
  }
}

function ring(context, x, y, radius, color, width) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.strokeStyle = color;
  context.lineWidth = width;
  context.stroke();
}

function drawLasso(context, path, ink) {
  context.beginPath();
  path.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
  context.setLineDash([5, 4]);
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 0.08;
  context.fillStyle = ink;
  context.fill();
  context.globalAlpha = 1;
}
