// Without a locale, as with LANG=C, a browser names a language that Intl refuses. The plots ask
// Intl while they are loaded, so this comes first.
try {
  Intl.NumberFormat.supportedLocalesOf(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}
