// Fetches the page again and swaps only the parts that have changed: no flicker, no lost scroll position or focus.
"use strict";
const seconds = Number(document.currentScript.dataset.seconds) || 10;

// Parts have ids and always come in the same order; some are only there when they have something to say.
function swap(fresh) {
  const main = document.querySelector("main");
  for (const old of [...main.children]) {
    if (!fresh.querySelector(`#${old.id}`)) old.remove();
  }
  let next = main.firstElementChild;
  for (const part of [...fresh.children]) {
    const old = document.getElementById(part.id);
    if (old) {
      next = old.nextElementSibling;
      renew(old, part);
    } else {
      main.insertBefore(part, next);
    }
  }
}

function renew(old, part) {
  const selection = getSelection();
  const selected = !selection.isCollapsed && old.contains(selection.anchorNode);
  if (old.innerHTML === part.innerHTML || selected) return;
  const focused = focusable(old).indexOf(document.activeElement);
  old.replaceWith(part);
  if (focused >= 0) focusable(part)[focused]?.focus({ preventScroll: true });
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
