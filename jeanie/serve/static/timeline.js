/** The last movements as bars on a line of time, each as long as it lasted. The list below has the same movements as text. */

const SECONDS = 60;  // that the line shows
const find = (id) => document.getElementById(id);

export function showTimeline(open) {
  const line = find("timeline");
  let bars = [], now = 0;

  function place({ event, bar }) {
    const left = now > SECONDS ? now - SECONDS : 0;
    const share = (seconds) => 100 * (seconds - left) / SECONDS;
    bar.style.left = `${share(event.start_s)}%`;
    bar.style.width = `${share(event.end_s) - share(event.start_s)}%`;
  }

  return {
    /** Begin again: times count from the start of a source. */
    reset() {
      bars.forEach(({ bar }) => bar.remove());
      bars = [];
      now = 0;
      line.hidden = true;
    },
    add(event) {
      if (event.start_s === undefined) return;  // of a file
      const bar = document.createElement("span");
      bar.addEventListener("click", () => open(event));
      line.append(bar);
      line.hidden = false;
      bars.push({ event, bar });
    },
    describe(event, name) {
      const found = bars.find((one) => one.event === event);
      if (!found) return;
      found.bar.textContent = found.bar.title = name ?? "unknown";
      found.bar.dataset.known = String(name !== null);
      found.bar.dataset.person = String(event.person ?? 0);
      place(found);
    },
    setTime(seconds) {
      now = seconds;
      const left = now > SECONDS ? now - SECONDS : 0;
      for (const one of bars.filter(({ event }) => event.end_s < left)) one.bar.remove();
      bars = bars.filter(({ event }) => event.end_s >= left);
      bars.forEach(place);
      find("timeline-now").style.left = `${100 * (now - left) / SECONDS}%`;
    },
  };
}
