// Sends what somebody decided: log in and out, and forms that change something, with the token that only this page knows.
"use strict";

(() => {
  const csrf = () => document.querySelector('meta[name="csrf"]').content;

  const refuse = (form, told) => {
    const place = form.querySelector("[data-refused]");
    const parts = [told.detail, told.cause, told.cure && `What to do: ${told.cure}`];
    place.textContent = parts.filter(Boolean).join(". ");
    place.hidden = false;
  };

  const problem = async (answer) => {
    try { return await answer.json(); } catch (error) { return {detail: `the answer was ${answer.status}`}; }
  };

  const send = async (form, address, options) => {
    const buttons = form.querySelectorAll("button");
    for (const each of buttons) each.disabled = true;
    try {
      const headers = {"Accept": "application/json", "X-CSRF-Token": csrf(), ...options.headers};
      const answer = await fetch(address, {...options, headers});
      if (answer.ok) return answer;
      refuse(form, await problem(answer));
    } catch (error) {
      refuse(form, {detail: "the gateway does not answer", cure: "try again in a moment"});
    } finally {
      for (const each of buttons) each.disabled = false;
    }
    return null;
  };

  const logIn = async (form) => {
    const value = {name: form.elements.name.value, password: form.elements.password.value};
    const body = JSON.stringify(value);
    const answer = await send(form, "/api/v1/session", {method: "POST", body, headers: {"Content-Type": "application/json"}});
    if (answer) location.assign(form.dataset.next);
    else { form.elements.password.value = ""; form.elements.password.focus(); }
  };

  // Many messages are sent in pieces, so that one sees how far it is, and can stop it.
  const inPieces = async (form, body, bar) => {
    let done = 0, failed = 0, gone = 0, ended = false;
    const all = Number(bar.dataset.all), stop = bar.querySelector("[data-stop]");
    const meter = bar.querySelector("progress"), told = bar.querySelector("[data-told]");
    bar.hidden = false;
    stop.onclick = () => { ended = true; };
    while (!ended) {
      const answer = await send(form, form.action, {method: "POST", body});
      if (!answer) return;
      const found = await answer.json();
      done += found.done; failed = found.failed; gone += found.gone;
      meter.value = Math.min(1, (done + failed + gone) / Math.max(1, all));
      told.textContent = `${done} of ${all} done` + (failed ? `, ${failed} stay` : "") + (gone ? `, ${gone} were taken by somebody else` : "");
      if (found.stopped) { refuse(form, {detail: found.stopped}); return; }
      if (!found.done) break;
    }
    told.textContent += ended ? "; stopped" : "; finished";
    stop.hidden = true;
    bar.querySelector("[data-after]").hidden = false;
  };

  // What comes is a page of its own, such as a preview: it takes the place of this one.
  const show = async (form, body, address) => {
    const answer = await send(form, address, {method: "POST", body, headers: {"X-Part": "main"}});
    if (!answer) return;
    const main = document.getElementById("main"), text = await answer.text();
    main.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
    main.removeAttribute("data-live");
    main.focus();
  };

  const act = async (form, button) => {
    const body = new URLSearchParams(new FormData(form, button));
    const bar = form.querySelector("[data-progress]");
    if (bar) { await inPieces(form, body, bar); return; }
    const answer = await send(form, form.action, {method: "POST", body});
    if (answer) location.assign(answer.url);
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("[data-log-in]")) { event.preventDefault(); logIn(form); }
    else if (form.matches("[data-act]")) { event.preventDefault(); act(form, event.submitter); }
    else if (form.matches("[data-page]")) { event.preventDefault(); show(form, new URLSearchParams(new FormData(form)), event.submitter?.hasAttribute("formaction") ? event.submitter.formAction : form.action); }
  });

  document.addEventListener("click", async (event) => {
    if (!event.target.closest("[data-log-out]")) return;
    await fetch("/api/v1/session", {method: "DELETE", headers: {"X-CSRF-Token": csrf()}});
    location.assign("/log-in");
  });
})();
