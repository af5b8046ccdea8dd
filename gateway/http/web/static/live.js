// Keeps a page fresh: fetches what is in <main> again and changes only what differs, so that focus, scroll and selection
// stay. Every 2 seconds, or when the server's stream of events says that something happened.
"use strict";

(() => {
  const main = document.getElementById("main");
  const pulse = document.getElementById("pulse");
  const every = 2000; // ms
  const patience = 30000; // ms until an answer counts as lost
  const slice = 30; // ms of work on the page without a pause
  let timer = 0, asked = Date.now(), busy = false, told = false, again = false, lost = 0, due = Infinity, stream = null, streams = false;

  const keyOf = (node) => node.nodeType === 1 ? node.id || node.getAttribute("data-key") || "" : "";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // What somebody works with stays as it is.
  const held = (node) => {
    if (node.nodeType !== 1) {
      const chosen = document.getSelection();
      return chosen && !chosen.isCollapsed && chosen.containsNode(node, true);
    }
    return node.hasAttribute("data-keep") || (node.matches("form") && node.hasAttribute("data-touched"));
  };

  const attributes = (old, now) => {
    for (const each of [...old.attributes]) {
      if (!now.hasAttribute(each.name) && !(each.name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(each.name);
    }
    for (const each of now.attributes) {
      if (old.getAttribute(each.name) !== each.value && !(each.name === "open" && old.nodeName === "DETAILS")) {
        old.setAttribute(each.name, each.value);
      }
    }
  };

  const change = function* (old, now) {
    if (held(old)) return;
    if (old.nodeType !== 1) {
      if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue;
      return;
    }
    attributes(old, now);
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(old.nodeName) && old.nodeName !== "SELECT") return;
    yield* children(old, now);
  };

  // Pauses after each node with a key, so that a long table does not hold the browser up.
  const children = function* (old, now) {
    const kept = new Set([...now.childNodes].map(keyOf).filter(Boolean));
    const keyed = new Map();
    for (const each of [...old.childNodes]) {
      const key = keyOf(each);
      if (key && !kept.has(key) && !held(each)) each.remove();
      else if (key) keyed.set(key, each);
    }
    let at = old.firstChild;
    for (const wanted of [...now.childNodes]) {
      const key = keyOf(wanted);
      let found = key ? keyed.get(key) : at;
      if (!key) while (found && !alike(found, wanted)) found = keyOf(found) ? null : found.nextSibling;
      if (found && !alike(found, wanted)) found = null;
      if (found && found !== at) at = reached(old, at, found);
      if (found) {
        at = found.nextSibling;
        yield* change(found, wanted);
      } else {
        old.insertBefore(document.importNode(wanted, true), at);
      }
      if (key) yield;
    }
    while (at) {
      const next = at.nextSibling;
      if (!held(at)) at.remove();
      at = next;
    }
  };

  // Nodes without a key before the one that comes next are over; the node itself is moved only if others stand between.
  const reached = (old, at, found) => {
    const over = [];
    for (let each = at; each && each !== found; each = each.nextSibling) over.push(each);
    const follows = at && at.compareDocumentPosition(found) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (follows && !over.some(keyOf)) over.forEach((each) => each.remove());
    else old.insertBefore(found, at);
    return found;
  };

  const say = (text) => { if (pulse && pulse.textContent !== text) pulse.textContent = text; };

  const refresh = async () => {
    clearTimeout(timer);
    due = Infinity; // also while one is under way: what is due and never done would hold up all that follow
    if (busy) { again = true; return; }
    busy = true;
    asked = Date.now();
    const wanted = location.href, live = main.hasAttribute("data-live");
    try {
      const headers = {"X-Part": "main", "Accept": "text/html"};
      const answer = await fetch(wanted, {headers, redirect: "manual", signal: AbortSignal.timeout(patience)});
      if (answer.type === "opaqueredirect") { location.reload(); return; }
      const text = await answer.text();
      if (!answer.ok) throw new Error(String(answer.status));
      const steps = children(main, new DOMParser().parseFromString(`<main>${text}</main>`, "text/html").querySelector("main"));
      let begun = performance.now(), done = false;
      while (!done && wanted === location.href && live === main.hasAttribute("data-live")) { // a result may take its place
        done = steps.next().done;
        if (!done && performance.now() - begun > slice) {
          await new Promise((go) => { setTimeout(go); });
          begun = performance.now();
        }
      }
      if (done) document.dispatchEvent(new Event("mgw:fresh"));
      lost = 0;
      say("");
      document.body.classList.remove("stale");
    } catch (error) {
      lost = lost || Date.now();
      document.body.classList.add("stale");
      say(`· not fresh: no answer since ${new Date(lost).toLocaleTimeString()}`);
    } finally {
      busy = false;
      if (again) { again = false; soon(); } else if (due === Infinity) plan();
    }
  };

  const plan = () => {
    clearTimeout(timer);
    due = Infinity;
    if (!document.hidden && main.hasAttribute("data-live")) {
      timer = setTimeout(refresh, lost ? 5000 : streams ? 10000 : every);
    }
  };
  // Numbers change every second and are fetched every other; a state or an event is shown at once.
  const within = (least) => {
    const at = Math.max(Date.now(), asked + least);
    if (at >= due || !main.hasAttribute("data-live")) return;
    due = at;
    clearTimeout(timer);
    timer = setTimeout(refresh, at - Date.now());
  };
  const soon = () => within(900);

  const listen = () => {
    const place = document.querySelector('meta[name="stream"]');
    if (!place || !main.hasAttribute("data-live") || !window.EventSource) return;
    stream = new EventSource(place.content);
    stream.onopen = () => { streams = true; told = false; };
    stream.onerror = () => { streams = false; plan(); };
    // A stream begins with all states, which the page has; from the first metrics on a state is news.
    for (const kind of ["job", "link"]) stream.addEventListener(kind, () => { if (told) soon(); });
    for (const kind of ["message", "event"]) stream.addEventListener(kind, soon);
    stream.addEventListener("metrics", () => { told = true; within(every); });
  };
  const deafen = () => { if (stream) stream.close(); stream = null; streams = false; };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { clearTimeout(timer); deafen(); } else { listen(); refresh(); }
  });
  addEventListener("pagehide", deafen);
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form");
    if (form && !form.hasAttribute("data-filter")) form.setAttribute("data-touched", "");
  });

  // Forms that choose what is shown work while somebody types.
  const choose = (form) => {
    const values = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", values.size ? `${form.getAttribute("action")}?${values}` : form.getAttribute("action"));
    refresh();
  };
  let typing = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-filter]");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => choose(form), event.target.nodeName === "SELECT" ? 0 : 200);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[data-filter]")) { event.preventDefault(); choose(event.target); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.nodeName)) return;
    const place = document.querySelector("form[data-filter] input");
    if (place) { event.preventDefault(); place.focus(); }
  });

  document.documentElement.classList.add("scripted");
  listen();
  plan();
})();
