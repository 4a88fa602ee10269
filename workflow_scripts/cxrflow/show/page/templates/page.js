"use strict";
// The page is whole without this: it folds the contents on a narrow screen, unfolds what a link
// points into, copies commands, and unfolds everything when that is asked for.
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

for (const block of document.querySelectorAll("pre:has(> code)")) {
  const frame = document.createElement("div");
  frame.className = "command";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(block);  // to be copied by hand where a browser forbids it
    navigator.clipboard?.writeText(block.innerText).then(() => { button.textContent = "Copied"; });
  });
  block.replaceWith(frame);
  frame.append(block, button);
}

// Paper shows what the screen shows; this unfolds all of it but long settings.
document.getElementById("unfold").addEventListener("click", () => {
  for (const one of document.querySelectorAll("main details:not(:has(> pre))")) one.open = true;
});
