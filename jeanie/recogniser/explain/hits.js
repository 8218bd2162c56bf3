(() => {
  const columns = ["file", "start_s", "end_s", "label", "confidence", "distance"];
  const stage = makeStage(data.scene);
  const visible = new Set();
  let playing = false;

  const span = (hit) => hit.start_s === null ? "" : `${hit.start_s.toFixed(2)} to ${hit.end_s.toFixed(2)} s`;
  const number = (value, digits) => value === null ? "" : value.toFixed(digits);

  /** Build one result: a canvas, a tick box with the file, and the numbers. Text is never parsed as HTML. */
  const cards = data.hits.map((hit) => {
    const item = document.createElement("li");
    const canvas = item.appendChild(document.createElement("canvas"));
    const name = item.appendChild(document.createElement("label"));
    const box = name.appendChild(document.createElement("input"));
    box.type = "checkbox";
    name.append(` ${hit.file}`);
    const facts = item.appendChild(document.createElement("small"));
    const parts = [span(hit), hit.label === null ? "" : String(hit.label), `confidence ${number(hit.confidence, 2)}`];
    if (hit.distance !== null) parts.push(`distance ${number(hit.distance, 3)}`);
    for (const part of parts.filter(Boolean)) facts.appendChild(document.createElement("span")).textContent = part;
    if (!hit.poses) canvas.hidden = true;
    return { hit, item, canvas, box };
  });

  function draw(card, seconds) {
    if (!card.hit.poses) return;
    const frames = card.hit.poses.frames;
    const share = (seconds % (card.hit.seconds + 0.4)) / Math.max(card.hit.seconds, 0.1);
    const frame = frames[0] + Math.min(share, 1) * (frames[frames.length - 1] - frames[0]);
    const [context, width, height] = clearCanvas(card.canvas);
    stage.drawGround(context, width, height);
    stage.drawBodies(context, stage.poseAt(card.hit.poses, frame), colour("--query"), width, height);
  }

  const shown = () => cards.filter((card) => !card.item.hidden);
  const chosen = () => shown().filter((card) => card.box.checked);
  const quote = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = () => [columns, ...chosen().map(({ hit }) => columns.map((name) => hit[name]))]
    .map((row) => row.map(quote).join(",")).join("\n") + "\n";

  function update() {
    const threshold = Number(find("threshold").value);
    find("threshold-value").textContent = threshold.toFixed(2);
    for (const card of cards) {
      card.item.hidden = card.hit.confidence < threshold;
      card.item.classList.toggle("ticked", card.box.checked);
    }
    find("count").textContent = `${shown().length} of ${cards.length} results, ${chosen().length} ticked.`;
    find("export").href = `data:text/csv;charset=utf-8,${encodeURIComponent(csv())}`;
  }

  function sort() {
    const key = find("sort").value, name = key.replace("-", ""), sign = key.startsWith("-") ? -1 : 1;
    const value = ({ hit }) => hit[name] ?? "";
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    cards.sort((a, b) => sign * compare(value(a), value(b))
      || compare(a.hit.file, b.hit.file) || (a.hit.start_s ?? 0) - (b.hit.start_s ?? 0));
    find("hits").append(...cards.map((card) => card.item));
    update();
  }

  function tick(time) {
    if (!playing) return;
    for (const card of visible) if (!card.item.hidden) draw(card, time / 1000);
    requestAnimationFrame(tick);
  }

  function play(on) {
    playing = on;
    find("play").textContent = on ? "Pause" : "Play";
    find("play").setAttribute("aria-pressed", String(on));
    if (on) requestAnimationFrame(tick);
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const card = cards.find(({ item }) => item === entry.target);
      if (entry.isIntersecting) { visible.add(card); draw(card, 0); } else visible.delete(card);
    }
  });
  for (const card of cards) {
    watcher.observe(card.item);
    card.box.addEventListener("change", update);
  }
  find("threshold").value = String(data.threshold);
  find("threshold").addEventListener("input", update);
  find("sort").addEventListener("change", sort);
  find("play").addEventListener("click", () => play(!playing));
  find("all").addEventListener("click", () => { for (const card of shown()) card.box.checked = true; update(); });
  find("none").addEventListener("click", () => { for (const card of cards) card.box.checked = false; update(); });
  window.addEventListener("resize", () => { for (const card of visible) draw(card, 0); });
  sort();
  for (const card of shown().slice(0, 12)) draw(card, 0);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches && !location.hash.includes("still")) play(true);
  root.dataset.ready = "1";
})();
