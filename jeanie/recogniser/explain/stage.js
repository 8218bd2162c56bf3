/** Return functions that draw bodies on a stage. Settings: `azimuth` of the camera in degrees, `chosen` joint to mark. */
function makeStage({ bones, scale, head, neck, reach, floor, spread }) {
  const stage = { azimuth: 0, chosen: null };

  /** Return the bodies of a movement at a frame, joints in the unit of the page; a missing joint is null. */
  function poseAt(side, frame) {
    const places = side.frames, last = places.length - 1;
    let low = 0, high = last;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (places[middle] <= frame) low = middle; else high = middle;
    }
    const gap = places[high] - places[low];
    const part = gap > 0 ? Math.min(Math.max((frame - places[low]) / gap, 0), 1) : 0;
    return interpolate(side.poses, low, high, part).map((body) => body.map((joint) => joint && joint.map((value) => value / scale)));
  }

  /** Return the place of a joint on the stage: two persons face each other, a single person faces the viewer. */
  function place([x, y, z], person, count) {
    if (count < 2) return [x, y, z];
    const side = person ? 1 : -1;
    return [side * z + side * spread / 2, y, -side * x];
  }

  /** Project a point of the stage: x and y on the canvas, depth, and the size of a unit. */
  function project(point, width, height) {
    const [across, y, depth] = rotate(point, stage.azimuth);
    const unit = Math.min(height * 0.94 / (reach + floor), width * 0.94 / (1.5 + spread));
    const top = (height - (reach + floor) * unit) / 2;
    return [width / 2 - across * unit, top + (reach - y + 0.12 * depth) * unit, depth, unit];
  }

  /** Draw two rings on the ground. */
  function drawGround(context, width, height) {
    const [x, y, , unit] = project([0, -floor + 0.06, 0], width, height);
    context.strokeStyle = colour("--floor");
    context.lineWidth = 1.5;
    for (const radius of [0.35, 0.7]) {
      context.beginPath();
      context.ellipse(x, y, radius * unit * (1 + spread / 2), radius * unit * 0.12, 0, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  /** Mix two colours (#rrggbb). */
  function mix(one, other, share) {
    const parts = [1, 3, 5].map((at) => [one, other].map((hex) => parseInt(hex.slice(at, at + 2), 16)));
    return `rgb(${parts.map(([a, b]) => Math.round(a + share * (b - a))).join(" ")})`;
  }

  /** Draw bodies; parts that are farther away are paler and thinner. */
  function drawBodies(context, bodies, ink, width, height) {
    const back = colour("--card");
    bodies.forEach((body, person) => {
      const points = body.map((joint) => joint && project(place(joint, person, bodies.length), width, height));
      const parts = bones.filter(([a, b]) => points[a] && points[b]);
      parts.sort(([a, b], [c, d]) => points[c][2] + points[d][2] - points[a][2] - points[b][2]);
      const middle = points[neck] ? points[neck][2] : 0;
      for (const [a, b] of parts) {
        const far = Math.min(Math.max((points[a][2] + points[b][2]) / 2 - middle + 0.25, 0), 0.6);
        context.strokeStyle = mix(ink, back, 0.8 * far);
        context.lineWidth = Math.max(3, (0.052 - 0.03 * far) * points[a][3]);
        drawLine(context, [points[a], points[b]]);
      }
      if (points[head]) {
        const [x, y, , unit] = points[head];
        context.fillStyle = mix(ink, back, 0.12);
        drawDisc(context, [x, y - 0.03 * unit], 0.078 * unit);
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

  return Object.assign(stage, { poseAt, place, project, drawGround, drawBodies });
}
