/** The library: every action with a moving picture; rename, delete, import. */

import { ofLabel, request } from "/static/api.js";
import { playBody } from "/static/body.js";

const find = (id) => document.getElementById(id);

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Ask in a dialog; return whether it was confirmed. */
function ask(dialog) {
  return new Promise((resolve) => {
    dialog.returnValue = "";
    dialog.onclose = () => { if (!dialog.open) resolve(dialog.returnValue === "ok"); };  // open: it was asked again at once
    dialog.showModal();
  });
}

export function showLibrary(page) {
  const open = new Set();  // labels whose list of examples is open
  const fill = new WeakMap();  // functions that request what an action shows, called when it comes into view
  const observer = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter(({ isIntersecting }) => isIntersecting)) {
      observer.unobserve(target);
      fill.get(target)().catch((error) => { if (error.status !== 404) page.complain(error); });  // 404: it was deleted meanwhile
    }
  }, { rootMargin: "200px" });

  /** Show the actions again. The focus stays where it is, or goes to the list if its button is no longer there. */
  async function refresh() {
    const { actions } = await request("GET", "/actions");
    page.counter.setActions(actions.map(({ label }) => label));
    if (actions.length) page.guide.finish("record");
    find("no-actions").hidden = actions.length > 0;
    find("labels").replaceChildren(...actions.map(({ label }) => make("option", "", { value: label })));
    const shown = new Map([...find("actions").children].map((item) => [item.dataset.facts, item]));
    const items = actions.map((action) => shown.get(JSON.stringify(action)) ?? makeAction(action));
    const list = find("actions"), focused = list.contains(document.activeElement) ? document.activeElement : null;
    for (const item of [...list.children].filter((one) => !items.includes(one))) item.remove();
    items.forEach((item, place) => { if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null); });
    if (focused && document.activeElement !== focused) {
      (list.querySelector(`[aria-label="${CSS.escape(focused.getAttribute("aria-label") ?? "")}"]`) ?? find("library-title")).focus();
    }
  }

  function makeAction(action) {
    const { label, examples, negative } = action;
    const item = make("li", "", { "data-facts": JSON.stringify(action) }), canvas = make("canvas", "", { class: "body", role: "img", "aria-label": `example of ${label}` });
    const facts = count(examples, "example") + (negative ? `, ${negative} negative` : "");
    const buttons = make("div", "", { class: "buttons" });
    const rename = make("button", "Rename", { type: "button", "aria-label": `Rename ${label}` });
    const forget = make("button", "Delete", { type: "button", "aria-label": `Delete ${label}` });
    rename.addEventListener("click", page.guard(() => renameAction(label)));
    forget.addEventListener("click", page.guard(() => deleteAction(label)));
    buttons.append(rename, forget);
    item.append(canvas, make("h3", label), make("p", facts), buttons);
    const details = make("details"), list = make("ul", "", { class: "examples" });
    details.open = open.has(label);
    details.addEventListener("toggle", () => open[details.open ? "add" : "delete"](label));
    details.append(make("summary", "Examples"), list);
    item.append(details);
    fill.set(item, async () => {
      const listed = await request("GET", `/examples${ofLabel(label)}`);
      if (listed.examples.length) playBody(canvas, await request("GET", `/examples/${listed.examples.at(-1)}`));
      list.replaceChildren(...makeExamples(listed));
    });
    observer.observe(item);
    return item;
  }

  /** Return a row for each example of an action. */
  function makeExamples({ label, examples, negative }) {
    const row = (number, kind) => {
      const item = make("li", `${kind} ${number}`);
      const button = make("button", "Delete", { type: "button", "aria-label": `Delete ${kind.toLowerCase()} ${number} of ${label}` });
      button.addEventListener("click", page.guard(async () => {
        await request("DELETE", `/examples/${number}`);
        page.say(`${kind} ${number} of ${label} was deleted.`);
        await refresh();
      }));
      item.append(button);
      return item;
    };
    return [...examples.map((number) => row(number, "Example")), ...negative.map((number) => row(number, "Negative example"))];
  }

  async function renameAction(label) {
    find("name-title").textContent = `Rename ${label}`;
    find("name-confirm").textContent = "Rename";
    find("new-name").value = label;
    if (!await ask(find("name-dialog")) || find("new-name").value.trim() === label) return;
    const renamed = await request("PATCH", `/actions${ofLabel(label)}`, { label: find("new-name").value });
    page.say(`${label} is called ${renamed.label} now.`);
    await refresh();
    find("actions").querySelector(`[aria-label="Rename ${CSS.escape(renamed.label)}"]`)?.focus();
  }

  async function deleteAction(label) {
    find("confirm-title").textContent = `Delete ${label} with all its examples?`;
    if (!await ask(find("confirm-dialog"))) return;
    const { removed } = await request("DELETE", `/actions${ofLabel(label)}`);
    page.say(`${label} was deleted, with ${count(removed, "example")}.`);
    await refresh();
  }

  find("import").addEventListener("click", () => find("import-input").click());
  find("import-input").addEventListener("change", page.guard(async () => {
    const [file] = find("import-input").files, form = new FormData();
    find("import-input").value = "";
    if (!file) return;
    form.append("file", file);
    const { new: added, already } = await request("POST", "/library", form);
    page.say(`${count(added, "example")} added, ${already} already enrolled.`);
    await refresh();
  }));

  return { refresh };
}
