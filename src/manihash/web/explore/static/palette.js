// Colors: distinct with any color vision, in light and dark.

// Okabe and Ito's colors with a darker yellow, and two of Tol's, as in the reports; lighter ones on dark.
const LABELS = {
  light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B", "#A08A00", "#882255", "#332288"],
  dark: ["#4C9FE0", "#F07A2E", "#2CC79A", "#E39AC4", "#F2B632", "#8FD3FF", "#A9A9A9", "#CDB82C", "#D0568F", "#9385F0"],
};
export const MOST_COLORS = LABELS.light.length;
export const NONE = 255; // the place in the palette of rows without a value
export const LEVELS = 250;

const BITS = { light: ["#0072B2", "#D55E00"], dark: ["#4C9FE0", "#F07A2E"] };
const GRAY = { light: "#c9cfd7", dark: "#49515c" };

// Cividis, from low to high, which looks alike to people with and without color blindness.
const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];

/** The color of a label by its rank, the most frequent first; colors repeat. */
export const labelColor = (rank, theme) => LABELS[theme][rank % MOST_COLORS];
export const bitColor = (bit, theme) => BITS[theme][bit];

/** The color of a share from 0 to 1: high values stand out from the page, dark on a light one and bright on a dark one. */
export function levelColor(share, theme) {
  const bounded = Math.min(1, Math.max(0, share));
  const at = (theme === "light" ? 1 - bounded * 0.95 - 0.05 : 0.1 + 0.9 * bounded) * (CIVIDIS.length - 1);
  const low = Math.floor(at);
  const [a, b] = [CIVIDIS[low], CIVIDIS[Math.min(low + 1, CIVIDIS.length - 1)]].map(channels);
  return `rgb(${a.map((value, i) => Math.round(value + (at - low) * (b[i] - value))).join(", ")})`;
}

/** A palette of 256 RGB colors as bytes: kind is label, bit or level. */
export function paletteBytes(kind, theme) {
  const bytes = new Uint8Array(256 * 4).fill(255);
  const set = (place, color) => bytes.set(channels(color), 4 * place);
  for (let i = 0; i < LEVELS; i++) {
    if (kind === "label") set(i, labelColor(i, theme));
    else if (kind === "bit") set(i, bitColor(Math.min(i, 1), theme));
    else set(i, levelColor(i / (LEVELS - 1), theme));
  }
  set(NONE, GRAY[theme]);
  return bytes;
}

function channels(color) {
  if (color.startsWith("rgb")) return color.match(/\d+/g).map(Number);
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}
