(() => {
  const { query, support, path } = data.scene;
  const stage = makeStage(data.scene);
  const { poseAt, place, project, drawGround, drawBodies } = stage;
  let at = 0;            // 0 to 1 along the path
  let playing = false;
  let before = 0;

  /** Frames of both movements at a share of the path. */
  function moment(share) {
    const index = Math.min(Math.max(share, 0), 1) * (path.length - 1);
    const low = Math.min(Math.floor(index), Math.max(path.length - 2, 0));
    const high = Math.min(low + 1, path.length - 1), part = index - low;
    return [0, 1].map((side) => path[low][side] + part * (path[high][side] - path[low][side]));
  }

  const layer = document.createElement("canvas");

  /** Draw bodies as one transparent layer, so that joints do not look darker than bones. */
  function overlay(context, bodies, ink, width, height, alpha) {
    const ratio = window.devicePixelRatio || 1;
    layer.width = context.canvas.width;
    layer.height = context.canvas.height;
    const own = layer.getContext("2d");
    own.setTransform(ratio, 0, 0, ratio, 0, 0);
    own.lineCap = own.lineJoin = "round";
    drawBodies(own, bodies, ink, width, height);
    context.globalAlpha = alpha;
    context.drawImage(layer, 0, 0, width, height);
    context.globalAlpha = 1;
  }

  function drawBoth(one, other) {
    const [context, width, height] = clearCanvas(find("both"));
    drawGround(context, width, height);
    overlay(context, other, colour("--support"), width, height, 0.9);
    overlay(context, one, colour("--query"), width, height, 0.7);
    let worst = [0, null];
    context.strokeStyle = colour("--gap");
    one.forEach((body, person) => body.forEach((joint, number) => {
      const partner = other[person] && other[person][number];
      if (!joint || !partner) return;
      const gap = Math.hypot(joint[0] - partner[0], joint[1] - partner[1], joint[2] - partner[2]);
      if (gap > worst[0]) worst = [gap, data.scene.names[number]];
      if (gap < 0.06) return;
      const [a, b] = [joint, partner].map((point) => project(place(point, person, one.length), width, height));
      context.globalAlpha = Math.min(1, gap / 0.2);
      context.lineWidth = 2;
      drawLine(context, [a, b]);
    }));
    context.globalAlpha = 1;
    const percent = 100 * worst[0] / data.scene.height;
    find("both-status").textContent = percent < 3 ? "all joints are close now"
      : `${worst[1]}: ${percent.toFixed(0)} % of the height apart now`;
  }

  const clock = (side, frame) => side.rate ? `${(frame / side.rate).toFixed(2)} s` : `frame ${frame.toFixed(0)}`;

  function drawPath(now) {
    const canvas = find("path");
    const [context, width, height] = clearCanvas(canvas);
    const left = 44, bottom = 34, top = 8, right = 8;
    const ends = [data.query.frames - 1, data.support.frames - 1].map((last) => Math.max(last, 1));
    const toPixels = ([q, s]) => [left + s / ends[1] * (width - left - right), height - bottom - q / ends[0] * (height - bottom - top)];
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    context.strokeRect(left, top, width - left - right, height - top - bottom);
    drawLine(context, [[0, 0], ends].map(toPixels));
    context.strokeStyle = colour("--accent");
    context.lineWidth = 2.5;
    drawLine(context, path.map(toPixels));
    context.fillStyle = colour("--gap");
    drawDisc(context, toPixels(now), 6);
    context.font = "13px system-ui, sans-serif";
    context.fillStyle = colour("--support");
    context.textAlign = "center";
    context.fillText(data.scene.titles[1], (left + width) / 2, height - 6, width - left);
    context.fillStyle = colour("--soft");
    context.textAlign = "left";
    context.fillText("0", left, height - bottom + 15);
    context.textAlign = "right";
    context.fillText(clock(data.support, ends[1]), width - right, height - bottom + 15);
    context.save();
    context.translate(14, (height - bottom + top) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillStyle = colour("--query");
    context.fillText(data.scene.titles[0], 0, 0, height - bottom - top);
    context.restore();
    context.fillStyle = colour("--soft");
    context.textAlign = "right";
    context.fillText(clock(data.query, ends[0]), left - 4, top + 10);
    canvas.setAttribute("aria-valuenow", String(Math.round(at * 1000)));
  }

  function render() {
    const now = moment(at);
    const bodies = [poseAt(query, now[0]), poseAt(support, now[1])];
    ["query", "support"].forEach((name, side) => {
      const [context, width, height] = clearCanvas(find(name));
      drawGround(context, width, height);
      drawBodies(context, bodies[side], colour(`--${name}`), width, height);
      find(`${name}-time`).textContent = clock(data[name], now[side]);
    });
    drawBoth(...bodies);
    drawPath(now);
    find("slider").value = String(Math.round(at * 1000));
  }

  const length = Math.max(data.scene.seconds, 1.5);
  function tick(time) {
    if (!playing) return;
    at += before ? (time - before) / 1000 / length : 0;
    before = time;
    if (at > 1.12) at = 0;  // a short pause at the end
    render();
    requestAnimationFrame(tick);
  }

  function play(on) {
    playing = on;
    before = 0;
    if (on && at >= 1) at = 0;
    const button = find("play");
    button.textContent = on ? "Pause" : "Play";
    button.setAttribute("aria-pressed", String(on));
    if (on) requestAnimationFrame(tick);
  }

  function seek(share) {
    play(false);
    at = Math.min(Math.max(share, 0), 1);
    render();
  }

  find("play").addEventListener("click", () => play(!playing));
  find("slider").addEventListener("input", (event) => seek(Number(event.target.value) / 1000));
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => { stage.azimuth = Number(button.dataset.view); render(); });
  }
  for (const name of ["query", "both", "support"]) {
    const canvas = find(name);
    let start = null;
    canvas.addEventListener("pointerdown", (event) => {
      start = [event.clientX, stage.azimuth];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!start) return;
      stage.azimuth = start[1] + (event.clientX - start[0]) * 0.6;
      render();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { start = null; });
  }
  const chart = find("path");
  const seekToPointer = (event) => {
    const box = chart.getBoundingClientRect();
    const frame = (event.clientX - box.left - 44) / Math.max(1, box.width - 52) * Math.max(data.support.frames - 1, 1);
    let best = 0;
    path.forEach(([, s], index) => { if (Math.abs(s - frame) < Math.abs(path[best][1] - frame)) best = index; });
    seek(best / Math.max(1, path.length - 1));
  };
  chart.addEventListener("pointerdown", seekToPointer);
  chart.addEventListener("pointermove", (event) => { if (event.buttons) seekToPointer(event); });
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.target.tagName === "BUTTON") return;
    if (event.key === "ArrowRight") seek(at + 0.02);
    if (event.key === "ArrowLeft") seek(at - 0.02);
    if (event.key === " ") { event.preventDefault(); play(!playing); }
  });
  for (const row of document.querySelectorAll(".joint")) {
    const choose = () => { stage.chosen = { joint: Number(row.dataset.joint), person: Number(row.dataset.person) }; if (!playing) render(); };
    const leave = () => { stage.chosen = null; if (!playing) render(); };
    for (const kind of ["mouseenter", "focus"]) row.addEventListener(kind, choose);
    for (const kind of ["mouseleave", "blur"]) row.addEventListener(kind, leave);
  }
  window.addEventListener("resize", render);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
  at = data.scene.worst;
  render();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches && !location.hash.includes("still")) {
    at = 0;
    play(true);
  }
  root.dataset.ready = "1";
})();
