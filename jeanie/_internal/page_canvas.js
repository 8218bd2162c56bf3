"use strict";
// Helpers of every page with a script: errors, data, colours, canvases and bodies.
const root = document.documentElement;
root.dataset.errors = "0";
window.addEventListener("error", () => { root.dataset.errors = String(Number(root.dataset.errors) + 1); });

const data = JSON.parse(document.getElementById("data").textContent);
const find = (name) => document.querySelector(`[data-part="${name}"]`);
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

/** Clear a canvas at the resolution of the screen; return its context, and its size in CSS pixels. */
function clearCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.lineCap = context.lineJoin = "round";
  context.font = "12px system-ui, sans-serif";
  return [context, width, height];
}

/** Draw a line through points [x, y]. */
function drawLine(context, points) {
  context.beginPath();
  points.forEach(([x, y], number) => number ? context.lineTo(x, y) : context.moveTo(x, y));
  context.stroke();
}

/** Draw a filled circle. */
function drawDisc(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

/** Interpolate bodies between two poses; a joint that is missing in one pose is taken from the other. */
function interpolate(poses, low, high, share) {
  return poses[low].map((body, person) => body.map((joint, number) => {
    const next = poses[high][person][number];
    return joint && next ? joint.map((value, axis) => value * (1 - share) + next[axis] * share) : joint || next;
  }));
}

/** Rotate a joint by R_x(altitude) R_y(azimuth), in degrees. */
function rotate([x, y, z], azimuth, altitude = 0) {
  const a = azimuth * Math.PI / 180, b = altitude * Math.PI / 180;
  const u = x * Math.cos(a) - z * Math.sin(a), w = x * Math.sin(a) + z * Math.cos(a);
  return [u, y * Math.cos(b) + w * Math.sin(b), -y * Math.sin(b) + w * Math.cos(b)];
}
