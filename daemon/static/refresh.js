// Fetches the page again and swaps only the parts that have changed: no flicker, no lost scroll position or focus.
"use strict";
const seconds = Number(document.currentScript.dataset.seconds) || 10;

function swap(fresh) {
  const main = document.querySelector("main");
  const parts = (root) => [...root.children].map((part) => part.id).join();
  if (parts(main) !== parts(fresh)) {
    main.replaceChildren(...fresh.childNodes);
    return;
  }
  const selection = getSelection();
  for (const part of [...fresh.children]) {
    const old = document.getElementById(part.id);
    const selected = !selection.isCollapsed && old.contains(selection.anchorNode);
    if (old.innerHTML === part.innerHTML || selected) continue;
    const focused = focusable(old).indexOf(document.activeElement);
    old.replaceWith(part);
    if (focused >= 0) focusable(part)[focused]?.focus({ preventScroll: true });
  }
}

function focusable(part) {
  return [...part.querySelectorAll("a, [tabindex]")];
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    swap(page.querySelector("main"));
    document.title = page.title;
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale");
  }
}

setInterval(refresh, seconds * 1000);
document.addEventListener("visibilitychange", refresh);
