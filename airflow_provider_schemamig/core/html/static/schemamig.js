// The page's own script: it looks again while somebody looks, counts down, asks before it does, and tells what came of it.
"use strict";

const FIRST_MS = 900, REFRESH_MS = 3000;
const root = document.body.dataset.root;
const place = document.body.dataset.place, placeName = document.body.dataset.name;
const dialog = document.getElementById("ask");
const byId = (id) => document.getElementById(id);

// --- look again: never while the page is hidden, a dialog is open, somebody types or has marked text; one request every 3 s ----------

function lookAgain() {
  const live = byId("live");
  const typing = document.activeElement && document.activeElement.matches("#live input, #live select");
  const marked = getSelection();
  const marking = marked && !marked.isCollapsed && live.contains(marked.anchorNode);
  if (!document.hidden && !dialog.open && !typing && !marking && !live.classList.contains("htmx-request")) htmx.trigger(live, "refresh");
}
const tellsNothing = document.querySelector(".look:not(:has(time)), .look .busy, td.dim[colspan]");
if (tellsNothing) setTimeout(lookAgain, FIRST_MS); // what is known was shown at once, and is being read
setInterval(lookAgain, REFRESH_MS);

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["If-None-Match"] = byId("live").dataset.etag; // unchanged: the answer is 204, and nothing is drawn anew
  event.detail.path = location.pathname + location.search;
});
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status === 401) location.reload(); // the session is over: Airflow asks to log in
});
document.addEventListener("htmx:afterRequest", (event) => {
  const asOf = event.detail.xhr && event.detail.xhr.status === 204 && event.detail.xhr.getResponseHeader("X-As-Of");
  const shown = document.querySelector("#live .look time");
  if (asOf && shown) {
    shown.dateTime = asOf;
    shown.textContent = `${asOf.slice(0, 19).replace("T", " ")} UTC`;
  }
});
// What is drawn anew looks as it was left: what is unfolded, how far it is scrolled, where the keyboard is, what is filtered.
const all = (selector) => [...document.querySelectorAll(`#live ${selector}`)];
const nameOf = (item) => [item.tagName, item.dataset.verb, item.dataset.about, item.getAttribute("href"), item.name, item.textContent].join("|");
const REACHED = "button, a, summary, input, select";
let left = null;
document.addEventListener("htmx:beforeSwap", () => {
  const focused = document.activeElement;
  left = {
    opened: all("details").map((item) => item.open),
    scrolled: all(".scroll").map((item) => item.scrollLeft),
    filters: all("input[data-filter]").map((item) => item.value),
    focused: focused && focused.matches(`#live :is(${REACHED})`) ? nameOf(focused) : null,
  };
});
document.addEventListener("htmx:afterSettle", () => {
  if (left) {
    const found = all("details"), scrolls = all(".scroll"), filters = all("input[data-filter]");
    if (found.length === left.opened.length) found.forEach((item, number) => { item.open = left.opened[number]; });
    if (scrolls.length === left.scrolled.length) scrolls.forEach((item, number) => { item.scrollLeft = left.scrolled[number]; });
    if (filters.length === left.filters.length) filters.forEach((item, number) => { item.value = left.filters[number]; });
    const again = left.focused && all(REACHED).find((item) => nameOf(item) === left.focused);
    if (again && document.activeElement !== again) again.focus({ preventScroll: true });
  }
  filterRows();
  countDown();
  say();
});

function say() { // what is wrong, once, to who cannot see it; not the time of each look
  const look = document.querySelector("#live .look"), tags = look ? [...look.querySelectorAll(".tag.bad, .tag.warn")] : [];
  const text = tags.map((tag) => tag.textContent).join(", ");
  if (byId("said").textContent !== text) byId("said").textContent = text;
}
for (const lost of ["htmx:sendError", "htmx:responseError"]) {
  document.addEventListener(lost, () => {
    const look = document.querySelector("#live .look");
    if (look && !look.classList.contains("stale")) {
      look.classList.add("stale");
      const tag = document.createElement("span");
      tag.className = "tag warn";
      tag.textContent = "Airflow does not answer: what is shown is stale";
      look.append(" ", tag);
      say();
    }
  });
}

// --- countdowns, filters, jumps ------------------------------------------------------------------------------------------------------

