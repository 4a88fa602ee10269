"use strict";
// The page is whole without this: it only folds the contents on a narrow screen, unfolds what a
// link points into, and unfolds everything for print.
const contents = document.getElementById("contents");
const wide = window.matchMedia("(min-width: 70rem)");
const fold = () => { contents.open = wide.matches; };
wide.addEventListener("change", fold);
fold();
contents.addEventListener("click", (event) => {
  if (event.target.closest("a") && !wide.matches) contents.open = false;
});

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let one = target; one; one = one.parentElement) {
    if (one.tagName === "DETAILS") one.open = true;
  }
  target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
reveal();

let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("main details:not([open])")].filter((one) => !one.querySelector(":scope > pre"));
  for (const one of folded) one.open = true;
});
window.addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
