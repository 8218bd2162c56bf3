/** Bodies drawn on a canvas: one animation loop plays all that are on the page. */

const playing = new Map();
const isStill = matchMedia("(prefers-reduced-motion: reduce)");

/** Play poses of the service on a canvas, in a loop, until ``stopBody`` or the canvas leaves the page. */
export function playBody(canvas, motion) {
  playing.set(canvas, { ...motion, frame: findFrame(motion.poses), since: performance.now(), shown: -1 });
}

/** Return the part of space that all bodies of a motion need: half its width, its middle height, and its height. */
function findFrame(poses) {
  const joints = poses.flat(2).filter(Boolean);
  const heights = joints.map(([, y]) => y);
  const top = Math.max(900, ...heights), bottom = Math.min(-600, ...heights);
  return { side: Math.max(400, ...joints.map(([x]) => Math.abs(x))), middle: (top + bottom) / 2, height: top - bottom };
}

export function stopBody(canvas) { playing.delete(canvas); }

function draw(canvas, { poses, bones, head, frame }, index) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  if (!width || !poses.length) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.lineCap = context.lineJoin = "round";
  const style = getComputedStyle(document.documentElement);
  const people = poses[index], unit = Math.min(0.84 * height / frame.height, 0.9 * width / (2 * frame.side * people.length));
  context.strokeStyle = context.fillStyle = style.getPropertyValue("--known").trim();
  context.lineWidth = Math.max(3, height / 40);
  people.forEach((body, person) => {
    const middle = width * (person + 0.5) / people.length;
    const place = ([x, y]) => [middle - x * unit, height * 0.52 - (y - frame.middle) * unit];
    context.beginPath();
    for (const [a, b] of bones) {
      if (!body[a] || !body[b]) continue;
      context.moveTo(...place(body[a]));
      context.lineTo(...place(body[b]));
    }
    context.stroke();
    if (body[head]) {
      context.beginPath();
      context.arc(...place(body[head]), Math.max(5, height / 20), 0, 2 * Math.PI);
      context.fill();
    }
  });
}

function tick(now) {
  for (const [canvas, motion] of playing) {
    if (!canvas.isConnected) {
      playing.delete(canvas);
      continue;
    }
    const length = Math.max(motion.seconds, 0.5) + 0.6;  // rest at the end
    const passed = Math.max(0, now - motion.since) / 1000;  // a frame may have begun before the replay
    const share = Math.min((passed % length) / Math.max(motion.seconds, 0.5), 1);
    const index = Math.round((isStill.matches ? 0.5 : share) * (motion.poses.length - 1));
    if (index !== motion.shown && canvas.offsetParent) {
      draw(canvas, motion, index);
      motion.shown = index;
    }
  }
  requestAnimationFrame(tick);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const motion of playing.values()) motion.shown = -1;
});
requestAnimationFrame(tick);
