(() => {
  // tabs: a group of buttons; each button shows one of the panels below
  for (const tabs of document.querySelectorAll(".tabs[data-group]")) {
    const panels = document.querySelectorAll(`.panel[data-group="${tabs.dataset.group}"]`);
    const buttons = [...tabs.querySelectorAll("button")];
    const show = (chosen) => buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === chosen));
      panels[at].hidden = at !== chosen;
    });
    buttons.forEach((button, at) => button.addEventListener("click", () => show(at)));
    show(0);
  }

  const examples = data;
  const section = document.getElementById("alignments");
  if (!section || !examples.length) {
    root.dataset.ready = "0";
    return;
  }
  const STEPS_PER_SECOND = 6;
  let example = examples[0];
  let at = 0;
  let playing = false;
  let before = 0;

  const extents = new Map();
  /** Return how far an actor reaches from its centre, horizontally and vertically, in any view. */
  function extent(actor) {
    if (!extents.has(actor)) {
      let wide = 1, tall = 1;
      for (const pose of actor.poses) for (const body of pose) for (const joint of body) {
        if (!joint) continue;
        const across = Math.hypot(joint[0], joint[2]);
        wide = Math.max(wide, across);
        tall = Math.max(tall, Math.abs(joint[1]) + 0.3 * across);
      }
      extents.set(actor, [wide, tall]);
    }
    return extents.get(actor);
  }

  function drawActor(canvas, actor, low, high, share, azimuth, altitude, ink) {
    const [context, width, height] = clearCanvas(canvas);
    const bodies = interpolate(actor.poses, low, high, share);
    const [wide, tall] = extent(actor), apart = 1.1 * wide;
    const unit = Math.min(height / 2.1 / tall, width / (2.1 * wide + apart * (bodies.length - 1)));
    bodies.forEach((body, person) => {
      const shift = (person - (bodies.length - 1) / 2) * unit * apart;
      // camera space: +x lies on the picture's left
      const points = body.map((joint) => {
        if (!joint) return null;
        const [x, y, z] = rotate(joint, azimuth, altitude);
        return [width / 2 + shift - x * unit, height / 2 - y * unit, z];
      });
      context.strokeStyle = context.fillStyle = ink;
      context.globalAlpha = person ? 0.5 : 1;
      context.lineWidth = 3;
      for (const [parent, child] of actor.bones) {
        if (!points[parent] || !points[child]) continue;
        drawLine(context, [points[parent], points[child]]);
      }
      for (const point of points) if (point) drawDisc(context, point, actor.bones.length ? 2.6 : 4);
    });
    context.globalAlpha = 1;
  }

  function drawCost(step) {
    const [context, width, height] = clearCanvas(find("cost"));
    const left = 34, bottom = 30, top = 6, right = 6;
    const rows = example.shade.length, columns = example.shade[0].length;
    const across = (width - left - right) / rows, up = (height - bottom - top) / columns;
    const x = (t) => left + (t + 0.5) * across, y = (s) => height - bottom - (s + 0.5) * up;
    context.fillStyle = colour("--ink");
    example.shade.forEach((row, t) => row.forEach((value, s) => {
      context.globalAlpha = 0.04 + 0.8 * value / 99;
      context.fillRect(x(t) - across / 2, y(s) - up / 2, across + 0.3, up + 0.3);
    }));
    context.globalAlpha = 1;
    context.strokeStyle = colour("--c1");
    context.lineWidth = 2.5;
    drawLine(context, example.path.map(([t, s]) => [x(t), y(s)]));
    const [t, s] = example.path[step];
    context.fillStyle = colour("--accent");
    drawDisc(context, [x(t), y(s)], 6);
    context.fillStyle = colour("--soft");
    context.textAlign = "center";
    context.fillText("query block", left + (width - left - right) / 2, height - 8);
    context.translate(12, top + (height - top - bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText("support block", 0, 0);
  }

  const AXES = ["azimuth", "altitude", "support azimuth", "support altitude"];
  const INKS = ["--c0", "--c1", "--c2", "--c3"];

  function drawTurns(step) {
    const [context, width, height] = clearCanvas(find("turns"));
    const left = 44, bottom = 30, top = 24, right = 10;
    const axes = example.turns[0].length;
    context.fillStyle = colour("--soft");
    if (!axes) {
      context.textAlign = "center";
      context.fillText("no simulated views: the query is shown as recorded", width / 2, height / 2);
      return;
    }
    const most = Math.max(15, ...example.turns.flat().map(Math.abs));
    const count = example.turns.length;
    const x = (k) => left + (width - left - right) * (count > 1 ? k / (count - 1) : 0.5);
    const y = (degrees) => top + (height - top - bottom) * (0.5 - degrees / most / 2.1);
    context.strokeStyle = colour("--line");
    context.textAlign = "right";
    for (const degrees of [-most, 0, most]) {
      drawLine(context, [[left, y(degrees)], [width - right, y(degrees)]]);
      context.fillText(`${degrees}°`, left - 8, y(degrees) + 4);
    }
    context.textAlign = "left";
    let place = left;
    for (let axis = 0; axis < axes; axis++) {
      context.strokeStyle = context.fillStyle = colour(INKS[axis]);
      context.lineWidth = 2;
      const nudge = (axis - (axes - 1) / 2) * 2;  // equal lines stay visible
      drawLine(context, example.turns.map((turn, k) => [x(k), y(turn[axis]) + nudge]));
      drawDisc(context, [x(step), y(example.turns[step][axis])], 5);
      context.fillText(AXES[axis], place, 12);
      place += context.measureText(AXES[axis]).width + 16;
    }
    context.fillStyle = colour("--soft");
    context.textAlign = "center";
    context.fillText("step of the path", left + (width - left - right) / 2, height - 8);
  }

  function draw() {
    const last = example.path.length - 1;
    const step = Math.min(last, Math.floor(at)), next = Math.min(last, step + 1), share = at - step;
    const [t, s] = example.path[step], [t2, s2] = example.path[next];
    const turn = example.turns[step].concat([0, 0, 0, 0]).slice(0, Math.max(4, example.turns[step].length));
    const ahead = example.turns[next].concat([0, 0, 0, 0]);
    const [azimuth, altitude, otherAzimuth, otherAltitude] = turn.map((v, k) => v * (1 - share) + ahead[k] * share);
    const blue = colour("--c0"), orange = colour("--c1");
    drawActor(find("query"), example.query, t, t2, share, 0, 0, blue);
    if (example.turns[0].length) drawActor(find("seen"), example.query, t, t2, share, azimuth, altitude, blue);
    drawActor(find("support"), example.support, s, s2, share, otherAzimuth, otherAltitude, orange);
    drawCost(step);
    drawTurns(step);
    const status = [`step ${step + 1} of ${last + 1}`, `query block ${t + 1}`, `support block ${s + 1}`];
    if (example.turns[0].length) status.push(`azimuth ${turn[0]}°`, `altitude ${turn[1]}°`);
    find("now").textContent = `${status.join(" · ")} · cost ${example.steps[step]}`;
    find("slider").value = String(at);
  }

  function setCaption(name, heading, rest) {
    const bold = document.createElement("b");
    bold.textContent = heading;
    find(name).replaceChildren(bold, rest);
  }

  function choose(number) {
    example = examples[number];
    at = 0;
    const right = example.truth === example.predicted;
    const verdict = find("verdict");
    verdict.textContent = right
      ? `${example.method} recognised “${example.truth}”`
      : `${example.method} classified “${example.truth}” as “${example.predicted}”`;
    verdict.className = `verdict ${right ? "right" : "wrong"}`;
    find("distances").textContent =
      ` Distance to the true class ${example.own}, to the nearest other class ${example.other}.`;
    const viewed = example.turns[0].length > 0;
    find("seen-figure").hidden = !viewed;
    section.querySelector(".stage").classList.toggle("two", !viewed);
    setCaption("query-caption", `Query: ${example.query.label}`, `${example.query.name} ${example.query.tags}`);
    setCaption("seen-caption", "Query from the selected view", "rotated along the path");
    setCaption("support-caption", `Support: ${example.support.label}`, `${example.support.name} ${example.support.tags}`);
    find("slider").max = String(example.path.length - 1);
    [...find("chooser").children].forEach((button, k) => button.setAttribute("aria-selected", String(k === number)));
    draw();
  }

  function play(on) {
    playing = on;
    find("play").textContent = on ? "❚❚ Pause" : "▶ Play";
    section.dataset.playing = String(on);
    if (on) { before = performance.now(); requestAnimationFrame(tick); }
  }

  function tick(now) {
    if (!playing) return;
    const last = example.path.length - 1;
    at += Math.max(0, now - before) / 1000 * STEPS_PER_SECOND;  // the first frame may start before "play"
    before = now;
    if (at > last + STEPS_PER_SECOND * 0.6) at = 0;  // a short pause at the end
    const kept = at;
    at = Math.min(at, last);
    draw();
    at = kept;
    requestAnimationFrame(tick);
  }

  examples.forEach((one, number) => {
    const button = document.createElement("button");
    const missed = one.truth === one.predicted ? "" : ` → ${one.predicted}`;
    button.textContent = `${missed ? "✗" : "✓"} ${one.method}: ${one.truth}${missed}`;
    button.addEventListener("click", () => choose(number));
    find("chooser").append(button);
  });
  find("play").addEventListener("click", () => play(!playing));
  find("slider").addEventListener("input", (event) => { play(false); at = Number(event.target.value); draw(); });
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  choose(0);
  for (let number = 0; number < examples.length; number++) { choose(number); at = example.path.length - 1; draw(); }
  choose(0);
  play(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
  root.dataset.ready = String(examples.length);
})();
