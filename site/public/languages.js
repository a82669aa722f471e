// Shows one language of each pair of code blocks, with a tab for each. A choice counts for all
// pairs of all pages. Without this script both languages are on the page.
const KEY = "highwater-language";

/** @returns {string | null} */
function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function choose(language) {
  try {
    localStorage.setItem(KEY, language);
  } catch {
    // The choice then counts for this page alone.
  }
  for (const show of groups) show(language);
}

/** Puts tabs before the panels, and returns a function that shows one of them. */
function makeTabs(group, number) {
  const panels = [...group.children].filter((child) => child.dataset.language !== undefined);
  const list = document.createElement("div");
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Language");
  const tabs = panels.map((panel, index) => {
    const tab = document.createElement("button");
    const id = `language-${number}-${index}`;
    tab.type = "button";
    tab.id = `${id}-tab`;
    tab.textContent = panel.dataset.language;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", id);
    panel.id = id;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => {
      // The tab stays where it is on the screen while code above it changes its height.
      const before = tab.getBoundingClientRect().top;
      choose(panel.dataset.language);
      window.scrollBy({ top: tab.getBoundingClientRect().top - before, behavior: "instant" });
    });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = tabs[(index + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
    list.append(tab);
    return tab;
  });
  group.prepend(list);
  group.classList.add("has-tabs");
  return (language) => {
    const found = panels.findIndex((panel) => panel.dataset.language === language);
    const shown = found === -1 ? 0 : found;
    for (const [index, panel] of panels.entries()) {
      panel.hidden = index !== shown;
      tabs[index].setAttribute("aria-selected", String(index === shown));
      tabs[index].tabIndex = index === shown ? 0 : -1;
    }
  };
}

const groups = [...document.querySelectorAll(".languages")].map(makeTabs);
for (const show of groups) show(chosen());