function countDown() {
  for (const item of document.querySelectorAll("time[data-until]")) {
    const left = Math.round((new Date(item.dataset.until) - Date.now()) / 1000);
    const hours = Math.floor(left / 3600), minutes = Math.floor((left % 3600) / 60), seconds = left % 60;
    const text = left <= 0 ? "over" : `${hours} h ${String(minutes).padStart(2, "0")} min ${String(seconds).padStart(2, "0")} s left`;
    let shown = item.nextElementSibling;
    if (!shown || !shown.matches(".left")) {
      shown = document.createElement("span");
      shown.className = "left tag";
      shown.setAttribute("role", "timer"); // read when asked for, not each second
      item.after(" ", shown);
    }
    shown.textContent = text;
  }
}
setInterval(countDown, 1000);
countDown();
say();

function filterRows() {
  for (const input of document.querySelectorAll("input[data-filter]")) {
    const wanted = input.value.toLowerCase();
    for (const row of document.querySelectorAll(input.dataset.filter)) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}
document.addEventListener("input", (event) => { if (event.target.matches("input[data-filter]")) filterRows(); });
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-go]")) location.href = event.target.dataset.go + encodeURIComponent(event.target.value);
});

// --- actions -------------------------------------------------------------------------------------------------------------------------

const SCOPE = { name: "collection", label: "Collection (empty: all)", optional: true };
const VERBS = {
  approve: { title: "Approve this plan", text: "It may be promoted then.", yes: "Approve", fields: [] },
  reject: { title: "Reject this plan", text: "The run ends, and the environment stays as it is.", yes: "Reject", fields: [] },
  pause: { title: "Pause", text: "No batch begins, and nothing is promoted, sealed or committed until somebody resumes.", yes: "Pause", fields: [SCOPE] },
  resume: { title: "Resume", text: "What was paused or postponed goes on.", yes: "Resume", fields: [SCOPE] },
  postpone: { title: "Postpone the last step", text: "Rows are worked on; the last commit of online changes waits.", yes: "Postpone", fields: [SCOPE] },
  force: { title: "Force the last step", text: "Writers may be locked out for it.", yes: "Force", fields: [{ name: "collection", label: "Collection" }] },
  throttle: {
    title: "Throttle", text: "Limits that are left empty are taken back.", yes: "Throttle",
    fields: [SCOPE, { name: "rows_per_second", label: "Rows a second", type: "number", optional: true },
      { name: "max_files", label: "Files a batch", type: "number", optional: true },
      { name: "commits_per_minute", label: "Commits a minute", type: "number", optional: true },
      { name: "window", label: "Hours UTC, such as 22-6", optional: true }],
  },
  cancel: { title: "Cancel this upgrade", text: "What it built is deleted; what it changed is rolled back.", yes: "Cancel the upgrade", fields: [], typed: true },
  rollback: {
    title: "Roll back", preview: true, yes: "Roll back", typed: true,
    fields: [{ name: "allow_lossy", label: "Even if rows stay behind or are lost", type: "checkbox", optional: true }],
  },
  end_hold: { title: "End the hold", text: "The way back is gone for good, and what it kept is deleted.", yes: "End the hold", fields: [{ name: "ignore_nodes", label: "Even if live nodes need it", type: "checkbox", optional: true }], typed: true },
  revert: { title: "Revert the drift of", text: "The table goes back to what the ledger says.", yes: "Revert", fields: [], typed: true },
  unmanage: { title: "Unmanage the table", text: "The table stays as it is; the environment forgets it.", yes: "Unmanage", fields: [], typed: true },
  restore: { title: "Restore the rows of", text: "The collection is copied anew from its origin. Rows that only the target has, of commits of its own, are lost, and only with the box checked.", yes: "Restore", typed: true,
    fields: [{ name: "origin", label: "Origin: connection id, or URI" }, { name: "allow_lossy", label: "Even if commits of the target's own are lost", type: "checkbox", optional: true }] },
};

let asked = null;

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-verb]");
  if (button) ask(button.dataset.verb, JSON.parse(button.dataset.about));
});

