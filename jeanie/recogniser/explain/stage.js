"use strict";
/** What draws bodies on canvases: `azimuth` is the turn of the looker in degrees, `chosen` a joint that is pointed at. */
function makeStage({ bones, scale, head, neck, reach, floor, spread }) {
  const stage = { azimuth: 0, chosen: null };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** A canvas at the screen's own resolution, cleared: context, width, height in CSS pixels. */
  function paper(canvas) {
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

  /** The bodies of a movement at a frame, joints in the unit of the page, null where missing. */
  function pose(side, frame) {
    const places = side.frames, last = places.length - 1;
    let low = 0, high = last;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (places[middle] <= frame) low = middle; else high = middle;
    }
    const gap = places[high] - places[low];
    const part = gap > 0 ? Math.min(Math.max((frame - places[low]) / gap, 0), 1) : 0;
    return side.poses[low].map((body, person) => body.map((joint, number) => {
      const next = side.poses[high][person][number];
      return joint && next ? joint.map((value, axis) => (value + part * (next[axis] - value)) / scale) : null;
    }));
  }

  /** A joint on the stage: two persons stand before each other, one alone looks at you. */
  function placed([x, y, z], person, count) {
    if (count < 2) return [x, y, z];
    const side = person ? 1 : -1;
    return [side * z + side * spread / 2, y, -side * x];
  }

  /** Where a point of the stage lies on the paper, how far away it is, and the size of a unit. */
  function seen([x, y, z], width, height) {
    const angle = stage.azimuth * Math.PI / 180;
    const across = x * Math.cos(angle) - z * Math.sin(angle), depth = x * Math.sin(angle) + z * Math.cos(angle);
    const unit = Math.min(height * 0.94 / (reach + floor), width * 0.94 / (1.5 + spread));
    const top = (height - (reach + floor) * unit) / 2;
    return [width / 2 - across * unit, top + (reach - y + 0.12 * depth) * unit, depth, unit];
  }

  /** Two rings on the ground. */
  function ground(context, width, height) {
    const [x, y, , unit] = seen([0, -floor + 0.06, 0], width, height);
    context.strokeStyle = colour("--floor");
    context.lineWidth = 1.5;
    for (const radius of [0.35, 0.7]) {
      context.beginPath();
      context.ellipse(x, y, radius * unit * (1 + spread / 2), radius * unit * 0.12, 0, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  /** A colour (#rrggbb) on its way to another one. */
  function mixed(one, other, share) {
    const parts = [1, 3, 5].map((at) => [one, other].map((hex) => parseInt(hex.slice(at, at + 2), 16)));
    return `rgb(${parts.map(([a, b]) => Math.round(a + share * (b - a))).join(" ")})`;
  }

  function draw(context, bodies, ink, width, height) {
    const back = colour("--card");
    bodies.forEach((body, person) => {
      const points = body.map((joint) => joint && seen(placed(joint, person, bodies.length), width, height));
      const parts = bones.filter(([a, b]) => points[a] && points[b]);
      parts.sort(([a, b], [c, d]) => points[c][2] + points[d][2] - points[a][2] - points[b][2]);
      const middle = points[neck] ? points[neck][2] : 0;
      for (const [a, b] of parts) {
        const far = Math.min(Math.max((points[a][2] + points[b][2]) / 2 - middle + 0.25, 0), 0.6);
        context.strokeStyle = mixed(ink, back, 0.8 * far);
        context.lineWidth = Math.max(3, (0.052 - 0.03 * far) * points[a][3]);
        context.beginPath();
        context.moveTo(points[a][0], points[a][1]);
        context.lineTo(points[b][0], points[b][1]);
        context.stroke();
      }
      if (points[head]) {
        const [x, y, , unit] = points[head];
        context.fillStyle = mixed(ink, back, 0.12);
        context.beginPath();
        context.arc(x, y - 0.03 * unit, 0.078 * unit, 0, 2 * Math.PI);
        context.fill();
      }
      if (stage.chosen && stage.chosen.person === person && points[stage.chosen.joint]) {
        const [x, y, , unit] = points[stage.chosen.joint];
        context.strokeStyle = colour("--gap");
        context.lineWidth = 3;
        context.beginPath();
        context.arc(x, y, 0.08 * unit, 0, 2 * Math.PI);
        context.stroke();
      }
    });
  }

  return Object.assign(stage, { colour, paper, pose, placed, seen, ground, draw });
}
