// The scatter plot: pan, zoom, pick and lasso, by mouse, touch and keyboard.
import { makeRenderer } from "./renderer.js";

const MOST_ZOOM = 400;
const PICK_PIXELS = 14;

/** Points on a canvas; listeners: onpick(row), onhover(row, x, y), onlasso(rows), ondraw(). */
export class Scatter {
  constructor(canvas, listeners) {
    this.canvas = canvas;
    this.listeners = listeners;
    this.renderer = makeRenderer(canvas);
    this.places = new Uint16Array(0);
    this.view = { x: 0.5, y: 0.5, scale: 1 };
    this.lassoing = false;
    this.path = null;
    this.pointers = new Map();
    this.frames = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.#listen();
  }

  setPlaces(places) {
    this.places = places;
    this.renderer.setPlaces(places);
    this.reset();
  }

  setColors(colors, palette) {
    this.renderer.setPalette(palette);
    this.renderer.setColors(colors);
    this.redraw();
  }

  setMarks(marks) {
    this.renderer.setMarks(marks);
    this.redraw();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = (this.ratio = Math.min(2, window.devicePixelRatio || 1));
    const before = this.fit;
    this.fit = Math.min(width, height);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.view.scale *= before ? this.fit / before : this.fit;
    this.redraw();
  }

  /** Show all points. */
  reset() {
    this.view = { x: 0.5, y: 0.5, scale: this.fit ?? 1 };
    this.redraw();
  }

  /** Move the view so that a place is shown, and zoom in if asked to. */
  show(x, y, zoom = null) {
    this.view = { x, y, scale: zoom === null ? this.view.scale : this.fit * zoom };
    this.redraw();
  }

  zoomBy(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const before = this.dataAt(x, y);
    this.view.scale = Math.min(MOST_ZOOM * this.fit, Math.max(0.4 * this.fit, this.view.scale * factor));
    const after = this.dataAt(x, y);
    this.view.x += before[0] - after[0];
    this.view.y += before[1] - after[1];
    this.redraw();
  }

  panBy(dx, dy) {
    const bound = (value) => Math.min(1.2, Math.max(-0.2, value));
    this.view.x = bound(this.view.x - dx / this.view.scale);
    this.view.y = bound(this.view.y + dy / this.view.scale);
    this.redraw();
  }

  /** A place of the map (0 to 1) in pixels of the canvas. */
  pixelOf(x, y) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [width / 2 + (x - this.view.x) * this.view.scale, height / 2 - (y - this.view.y) * this.view.scale];
  }

  placeOf(row) {
    return [this.places[2 * row] / 65535, this.places[2 * row + 1] / 65535];
  }

  dataAt(px, py) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [this.view.x + (px - width / 2) / this.view.scale, this.view.y - (py - height / 2) / this.view.scale];
  }

  /** The row nearest to a pixel, -1 if none is near. */
  rowAt(px, py) {
    const [x, y] = this.dataAt(px, py).map((value) => value * 65535);
    let best = ((PICK_PIXELS / this.view.scale) * 65535) ** 2;
    let found = -1;
    for (let row = 0, at = 0; at < this.places.length; row++, at += 2) {
      const dx = this.places[at] - x;
      const dy = this.places[at + 1] - y;
      const apart = dx * dx + dy * dy;
      if (apart < best) [best, found] = [apart, row];
    }
    return found;
  }

  /** The size of a point in pixels: smaller for many rows, larger when zoomed in. */
  get pointSize() {
    const spread = this.fit / Math.sqrt(Math.max(1, this.places.length / 2));
    return Math.min(9, Math.max(1.2, spread * 0.33) * (this.view.scale / this.fit) ** 0.35);
  }

  redraw() {
    if (this.waiting || !this.places.length) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.renderer.draw(this.view, this.pointSize, this.ratio ?? 1);
      this.frames += 1;
      this.listeners.ondraw();
    });
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.#cancel(event));
    canvas.addEventListener("pointerleave", () => this.listeners.onhover(-1, 0, 0));
    canvas.addEventListener("dblclick", (event) => this.zoomBy(2, event.offsetX, event.offsetY));
  }

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.moved = 0;
    if (this.pointers.size === 1 && (this.lassoing || event.shiftKey)) this.path = [[event.offsetX, event.offsetY]];
    if (this.pointers.size > 1) this.path = null;
  }

  #move(event) {
    const before = this.pointers.get(event.pointerId);
    const now = [event.offsetX, event.offsetY];
    if (!before) {
      this.hover ??= requestAnimationFrame(() => {
        this.hover = null;
        this.listeners.onhover(this.rowAt(...now), ...now);
      });
      return;
    }
    this.moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (this.path) {
      this.path.push(now);
      this.redraw();
    } else if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const apart = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]);
      this.zoomBy(apart(now) / Math.max(1, apart(before)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      this.panBy((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    } else {
      this.panBy(now[0] - before[0], now[1] - before[1]);
    }
    this.pointers.set(event.pointerId, now);
  }

  #up(event) {
    const isClick = this.pointers.size === 1 && this.moved < 5;
    this.pointers.delete(event.pointerId);
    if (isClick) {
      this.path = null;
      const row = this.rowAt(event.offsetX, event.offsetY);
      if (row >= 0) this.listeners.onpick(row);
    } else if (this.path) {
      const polygon = this.path.map(([x, y]) => this.dataAt(x, y).map((value) => value * 65535));
      this.path = null;
      this.listeners.onlasso(this.rowsInside(polygon));
    }
    this.redraw();
  }

  #cancel(event) {
    this.pointers.delete(event.pointerId);
    this.path = null;
    this.redraw();
  }

  /** Rows inside a polygon, by the number of its sides to the left of a point. */
  rowsInside(polygon) {
    const [xs, ys] = [polygon.map(([x]) => x), polygon.map(([, y]) => y)];
    const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const rows = [];
    for (let row = 0, at = 0; at < this.places.length; row++, at += 2) {
      const [x, y] = [this.places[at], this.places[at + 1]];
      if (x < box[0] || x > box[1] || y < box[2] || y > box[3]) continue;
      let inside = false;
      for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
        if (ys[i] > y !== ys[j] > y && x < ((xs[j] - xs[i]) * (y - ys[i])) / (ys[j] - ys[i]) + xs[i]) inside = !inside;
      }
      if (inside) rows.push(row);
    }
    return rows;
  }
}
