/** Counts the repetitions of a chosen action, for each person. */

const find = (id) => document.getElementById(id);

export function showCounter(page) {
  const choice = find("count-action"), output = find("count");
  let counts = new Map();

  function reset() {
    counts = new Map();
    output.dataset.problem = "false";
    output.textContent = choice.value ? "0" : "";
  }

  choice.addEventListener("change", () => {
    reset();
    page.stream?.setCount(choice.value || null);
  });

  return {
    reset,
    action: () => choice.value,
    /** Offer the actions of the library. */
    setActions(labels) {
      const chosen = choice.value;
      choice.replaceChildren(new Option("nothing", ""), ...labels.map((label) => new Option(label, label)));
      choice.value = labels.includes(chosen) ? chosen : "";
      if (choice.value !== chosen) reset();
    },
    show({ label, count, person = 0, detail }) {
      if (label !== choice.value) return;
      output.dataset.problem = String(count === null);
      if (count === null) output.textContent = detail;
      else {
        counts.set(person, count);
        output.textContent = [...counts.entries()].sort().map(([, number]) => number).join(" and ");
      }
    },
  };
}