function field({ name, label, type = "text", optional = false }, value = "") {
  const outer = document.createElement("label"), input = document.createElement("input");
  input.name = name;
  input.type = type;
  if (type === "checkbox") input.checked = Boolean(value); else input.value = value;
  if (type === "number") input.min = 1;
  input.required = !optional;
  outer.append(label, " ", input);
  return outer;
}

function ask(verb, about) {
  const { title, text, yes, fields, typed, preview } = VERBS[verb];
  asked = { verb, about, typed };
  byId("ask-title").textContent = about.collection ? `${title} ${about.collection}` : title;
  byId("ask-text").textContent = preview ? "" : [text, ...lost(about.losses), ...(verb === "end_hold" ? neededBy(about.nodes) : []), ...(verb === "resume" ? pausedBy() : [])].join(" ");
  byId("ask-yes").textContent = yes;
  byId("ask-failed").hidden = true;
  const inputs = fields.map((item) => field(item, about[item.name] || ""));
  if (verb === "revert" && about.losses.length) inputs.push(field({ name: "allow_lossy", label: "Even if values are lost", type: "checkbox", optional: true }));
  inputs.push(field({ name: "reason", label: "Reason (it is written into the history)" }));
  if (typed) inputs.push(field({ name: "typed", label: `Type the environment's name to confirm: ${placeName}` }));
  byId("ask-fields").replaceChildren(...inputs);
  byId("ask-yes").disabled = Boolean(preview);
  if (preview) showPreview(about);
  dialog.showModal();
}

function lost(losses) {
  return losses && losses.length ? [`Lost: ${losses.join("; ")}.`] : [];
}

function neededBy(nodes) { // what hold_in_use would say
  const named = (nodes || []).map((node) => `${node.id} (${node.kind} with release ${node.release})`);
  return named.length ? [`It is refused, for live nodes need what it keeps: ${named.join(", ")}. With the box checked they lose it.`] : [];
}

function pausedBy() { // whose word is taken back; no part of a button, whose name would change with it
  return JSON.parse(document.querySelector(".actions").dataset.pauses).map((pause) => `${pause.collection || "Everything"} is held by ${pause.paused_by}${pause.reason ? `: ${pause.reason}` : ""}.`);
}

async function showPreview(about) {
  const answer = await fetch(`${root}env/${encodeURIComponent(place)}/rollback_preview`, { headers: { Accept: "application/json" } });
  const found = await answer.json();
  about.generation = found.generation; // what was shown, and nothing else, goes back
  const lines = answer.ok ? found.lines : [found.detail && found.detail.message ? `${found.detail.message} ${found.detail.next}` : "What it does could not be read."];
  const list = document.createElement("ul");
  list.append(...lines.map((line) => { const item = document.createElement("li"); item.textContent = line; if (line.startsWith("cannot:")) item.className = "bad"; return item; }));
  byId("ask-text").replaceChildren(list);
  byId("ask-yes").disabled = !answer.ok;
}

byId("ask-no").addEventListener("click", () => dialog.close());
dialog.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = { ...asked.about };
  for (const input of byId("ask-fields").querySelectorAll("input")) values[input.name] = input.type === "checkbox" ? input.checked : input.value;
  if (asked.typed && values.typed !== placeName) return failed(`This is not the environment's name: ${placeName}`);
  byId("ask-yes").disabled = true;
  try {
    const answer = await fetch(`${root}env/${encodeURIComponent(place)}/${asked.verb}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values),
    });
    const said = await answer.json();
    if (!answer.ok) {
      const wrong = Array.isArray(said.detail) ? said.detail.map((item) => `${item.loc[item.loc.length - 1]}: ${item.msg}`).join("; ") : said.detail;
      return failed(said.error ? `${said.error.message} ${said.error.next}` : (wrong || answer.statusText));
    }
    dialog.close();
    tell(said.text);
    byId("live").dataset.etag = "";
    htmx.trigger(byId("live"), "refresh");
  } catch (error) {
    failed(`Airflow does not answer: ${error.message}`);
  }
});

function failed(text) {
  byId("ask-yes").disabled = false;
  byId("ask-failed").textContent = typeof text === "string" ? text : JSON.stringify(text);
  byId("ask-failed").hidden = false;
}

function tell(text) {
  byId("told").textContent = text;
  setTimeout(() => { byId("told").textContent = ""; }, 8000);
}
